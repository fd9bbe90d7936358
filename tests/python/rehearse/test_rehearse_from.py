"""Rehearsals whose detector is simulated on another host, over a real OpenSSH server of the test's own."""

import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from network_namespaces import linked
from ports import free_ports
from ssh_server import CLOCK_LIBRARY, SshServer, ssh_server
from warm_command import penstock, popen

from penstock import __version__
from penstock.bench.judge.exit_codes import exit_code_of
from penstock.bench.rehearse.chain import remote_arguments
from penstock.bench.rehearse.request import Images
from penstock.cli.detector_choice import choose_detector
from penstock.model.bench.rehearsals import Rehearsal
from penstock.model.plans import TcpTarget
from penstock.programs.remote import RemoteDetector, clock_ahead_s
from penstock.programs.simulate import Simulation

SMALL = ("custom", "--rows", "256", "--columns", "256", "--rate", "40")
SHORT = ("--seconds", "2", "--search-time", "0", "--soak", "0", "--yes")


@pytest.fixture
def target(tmp_path: Path, programs: dict[str, Path]) -> Path:
    folder = tmp_path / "storage"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with ssh_server(tmp_path_factory.mktemp("ssh") / "server", free_ports(1)) as found:
        yield found


@pytest.fixture
def server(shared_server: SshServer, monkeypatch: pytest.MonkeyPatch) -> SshServer:
    monkeypatch.setenv("PENSTOCK_SSH", shared_server.command)
    return shared_server


def rehearse(target: Path, host: str, *arguments: str) -> Rehearsal:
    """Rehearses a small detector of `host`; a machine that is busy for half a second does not sustain it."""
    done = penstock(
        "rehearse",
        *SMALL,
        str(target),
        *SHORT,
        f"--from={host}",
        "--listen",
        "127.0.0.1:0",
        *arguments,
        "--json",
    )
    found = Rehearsal.model_validate_json(done.stdout)
    assert found.problem is None, done.stderr
    assert int(exit_code_of(found.answer, None)) == done.returncode, done.stderr
    return found


def remote_names(server: SshServer) -> list[str]:
    """Names of the processes that run on the other host, also of a login that has ended."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("SSH_CONNECTION", "").endswith(f" {server.port}"):
                found.append(process.name())
    return found


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_every_frame_of_another_host_is_checked(target: Path, server: SshServer) -> None:
    found = rehearse(target, "dcu", "--seconds", "6", "--buffer-seconds", "10")
    assert found.answer in ("yes", "likely yes")
    assert (found.sender, found.sent, found.missing) == ("dcu", 240, 0)
    rate = next(step for step in found.steps if step.kind == "rate")
    assert [(each.sent, each.compared, each.different) for each in rate.series] == [(240, 240, 0)]
    assert not any("clock" in note for note in found.notes)
    assert list(target.iterdir()) == []
    until(lambda: remote_names(server) == [])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tcsh") is None, reason="tcsh is not installed (Debian: tcsh)")
def test_login_shell_of_the_other_host_need_not_be_posix(target: Path, server: SshServer) -> None:
    assert rehearse(target, "other-shell").missing == 0


@pytest.mark.slow
def test_detector_on_another_host_binds_ports_of_zmq_sources(
    target: Path, server: SshServer, tmp_path: Path, free_port: int
) -> None:
    """The host is an alias of ssh's configuration, which the network does not know."""
    found = rehearse(target, "dcu", "--config", _over_zmq(tmp_path, free_port))
    assert (found.transport, found.missing) == ("zmq", 0)
    assert found.configuration["sources"][0]["endpoint"] == f"tcp://127.0.0.1:{free_port}"


@pytest.mark.slow
@pytest.mark.skipif(CLOCK_LIBRARY is None, reason="libfaketime is not installed (Debian: faketime)")
def test_clock_of_another_host_is_not_used_but_noted(target: Path, server: SshServer) -> None:
    found = rehearse(target, "ahead")
    assert (found.sent, found.missing) == (80, 0)
    rate = next(step for step in found.steps if step.kind == "rate")
    assert rate.delays is not None
    assert rate.delays.written_max_s < 60, "the clock of the other host was used"
    (note,) = [note for note in found.notes if "clock" in note]
    assert "the clock of ahead is 60 min ahead of this machine's" in note
    assert "timedatectl set-ntp true" in note


