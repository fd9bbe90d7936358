"""An ordinary user brings systems up in a user namespace, uses them, and leaves nothing behind."""

import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ordinary_users import User, new_user, open_fuse, possible, requires

from penstock.lab import place as place_module
from penstock.lab import user as user_module
from penstock.lab.place import place_of, places
from penstock.lab.storage import name_of_laboratory
from penstock.lab.systems.all import SYSTEMS
from penstock.lab.user import make_folder_of_laboratories
from penstock.model.errors import PenstockError

pytestmark = possible


@pytest.fixture
def user() -> Iterator[User]:
    with new_user() as found:
        yield found


def _measured_at(done: "subprocess.CompletedProcess[str]") -> str:
    """Returns the target. A short run, or one on a busy machine, is invalid (exit code 4)."""
    assert done.returncode in (0, 4), done.stderr
    document = json.loads(done.stdout)
    assert 0 in [phase["mismatches"] for phase in document["document"]["phases"]]
    return str(document["target"])


@pytest.mark.slow
@requires("xrootd")
def test_xrootd_serves_is_measured_by_name_and_goes(user: User) -> None:
    state = user.up("xrootd", "--clients", "2", "--link", "1Gb/s")
    assert stat.S_IMODE(user.laboratories.stat().st_mode) == 0o700
    network = user.network()
    assert network.startswith("net:")
    data = user.home / "data"
    data.write_bytes(os.urandom(1 << 20))
    data.chmod(0o644)
    back = str(user.home / "back")
    assert user.inside("xrdcp", "--silent", str(data), f"{state['url']}/a").returncode == 0
    assert user.inside("xrdcp", "--silent", f"{state['url']}/a", back, client=2).returncode == 0
    assert Path(back).read_bytes() == data.read_bytes()
    done = user.run("bench", "stream", f"lab:{user.name}", "--size", "8MiB", "--yes", "--json")
    assert _measured_at(done) == state["url"]
    assert [each["name"] for each in json.loads(user.run("lab", "list", "--json").stdout)] == [user.name]
    assert user.run("lab", "down", user.name).returncode == 0
    user.without_traces(network)


@pytest.mark.slow
@requires("xrootd")
def test_a_server_fails_stalls_and_heals(user: User) -> None:
    user.up("xrootd")

    def server() -> tuple[str, int]:
        nodes = json.loads(user.run("lab", "status", user.name, "--json").stdout)["nodes"]
        (found,) = (node for node in nodes if node["name"] == "server-1")
        return found["state"], found["processes"]

    assert server() == ("up", 1)
    assert user.run("lab", "fail", user.name, "1", "--yes").returncode == 0
    assert server() == ("failed", 0)
    assert user.run("lab", "heal", user.name, "1").returncode == 0
    assert server() == ("up", 1)
    assert user.run("lab", "slow", user.name, "1", "--stall").returncode == 0
    assert server() == ("stalled", 1)
    assert user.inside("timeout", "2", "xrdfs", "10.78.0.1", "ls", "/data").returncode != 0
    assert user.run("lab", "heal", user.name, "1").returncode == 0
    assert user.inside("timeout", "20", "xrdfs", "10.78.0.1", "ls", "/data").returncode == 0


@requires("xrootd")
@pytest.mark.parametrize("whom", ["guard", "supervisor", "both", "command"])
def test_nothing_stays_when_a_process_of_it_is_killed(user: User, whom: str) -> None:
    words = ("lab", "run", "xrootd", "--name", user.name, "--")
    with user.start(*words, "sh", "-c", "readlink /proc/self/ns/net; exec sleep 600") as command:
        assert command.stdout is not None
        network = command.stdout.readline().strip()
        assert network.startswith("net:")
        guard, supervisor = user.watchers()
        victims = {"guard": [guard], "supervisor": [supervisor], "both": [guard, supervisor]}
        for victim in victims.get(whom, [command.pid]):
            os.kill(victim, signal.SIGKILL)
        command.wait(timeout=60)
    if whom == "both":
        deadline = time.monotonic() + 10
        while user.holders() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert user.run("lab", "list").returncode == 0
    user.without_traces(network)


