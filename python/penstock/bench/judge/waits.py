"""How long what a storage needs on this machine waited for a processor: sampled while a run is made.

Kernel threads do much of a write (block layer, journal, loop and RAID devices, network file systems), and
the process of a FUSE file system does all of it. On a busy machine they wait for processors as the load
generator's own threads do. So does a virtual machine whose host takes its processors away (steal), and a
control group that has used up its share of them.
"""

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.files.storage import find_mount
from penstock.model.bench.runs import StorageWaits
from penstock.model.plan.system_texts import parse_cgroup

_PERIOD_S = 0.1
# A sample reads one file per kernel thread: of a machine with thousands of them it takes long.
_SHARE_OF_TIME = 0.03
_THREADS_ANEW_S = 1.0
# Of a very long run, samples are further apart: this many in all its time, and a few times that at most.
_SAMPLES = 100_000
_KERNEL_THREAD = 0x0020_0000
# They work for the scheduler, the memory, the network or a screen, not for a write. A worker of the kernel
# has the name of the queue that it serves, or served last, behind its number: "kworker/1:2-virtio_vsock".
_OTHER_WORK = re.compile(
    r"migration/|cpuhp/|idle_inject|rcu|khugepaged|kcompactd|ksmd|watchdog|kdamond|kauditd|psimon"
    r"|kworker/[^-+]*[-+].*(vsock|netns|addrconf|inet|mld|nf_|wg-|tipc|cgroup|mm_percpu|power_efficient"
    r"|drm|i915|tty|hci|bluetooth|usb|thermal|acpi|rcu)"
)
# "jbd2/loop2-8" and "kworker/u8:4-loop2" name the device that they work for.
_WORDS = re.compile(r"[a-z0-9]+")
_BLOCKS = Path("/sys/class/block")
# Of version 2 and 1, in nanoseconds.
_THROTTLED = {"throttled_usec": 1000, "throttled_time": 1}
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class WaitSampler:
    """From `start` to `stop`; `found` is complete afterwards. Its thread does not keep the process alive.

    It holds no descriptors: a server has thousands of kernel threads.
    """

    def __init__(
        self, folder: Path, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")
    ) -> None:
        self._proc = proc
        self._other_devices = _other_devices(folder)
        self._throttled = list(_throttled_files(proc, groups))
        mount = find_mount(folder)
        self._fuse = mount is not None and mount.kind.partition(".")[0] in ("fuse", "fuseblk")
        # Of processes of other users, root alone sees which files are open.
        self._sees_daemon = mount is not None and (
            os.geteuid() == 0 or mount.options.get("user_id") == str(os.geteuid())
        )
        self._names: list[str] = []
        self._before: dict[str, int] = {}
        self._taken_ns = 0
        self._samples: list[tuple[int, int, int]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_on, name="waits", daemon=True)
        self._seen_first: list[str] = []

    def start(self) -> None:
        self._names = list(self._threads())
        self._before = dict(self._readings())
        self._seen_first = list(self._before)
        self._taken_ns = self._taken()
        self._samples.append((time.monotonic_ns(), 0, 0))
        self._thread.start()

    def stop(self) -> None:
        """Once more has no effect."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join()
        self._sample()

    @property
    def found(self) -> StorageWaits:
        daemons = sum(map(_is_of_process, self._seen_first)) if self._sees_daemon else 0
        return StorageWaits(
            kernel_threads=not all(map(_is_of_process, self._seen_first)),
            daemon_threads=daemons if self._fuse else None,
            at_ns=[at for at, _, _ in self._samples],
            waited_ns=[waited for _, waited, _ in self._samples],
            longest_ns=[longest for _, _, longest in self._samples],
        )

    def _sample_on(self) -> None:
        started = looked = time.monotonic()
        period_s = _PERIOD_S
        while not self._stop.wait(period_s):
            began = time.monotonic()
            if began - looked > _THREADS_ANEW_S:
                self._names, looked = list(self._threads()), began
            self._sample()
            now = time.monotonic()
            period_s = max(_PERIOD_S, (now - began) / _SHARE_OF_TIME, (now - started) / _SAMPLES)

    def _sample(self) -> None:
        """A time without waits has one sample at its begin, and one at its end."""
        now = dict(self._readings())
        # A thread that is new counts from now on; one that has ended takes its last wait with it.
        more = {name: waited - self._before.get(name, waited) for name, waited in now.items()}
        waited = {name: ns for name, ns in more.items() if ns > 0 and not self._does_other_work(name)}
        taken_ns = self._taken()
        stolen_ns = max(0, taken_ns - self._taken_ns)
        total_ns = self._samples[-1][1] + sum(waited.values()) + stolen_ns
        longest_ns = self._samples[-1][2] + _longest_ns(waited) + stolen_ns
        self._before, self._taken_ns = now, taken_ns
        if len(self._samples) > 1 and self._samples[-2][1] == total_ns:
            self._samples.pop()
        self._samples.append((time.monotonic_ns(), total_ns, longest_ns))

    def _readings(self) -> Iterator[tuple[str, int]]:
        for name in self._names:
            with contextlib.suppress(OSError, IndexError, ValueError):
                yield name, int((self._proc / name / "schedstat").read_bytes().split()[1])

    def _does_other_work(self, name: str) -> bool:
        """By its name at this moment."""
        with contextlib.suppress(OSError):
            text = (self._proc / name / "comm").read_text(encoding="utf-8", errors="replace")
            return _OTHER_WORK.match(text) is not None or not self._other_devices.isdisjoint(
                _WORDS.findall(text)
            )
        return False

    def _threads(self) -> Iterator[str]:
        with contextlib.suppress(OSError):
            for process in self._proc.iterdir():
                if not process.name.isdecimal():
                    continue
                if self._is_kernel_thread(process):
                    yield process.name
                elif self._fuse and self._serves_fuse(process):
                    with contextlib.suppress(OSError):
                        yield from (
                            str(task.relative_to(self._proc)) for task in (process / "task").iterdir()
                        )

    def _is_kernel_thread(self, process: Path) -> bool:
        """By its flags: in a container, the second process is a user's. Source: proc(5), PF_KTHREAD."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = (process / "stat").read_text(encoding="utf-8", errors="replace")
            return bool(int(text.rpartition(")")[2].split()[6]) & _KERNEL_THREAD)
        return False

    def _serves_fuse(self, process: Path) -> bool:
        with contextlib.suppress(OSError):
            return any(str(file.readlink()) == "/dev/fuse" for file in (process / "fd").iterdir())
        return False

    def _taken(self) -> int:
        """By the host of a virtual machine, and by the limits of control groups."""
        taken_ns = sum(_throttled_ns(file) for file in self._throttled)
        with contextlib.suppress(OSError, ValueError, IndexError):
            first = (self._proc / "stat").read_text(encoding="ascii").partition("\n")[0].split()
            taken_ns += int(first[8]) * 10**9 // _TICKS_PER_S
        return taken_ns