def test_clocks_may_agree_as_far_as_the_question_took_time() -> None:
    assert clock_ahead_s(100, 100.9, 102.0) == 0
    assert clock_ahead_s(102, 100.9, 102.5) == 0
    assert clock_ahead_s(105, 100.9, 102.0) == pytest.approx(3.0)
    assert clock_ahead_s(90, 100.9, 102.0) == pytest.approx(-9.9)


INSTALL = f"install Penstock {__version__} there"


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("stranger", ["does not accept your key", "Permission denied (publickey)", "ssh-copy-id stranger"]),
        ("closed", ["refuses connections", "port 1:", "start the ssh server on closed", "`Port`"]),
        ("unknown", ["host key is not known", "unknown true` once"]),
        ("elsewhere", ["does not accept your key", "Permission denied (publickey)"]),
        ("modern", ["no matching cipher found", "`Ciphers`"]),
        ("bare", ["penstock cannot be started there", "penstock: not found", INSTALL, "bare sudo ln -sf"]),
        ("old", ["penstock 0.0.1 is installed there", f"{__version__} here", INSTALL, "old sudo ln -sf"]),
        ("nohost.invalid", ["cannot be resolved", "getent hosts nohost.invalid"]),
        ("-oProxyCommand=x", ["is not a host", "USER@HOST"]),
    ],
)
def test_host_that_cannot_be_used_is_named_with_the_remedy(
    target: Path, server: SshServer, host: str, words: list[str]
) -> None:
    arguments = (*SMALL, str(target), *SHORT, f"--from={host}", "--listen", "127.0.0.1:0")
    done = penstock("rehearse", *arguments)
    assert done.returncode == (2 if host.startswith("-") else 5), done.stderr
    for word in ("--from", host, *words):
        assert word in re.sub(r"\s+", " ", done.stderr)
    assert list(target.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("ssh -F 'client", ["PENSTOCK_SSH=ssh -F 'client: ", "No closing quotation", "ssh -p 2222"]),
        ("no-such-ssh -p 22", ["PENSTOCK_SSH: no-such-ssh cannot be started", "unset"]),
    ],
)
def test_ssh_command_that_cannot_be_used_is_named(
    target: Path, monkeypatch: pytest.MonkeyPatch, command: str, words: list[str]
) -> None:
    monkeypatch.setenv("PENSTOCK_SSH", command)
    done = penstock("rehearse", *SMALL, str(target), *SHORT, "--from", "dcu", "--listen", "127.0.0.1:0")
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr


_STANDS_FOR_SSH = '#!/bin/sh\nfor command; do :; done\nexec sh -c "$command"\n'
_STANDS_FOR_PENSTOCK = '#!/bin/sh\ncd "${0%/*}"; cat >detector.yaml; printf "%s\\n" "$@" >arguments\n'