@pytest.mark.parametrize("system", [pytest.param(each, marks=requires(each)) for each in ("dav", "s3")])
def test_systems_that_change_their_user_come_up(user: User, system: str) -> None:
    user.up(system)
    network = user.network()
    assert user.run("lab", "down", user.name).returncode == 0
    user.without_traces(network)


@pytest.mark.parametrize(
    ("words", "reason", "remedy"),
    [
        (["xrootd", "--server-cpus", "0.5"], "control groups", "--link"),
        (["xrootd", "--server-memory", "512MiB"], "control groups", "--link"),
        (["xrootd", "--disks", "loop:1GiB"], "loop devices", "--disks ram"),
        (["xfs"], "loop device", "xrootd"),
        (["gluster"], "trusted", "xrootd"),
    ],
)
def test_what_requires_root_is_refused_with_reason_and_remedy(
    user: User, words: list[str], reason: str, remedy: str
) -> None:
    done = user.run("lab", "up", *words, "--name", user.name)
    assert done.returncode == 2
    assert "requires root" in done.stderr
    assert reason in done.stderr
    assert remedy in done.stderr
    user.without_traces()


def test_the_doctor_says_what_requires_root(user: User) -> None:
    rows = [line.split() for line in user.run("lab", "doctor").stdout.splitlines()]
    states = {row[0]: " ".join(row[1:]) for row in rows if row and row[0] in SYSTEMS}
    assert "trusted" in states["gluster"]
    assert not any("root" in states[name] for name in ("xrootd", "dav", "s3"))


@pytest.mark.slow
@requires("moosefs")
def test_moosefs_is_mounted_inside_alone(user: User) -> None:
    open_fuse(user)
    state = user.up("moosefs")
    network = user.network()
    assert user.inside("sh", "-c", 'echo a > "$PENSTOCK_LAB_MOUNT/a"').returncode == 0
    assert user.inside("cat", f"{state['mount']}/a").stdout == "a\n"
    assert not (Path(state["mount"]) / "a").exists()
    assert user.run("lab", "down", user.name).returncode == 0
    user.without_traces(network)


def test_a_folder_that_another_user_made_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").symlink_to(tmp_path / "theirs")
    with pytest.raises(PenstockError, match="another user"):
        make_folder_of_laboratories(tmp_path / "ours")


def test_folder_of_laboratories_does_not_depend_on_the_environment_of_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, session = tmp_path / "given", tmp_path / "sessions" / "1234"
    given.mkdir()
    monkeypatch.setattr(user_module, "_SESSIONS", session.parent)
    monkeypatch.setattr(user_module, "ordinary_user", lambda: 1234)
    fallback = Path("/tmp/penstock-lab-1234")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(given))
    assert user_module.folders_of_laboratories() == [given / "penstock-lab", fallback]
    session.mkdir(parents=True)
    found = [session / "penstock-lab", given / "penstock-lab", fallback]
    assert user_module.folders_of_laboratories() == found
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))
    assert user_module.folders_of_laboratories() == [found[0], fallback]
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert user_module.folders_of_laboratories() == [found[0], fallback]


def test_laboratories_of_other_sessions_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, theirs = (tmp_path / each for each in ("first", "second", "theirs"))
    (second / "old").mkdir(parents=True)
    (theirs / "not-mine").mkdir(parents=True)
    os.chown(theirs, os.geteuid() + 1, -1)
    monkeypatch.setattr(place_module, "ROOTS", [first, second, theirs])
    assert place_of("old").folder == second / "old"
    assert "old" in [each.name for each in places()]
    assert "not-mine" not in [each.name for each in places()]
    assert name_of_laboratory(str(second / "old" / "client-1" / "mount")) == "old"
