"""The programs of the pages on the client libraries work as they stand."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import psutil
from conftest import Record
from mid_series import native_recorder

from penstock.model.events import SeriesStart

ROOT = Path(__file__).resolve().parents[3]
HOW_TO = ROOT / "docs" / "how-to" / "develop"


def programs_of(page: str, language: str) -> list[str]:
    text = (HOW_TO / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def run(*command: str, environment: Mapping[str, str] = os.environ) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False, env=dict(environment)
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_python(record: Record, tmp_path: Path) -> None:
    """One program after another, as one reads them: later ones use the imports of the first."""
    recorder = record(tmp_path)
    program = tmp_path / "program.py"
    text = "\n".join(programs_of("send-from-python.md", "python"))
    program.write_text(text.replace("127.0.0.1:9900", recorder.address), encoding="utf-8")
    assert run(sys.executable, str(program)) == "20 frames are in the file, 0 were sent twice\n"
    ends = [recorder.series_end() for _ in range(3)]
    assert [(end.frames_written, end.missing, end.problem) for end in ends] == [(20, 0, None)] * 3
    with h5py.File(ends[0].file) as file:
        assert np.allclose(file["/entry/metadata/motor_position"][...], 0.1 * np.arange(20))
        assert 2 < file["/entry/data/data"][7].mean() < 4
    with h5py.File(ends[1].file) as file:
        assert file["/entry/data/data"][:, 0, 0].tolist() == list(range(20))


def test_tango(record: Record, tmp_path: Path, free_port: int) -> None:
    """A real device server without a database, driven by a real Tango client, both as users get them."""
    recorder = record(tmp_path)
    server = (ROOT / "docs" / "examples" / "saver.py").read_text(encoding="utf-8")
    (client,) = programs_of("save-from-lima-or-tango.md", "python")
    device, steering = tmp_path / "saver.py", tmp_path / "client.py"
    device.write_text(server.replace("127.0.0.1:9900", recorder.address), encoding="utf-8")
    steering.write_text(client.replace("45450", str(free_port)), encoding="utf-8")
    address = ["-host", "127.0.0.1", "-port", str(free_port), "-dlist", "lab/penstock/1"]
    serving = subprocess.Popen(
        [sys.executable, "-u", str(device), "test", "-nodb", *address],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert serving.stdout is not None
        assert any("Ready to accept request" in line for line in serving.stdout)
        assert run(sys.executable, str(steering)) == "Ready 19 19\n"
        end = recorder.series_end()
        assert (Path(end.file).name, end.frames_written, end.missing) == ("tango_0000.h5", 20, 0)
        with h5py.File(end.file) as file:
            assert file["/entry/data/data"][:, 5, 5].tolist() == list(range(20))
        # A recorder that does not exist is an error of prepareAcq, in its words.
        recorder.stop()
        failing = subprocess.run(
            [sys.executable, str(steering)], capture_output=True, text=True, timeout=60, check=False
        )
        assert failing.returncode != 0
        assert "no connection to a recorder" in failing.stderr
    finally:
        serving.kill()
        serving.communicate(timeout=30)


def installed(folder: Path) -> dict[str, str]:
    """The client as `cmake --install` puts it there, and what compilers want to know of it."""
    build = ROOT / "build" / "release"
    run("cmake", "--install", str(build), "--component", "client", "--prefix", str(folder))
    (configuration,) = folder.rglob("penstock.pc")
    (library,) = folder.rglob("libpenstock.so")
    return os.environ | {"PKG_CONFIG_PATH": str(configuration.parent), "LD_LIBRARY_PATH": str(library.parent)}


def test_c_and_cpp(record: Record, tmp_path: Path) -> None:
    environment = installed(tmp_path / "client")
    flags = run("pkg-config", "--cflags", "--libs", "penstock", environment=environment).split()
    recorder = record(tmp_path)
    for language, compiler in (("c", ["cc", "-std=c99"]), ("cpp", ["c++", "-std=c++17"])):
        (text,) = programs_of("send-from-c.md", language)
        source, program = tmp_path / f"from.{language}", tmp_path / f"from-{language}"
        source.write_text(text, encoding="utf-8")
        strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        run(*compiler, *strict, "-o", str(program), str(source), *flags)
        said = run(str(program), recorder.address, environment=environment)
        assert said == "20 frames are safe\n"
        end = recorder.series_end()
        assert (Path(end.file).stem, end.frames_written, end.missing) == (f"from-{language}", 20, 0)
        with h5py.File(end.file) as file:
            assert file["/entry/data/data"][:, 100, 100].tolist() == list(range(20))


def test_a_c_program_goes_on_after_kill_minus_nine(record: Record, tmp_path: Path, free_port: int) -> None:
    """As the Python client does it: every frame is there, and what was acknowledged was not sent again."""
    environment = installed(tmp_path / "client")
    flags = run("pkg-config", "--cflags", "--libs", "penstock", environment=environment).split()
    source, program = ROOT / "tests" / "native" / "client" / "sender.c", tmp_path / "sender"
    run("cc", "-std=c99", "-O1", "-Wall", "-Werror", "-o", str(program), str(source), *flags)
    address = ("--listen", f"127.0.0.1:{free_port}", "--resume")
    recorder = record(tmp_path, *address, listen=False)
    recorder.listening()
    sender = subprocess.Popen(
        [str(program), f"127.0.0.1:{free_port}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        recorder.until(SeriesStart)
        wait_until_it_paused(sender.pid, 300)
        pid = native_recorder(recorder.process.pid)
        os.kill(pid, signal.SIGSTOP)
        wait_until_it_paused(sender.pid, 20)
        os.kill(pid, signal.SIGKILL)
        recorder.process.wait(60)
        recorder = record(tmp_path, *address, listen=False)
        said, _ = sender.communicate(timeout=100)
    finally:
        sender.kill()
    status, sent, acknowledged, resent, reconnects = (int(word) for word in said.split())
    assert (status, acknowledged) == (0, sent)
    assert resent >= 1
    assert reconnects >= 1
    end = recorder.series_end()
    assert (end.missing, end.problem) == (0, None)
    with h5py.File(tmp_path / "from-c.h5") as file:
        data = file["/entry/data/data"][...]
    assert (data == (np.arange(sent) % 65536)[:, None, None]).all()


def wait_until_it_paused(pid: int, times: int) -> None:
    """Waits for more pauses of a process. The sender pauses before each frame."""
    process, deadline = psutil.Process(pid), time.monotonic() + 60
    last = process.num_ctx_switches().voluntary + times
    while process.num_ctx_switches().voluntary < last:
        assert time.monotonic() < deadline, "it does not send"
        time.sleep(0.01)
