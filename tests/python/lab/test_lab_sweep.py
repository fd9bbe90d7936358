"""What a laboratory may not touch when it goes: data and mounts of others. Each was harmed once."""

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from laboratories import SMALL, Run, free_name, requires, traces, up, watchers

from penstock.lab import mounts
from penstock.lab import place as place_module
from penstock.lab.mounts import Mount, connections_below, mounts_below, remove_tree
from penstock.lab.place import DISKS, MARK, Place, places
from penstock.model.errors import PenstockError, UsageError

pytestmark = requires("moosefs")


@pytest.fixture
def name() -> Iterator[str]:
    with free_name() as free:
        yield free


def command(*words: str) -> None:
    subprocess.run(words, check=True)


def test_a_disks_folder_behind_a_link_with_a_users_mount_in_it(run: Run, name: str, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "precious").write_text("1")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    up(run, "xfs", name, "--folder", str(tmp_path / "link" / "disks"))
    inside = tmp_path / "real" / "disks" / "mine"
    inside.mkdir()
    command("mount", "--bind", str(tmp_path / "user"), str(inside))
    assert run("lab", "down", name).returncode == 0
    assert (tmp_path / "user" / "precious").read_text() == "1"
    assert not (tmp_path / "real" / "disks").exists()
    assert not traces(name), traces(name)


def test_a_shared_mount_of_a_user_stays_mounted_elsewhere(run: Run, name: str, tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    command("mount", "-t", "tmpfs", "none", str(host))
    try:
        command("mount", "--make-rshared", str(host))
        (host / "sub").mkdir()
        command("mount", "-t", "tmpfs", "none", str(host / "sub"))
        tree = Path(up(run, "xfs", name)["mount"]) / "tree"
        tree.mkdir()
        command("mount", "--rbind", str(host), str(tree))
        assert run("lab", "down", name).returncode == 0
        assert {each.at for each in mounts_below(host)} == {host, host / "sub"}
    finally:
        subprocess.run(["umount", "--recursive", str(host)], check=False)


def test_a_fuse_file_system_of_a_user_that_is_bound_into_it_is_not_aborted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = Path("/run/penstock-lab/a")
    table = [
        Mount(Path("/mnt/remote"), "51", "fuse.sshfs"),
        Mount(lab / "client-1/mount", "52", "fuse.mfs"),
        Mount(lab / "client-1/mount/remote", "51", "fuse.sshfs"),
        Mount(lab / "server-1/disk", "53", "xfs"),
        Mount(Path("/data"), "52", "xfs"),  # minor numbers of other drivers mean nothing
    ]
    monkeypatch.setattr(mounts, "_table", lambda: table)
    assert connections_below(lab) == [table[1]]


def test_trees_end_at_other_file_systems(tmp_path: Path) -> None:
    (tmp_path / "tree" / "other").mkdir(parents=True)
    (tmp_path / "precious").write_text("1")
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "precious")
    command("mount", "-t", "tmpfs", "none", str(tmp_path / "tree" / "other"))
    try:
        (tmp_path / "tree" / "other" / "mine").write_text("1")
        with pytest.raises(OSError, match="other"):
            remove_tree(tmp_path / "tree")
        assert (tmp_path / "tree" / "other" / "mine").exists()
    finally:
        command("umount", str(tmp_path / "tree" / "other"))
    remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()
    assert (tmp_path / "precious").exists()


def test_a_guard_that_is_late_does_not_sweep_the_next_laboratory(run: Run, name: str) -> None:
    up(run, "xfs", name)
    guard, supervisor = watchers(name)
    os.kill(guard, signal.SIGSTOP)
    os.kill(supervisor, signal.SIGTERM)
    time.sleep(0.5)
    second = run("lab", "up", "xfs", "--name", name, *SMALL)
    os.kill(guard, signal.SIGCONT)
    if second.returncode == 0:
        time.sleep(2)
        assert Path(Place(name).folder / "client-1" / "mount").is_mount()
    else:
        assert "is there already" in second.stderr


@pytest.mark.slow
def test_a_guard_goes_on_sweeping_when_it_is_told_to_end(run: Run, name: str) -> None:
    up(run, "moosefs", name)
    guard, _ = watchers(name)
    for _ in range(200):
        try:
            os.kill(guard, signal.SIGTERM)
        except ProcessLookupError:
            break
        time.sleep(0.005)
    deadline = time.monotonic() + 30
    while traces(name) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not traces(name), traces(name)


@pytest.mark.slow
def test_a_supervisor_that_does_not_answer_is_taken_down(run: Run, name: str) -> None:
    up(run, "xfs", name)
    _, supervisor = watchers(name)
    os.kill(supervisor, signal.SIGSTOP)
    assert run("lab", "down", name).returncode == 0
    assert not traces(name), traces(name)


def test_requests_that_are_none_end_no_laboratory(run: Run, name: str) -> None:
    import socket

    up(run, "xfs", name)
    for request in (b"1\n", b'"x"\n', b"[" * 60_000 + b"\n", b"{}\n", b'{"request": "fail"}\n', b"\xff\n"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(Place(name).socket))
            connection.sendall(request)
            assert b"error" in connection.recv(1 << 16)
    assert run("lab", "status", name).returncode == 0