@pytest.mark.parametrize("name", ["pilatus-6m", "timepix3-quad", "rayonix-mx340-hs", "custom", "mine.yaml"])
def test_detector_elsewhere_is_the_one_that_was_chosen_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whatever its catalogue or its files have there."""
    for program, text in (("ssh", _STANDS_FOR_SSH), ("penstock", _STANDS_FOR_PENSTOCK)):
        (tmp_path / program).write_text(text, encoding="utf-8")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PENSTOCK_SSH", str(tmp_path / "ssh"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    own = {"name": "It's mine; $HOME", "rows": 64, "columns": 96, "type": "float32", "rate_hz": 1e-5}
    (tmp_path / "mine.yaml").write_text(json.dumps(own), encoding="utf-8")
    custom = name == "custom"
    shape = (8, 9, "int32") if custom else (None, None, None)
    chosen = choose_detector("rehearse", str(tmp_path / name) if name.endswith("yaml") else name, *shape)
    simulation = Simulation(frames=7, rate_hz=10.0, series_id=1, series_unique_id="x")
    arguments = remote_arguments(Images(chosen), simulation, TcpTarget(host="10.1.2.3", port=9900))
    with RemoteDetector("dcu", chosen, arguments, None, inbox=queue.Queue()) as sender:
        sender._process.wait(30)
    words = (tmp_path / "arguments").read_text(encoding="utf-8").split()
    assert words[:4] == ["simulate", "custom", "--file", "/dev/stdin"]
    assert words[words.index("--rate") + 1] == "10.0"
    assert choose_detector("simulate", "custom", file=tmp_path / "detector.yaml") == chosen


def test_rehearse_takes_the_file_of_a_detector(target: Path, tmp_path: Path) -> None:
    own = {"name": "Mine", "rows": 64, "columns": 96, "type": "uint16"}
    (tmp_path / "mine.yaml").write_text(json.dumps(own), encoding="utf-8")
    done = penstock(
        "rehearse", "custom", str(target), "--file", str(tmp_path / "mine.yaml"), "--rate", "40", "--dry-run"
    )
    assert done.returncode == 0, done.stderr
    assert "Mine at 40 Hz: frames" in done.stdout


def test_sender_elsewhere_needs_an_address_of_this_machine(target: Path) -> None:
    done = penstock("rehearse", *SMALL, str(target), *SHORT, "--from", "there")
    assert done.returncode == 2
    assert "--listen" in done.stderr


def _begin(target: Path, document: Path, *reached: str) -> "subprocess.Popen[str]":
    """Begins a rehearsal with a long soak of `dcu`."""
    times = ("--seconds", "1", "--search-time", "0", "--soak", "300", "--yes")
    return popen(
        "rehearse", *SMALL, str(target), *times, "--from", "dcu", *reached, "--output", str(document)
    )


def _over_zmq(tmp_path: Path, port: int) -> str:
    """A configuration whose detector would go on waiting for a recorder."""
    path = tmp_path / "recorder.yaml"
    path.write_text(
        json.dumps({"sources": [{"kind": "zmq", "endpoint": f"tcp://10.1.2.3:{port}"}]}), encoding="utf-8"
    )
    return str(path)


def _until_soak(document: Path, server: SshServer) -> None:
    until(lambda: document.exists() and len(json.loads(document.read_text())["steps"]) >= 2, 60)
    until(lambda: "penstock-detect" in " ".join(remote_names(server)))
    time.sleep(1)


@pytest.mark.slow
def test_interrupt_ends_the_detector_on_the_other_host(
    target: Path, server: SshServer, tmp_path: Path, free_port: int
) -> None:
    document = tmp_path / "rehearsal.json"
    with _begin(target, document, "--config", _over_zmq(tmp_path, free_port)) as command:
        _until_soak(document, server)
        command.send_signal(signal.SIGINT)
        assert command.wait(30) == 5
    assert Rehearsal.model_validate_json(document.read_bytes()).problem == "it was interrupted"
    until(lambda: remote_names(server) == [])
    assert list(target.iterdir()) == []


@pytest.mark.slow
def test_connection_that_ends_is_named_and_ends_the_detector(
    target: Path, server: SshServer, tmp_path: Path
) -> None:
    document = tmp_path / "rehearsal.json"
    with _begin(target, document, "--listen", "127.0.0.1:0") as command:
        _until_soak(document, server)
        for session in psutil.Process(server.process.pid).children():
            session.kill()
        assert command.wait(60) == 5
    until(lambda: remote_names(server) == [])
    found = Rehearsal.model_validate_json(document.read_bytes())
    assert found.problem is not None
    assert "--from dcu: the connection was lost" in found.problem
    assert found.answer != "yes"
    assert list(target.iterdir()) == []


@pytest.mark.slow
def test_throttled_link_is_named(target: Path, tmp_path: Path, free_port: int) -> None:
    """The recorder at one end of a link of 12.5 MB/s, the sender of 21 MB/s at the other."""
    document = tmp_path / "rehearsal.json"
    with (
        linked("100mbit") as link,
        ssh_server(tmp_path / "ssh", free_port, address=link.far_address, before=tuple(link.far)) as server,
    ):
        shape = ("custom", "--rows", "512", "--columns", "512", "--rate", "40", str(target))
        times = ("--seconds", "4", "--search-time", "0", "--soak", "0", "--yes")
        reached = ("--from", "dcu", "--listen", f"{link.near_address}:9900")
        command = [str(Path(sys.executable).with_name("penstock")), "rehearse", *shape, *times, *reached]
        done = subprocess.run(
            [*link.near, "env", f"PENSTOCK_SSH={server.command}", *command, "--output", str(document)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 1, done.stderr
    found = Rehearsal.model_validate_json(document.read_bytes())
    assert found.answer == "no"
    assert found.narrowest == "network"
    assert found.missing == 0
