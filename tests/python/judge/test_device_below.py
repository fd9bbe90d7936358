"""A loop device lies on another device: what others move there counts, too."""

import os
from pathlib import Path

import pytest
from bench_documents import frames_document
from places import MIB, image, mounted

from penstock.bench.judge.meanwhile import Watch, check_alone
from penstock.bench.judge.waits import WaitSampler, devices_below
from penstock.files.storage import find_mount

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")


def test_what_others_write_to_the_device_below_a_loop_device_counts(tmp_path: Path) -> None:
    mount = find_mount(tmp_path)
    if mount is None or not Path("/sys/dev/block", mount.device).exists():
        pytest.skip("temporary files lie on no block device")
    at = tmp_path / "at"
    at.mkdir()
    with mounted(at, "-o", "loop", str(image(at))), Watch(at) as watch:
        with (tmp_path / "others").open("wb") as file:
            file.write(os.urandom(64 * MIB))
            os.fsync(file.fileno())
        seen = watch.seen()
    assert seen.device.startswith("loop")
    assert seen.device_written_bytes < 8 * MIB
    assert seen.below
    assert seen.below_moved_bytes >= 64 * MIB
    document = frames_document()  # of 300 MB, by posix
    others = seen.model_copy(update={"below_moved_bytes": 700_000_000})
    alone = seen.model_copy(update={"below_moved_bytes": 300_000_000})
    assert [check.outcome for check in check_alone(others, document, "")] == ["warning"]
    assert [check.outcome for check in check_alone(alone, document, "")] == ["ok"]


def test_threads_of_devices_that_have_nothing_to_do_with_the_target_do_not_count(tmp_path: Path) -> None:
    at, other, proc = (tmp_path / name for name in ("at", "other", "proc"))
    for each in (at, other):
        each.mkdir()
    (tmp_path / "two").mkdir()
    second = image(tmp_path / "two" / "at")
    with mounted(at, "-o", "loop", str(image(at))), mounted(other, "-o", "loop", str(second)):
        own, others = devices_below(at), devices_below(other)
        both = devices_below(tmp_path)  # it may be on a loop device, too
        (loop,) = (name for name in own if name.startswith("loop") and name not in both)
        (other_loop,) = (name for name in others if name.startswith("loop") and name not in both)
        assert loop != other_loop
        names = {10: f"jbd2/{loop}-8", 11: f"kworker/u8:4-{other_loop}", 12: "kworker/0:1H-kblockd"}
        for number, name in names.items():
            (proc / str(number)).mkdir(parents=True)
            (proc / str(number) / "comm").write_text(f"{name}\n", encoding="utf-8")
            (proc / str(number) / "stat").write_text(f"{number} ({name}) S 2 0 0 0 -1 {0x200000} 0", "ascii")
            (proc / str(number) / "schedstat").write_text("0 0 0", "ascii")
        sampler = WaitSampler(at, proc, tmp_path)
        sampler.start()
        for number in names:
            (proc / str(number) / "schedstat").write_text(f"0 {10**number} 0", "ascii")
        sampler.stop()
    assert sampler.found.waited_ns[-1] == 10**10 + 10**12