def test_commands_of_a_laboratory_end_with_it(run: Run, name: str) -> None:
    marker = f"sleep {90000 + os.getpid()}"
    script = f"cd $PENSTOCK_LAB_MOUNT; {marker} & exit 3"
    told = run("lab", "run", "xfs", "--name", name, *SMALL, "--", "sh", "-c", script)
    assert told.returncode == 3
    assert not traces(name), traces(name)
    assert not subprocess.run(["pgrep", "-f", marker], capture_output=True, check=False).stdout


@pytest.mark.slow
def test_faults_compose(run: Run, name: str) -> None:
    up(run, "moosefs", name)

    def state() -> dict[str, object]:
        import json

        nodes = json.loads(run("lab", "status", name, "--json").stdout)["nodes"]
        found: dict[str, object] = next(node for node in nodes if node["name"] == "server-2")
        return found

    for faults in (["fail", "slow"], ["slow", "fail"]):
        for fault in faults:
            more = ["--link", "10MB/s"] if fault == "slow" else []
            assert run("lab", fault, name, "2", *more).returncode == 0
        assert state()["state"] == "failed"
        assert run("lab", "heal", name, "2").returncode == 0
        assert state()["state"] == "up"
        assert state()["processes"]
    shaped = subprocess.run(
        [
            *("nsenter", f"--net={Place(name).folder}/net/server-2", "--"),
            "tc",
            "qdisc",
            "show",
            "dev",
            "eth0",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "tbf" not in shaped.stdout


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--server-cpus", "0"], "--server-cpus"),
        (["--server-cpus", "nan"], "--server-cpus"),
        (["--server-cpus", "100000"], "--server-cpus: 100000 exceeds the maximum of 8192"),
        (["--server-memory", "1KiB"], "--server-memory"),
        (["--folder", "/no/such/folder"], "/no/such"),
        (["--folder", "/run/penstock-lab/inside"], "laboratory"),
    ],
)
def test_impossible_values_are_named(run: Run, name: str, arguments: list[str], word: str) -> None:
    done = run("lab", "up", "xfs", "--name", name, *SMALL, *arguments)
    assert done.returncode == 2, done.stderr
    assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert not traces(name), traces(name)


def test_programs_for_root_are_found_without_their_folder_on_the_path(name: str) -> None:
    words = [sys.executable, "-m", "penstock", "lab", "run", "xfs", "--name", name, *SMALL, "--", "true"]
    environment = {**os.environ, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _left_by_a_reboot(folder: Path, name: str) -> Path:
    """Data without the laboratory's folder in /run."""
    folder.mkdir(mode=0o700, parents=True)
    (folder / "server-1.img").write_bytes(b"data")
    (folder / MARK).write_text(name, encoding="utf-8")
    return folder


@pytest.mark.parametrize("words", [("down",), ("list",)])
def test_data_that_a_reboot_left_are_removed(run: Run, name: str, words: tuple[str, ...]) -> None:
    left = [DISKS / name, DISKS.parent / f"{Place(name).label}-server-1"]
    for folder in left:
        _left_by_a_reboot(folder, name)
    done = run("lab", *words, *([name] if words == ("down",) else []))
    assert done.returncode == 0, done.stderr
    assert not [folder for folder in left if folder.exists()]


def test_data_that_a_reboot_left_in_a_given_folder_are_replaced(run: Run, name: str, tmp_path: Path) -> None:
    left = _left_by_a_reboot(tmp_path / "disks", name)
    up(run, "xfs", name, "--folder", str(left))
    assert (left / "server-1.img").stat().st_size > 4
    assert name in [place.name for place in places()]
    assert not Place(name).orphans()


def test_devices_of_a_folder_that_somebody_removed_are_detached(run: Run, name: str, tmp_path: Path) -> None:
    up(run, "xfs", name, "--folder", str(tmp_path / "disks"))
    shutil.rmtree(tmp_path / "disks")
    assert run("lab", "down", name).returncode == 0
    loops = subprocess.run(["losetup", "--all"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in loops


def test_data_of_other_laboratories_are_not_replaced(name: str, tmp_path: Path) -> None:
    place, other = Place(name), _left_by_a_reboot(tmp_path / "other", "other")
    mine = tmp_path / "mine"
    mine.mkdir()
    in_use = _left_by_a_reboot(tmp_path / "in use", name)
    place.folder.mkdir(parents=True)
    with (in_use / MARK).open() as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)  # a laboratory of that name whose folder is not in this /run
        for folder in (other, mine, in_use):
            with pytest.raises(UsageError, match="exists already"):
                place.make_elsewhere(folder)
    assert (other / "server-1.img").exists()
    assert (in_use / "server-1.img").exists()


def test_data_of_a_laboratory_that_is_up_are_not_orphans(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(name)
    place.folder.mkdir(parents=True)
    DISKS.mkdir(mode=0o700, exist_ok=True)
    place.make_elsewhere(DISKS / name)
    monkeypatch.setattr(place_module, "ROOTS", [place.folder])  # as another runtime directory
    assert name not in [each.name for each in places()]


def test_another_users_folder_of_disks_is_neither_used_nor_searched(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, theirs = Place(name), tmp_path / "penstock-lab"
    monkeypatch.setattr(place_module, "DISKS", theirs)
    _left_by_a_reboot(theirs / name, name)
    os.chown(theirs, pwd.getpwnam("nobody").pw_uid, -1)
    place.folder.mkdir(parents=True)
    assert place.orphans() == []
    with pytest.raises(PenstockError, match="another user"):
        place.make_elsewhere(theirs / "new")