def _longest_ns(waited: Mapping[str, int]) -> int:
    """The longest wait of a kernel thread, and of a thread of a FUSE process.

    A write waits for one thread of a kind at a time, however many there are on a large machine.
    """
    kinds: dict[bool, int] = {}
    for name, ns in waited.items():
        kinds[_is_of_process(name)] = max(ns, kinds.get(_is_of_process(name), 0))
    return sum(kinds.values())


def _is_of_process(name: str) -> bool:
    """Whether it is the name of a thread of a process, and not of the kernel."""
    return "/task/" in name


def _other_devices(folder: Path) -> set[str]:
    """Names of block devices that `folder` does not lie on; none where it is on no block device itself."""
    own = devices_below(folder)
    if not own:
        return set()
    with contextlib.suppress(OSError):
        return {each.name for each in _BLOCKS.iterdir()} - own
    return set()


def devices_below(folder: Path) -> set[str]:
    """Names of the block devices that a folder lies on, with disks, members and files of loop devices."""
    mount = find_mount(folder)
    found: set[str] = set()
    waiting = [] if mount is None else [Path("/sys/dev/block", mount.device)]
    while waiting:
        try:
            device = waiting.pop().resolve(strict=True)
        except OSError:
            continue
        if device.name in found:
            continue
        found.add(device.name)
        if (device / "partition").exists():
            waiting.append(device.parent)
        with contextlib.suppress(OSError):
            waiting += (device / "slaves").iterdir()
        with contextlib.suppress(OSError, UnicodeDecodeError):
            file = (device / "loop" / "backing_file").read_text(encoding="utf-8").strip()
            if (below := find_mount(Path(file))) is not None:
                waiting.append(Path("/sys/dev/block", below.device))
    return found


def _throttled_files(proc: Path, groups: Path) -> Iterator[Path]:
    """Of this process's group and those above it, in both versions of control groups."""
    try:
        paths = parse_cgroup((proc / "self" / "cgroup").read_text(encoding="utf-8"))
    except OSError:
        return
    for controller, folder in (("", groups), ("cpu", groups / "cpu")):
        if controller in paths:
            group = Path(paths[controller].strip("/"))
            yield from (folder / each / "cpu.stat" for each in (group, *group.parents))


def _throttled_ns(file: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in file.read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(" ")
            if name in _THROTTLED:
                return int(value) * _THROTTLED[name]
    return 0
