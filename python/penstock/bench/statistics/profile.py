"""Where processors spend their time in a run, by what their work is for: with `perf`, where that may be."""

import contextlib
import re
import signal
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from penstock.model.bench.runs import Profile, ProfileSymbol, Run
from penstock.model.errors import PenstockError

_Key = TypeVar("_Key", bound=Hashable)
_FREQUENCY_HZ = 199
_SYMBOLS_KEPT = 20
_ENDS_WITHIN_S = 120.0
_LINE = re.compile(
    r"\s*(?P<percent>[0-9.]+)%\s*\|(?P<thread>[^|]*)\|(?P<module>[^|]*)"
    r"\|\[(?P<ring>[^\]])\] (?P<symbol>.*?)\s*"
)

IDLE, GENERATOR, PROGRAMS, KERNEL = "idle", "load generator", "other programs", "kernel, other"
# The first that fits counts. Modules are those of the kernel, without brackets; `vmlinux` is its core.
_CLASSES: tuple[tuple[str, str, str], ...] = (
    # class, modules, symbols
    (
        IDLE,
        "",
        r"(default|native|intel|acpi|mwait|pv_native|cpuidle|do|poll)\w*(idle|safe_halt)\w*|cpuidle_\w+",
    ),
    (
        "checksums",
        r"raid456|raid6_pq|xor|crc\w*|libcrc\w*",
        r"_*(crc|xor_|raid6_|xxh|sha\d|adler|fletcher|blake|gf_)\w*|\w*_csum\w*|csum_\w+|async_(xor|pq|syndrome)\w*",
    ),
    (
        "copying",
        "",
        r"_*(mem(cpy|move)|copy_|rep_movs|async_copy)\w*|\w*(copy_(user|page|folio|from|to)|_copy_iter|copy_iter)\w*",
    ),
    ("clearing", "", r"_*(clear_page|memset|clear_user|clear_huge)\w*"),
    (
        "compression and encryption",
        r"lz4\w*|zstd\w*|aes\w*|dm_crypt",
        r"_*(lz4|lzo|zstd|huf_|aes|deflate)\w*",
    ),
    (
        "file system",
        r"ext4|jbd2|xfs|btrfs|nfs\w*|fuse|ceph|lustre|l[mo]v|osc|mgc|ptlrpc|beegfs|mmfs\w*|gfs2|f2fs|overlay|9p\w*",
        r"_*(ext4|jbd2|xfs|btrfs|nfs|fuse|ceph|shmem|iomap|vfs|ovl|generic_file|do_iter|ksys|dentry|d_|path|inode)\w*",
    ),
    (
        "network",
        r"veth|ena|mlx\w*|ixgbe|i40e|ice|virtio_net|ib_\w*|rdma\w*|nf_\w*|sunrpc|xprtrdma",
        r"_*(tcp|ip6?|udp|inet|skb|sock|sk|net|netif|napi|dev_(queue|hard)|nf|eth|veth|loopback|virtnet|xprt|rpc)_\w*"
        r"|validate_xmit\w*|kfree_skb\w*|process_backlog",
    ),
    (
        "block layer and devices",
        r"nvme\w*|scsi\w*|sd_mod|dm_\w*|md_mod|raid\w*|virtio_blk|loop|libata|ahci|mpt\w*|megaraid\w*",
        r"_*(blk|bio|submit_bio|nvme|scsi|virtblk|virtqueue|vring|vp|raid5|md|dm|loop|lo|elv|dd|sbitmap|io(read|write)\d+)(_\w*)?",
    ),
    (
        "memory and page cache",
        "",
        r"_*(filemap|folio|page|alloc_page|get_page|free_page|rmqueue|memcg|mem_cgroup|lru|mm|handle_mm|exc_page|kmem|slab|"
        r"kmalloc|kfree|xas|xa|workingset|shrink|balance_dirty|zap|unmap|pte|do_anonymous|charge|try_charge)(_\w*|s\w*)?",
    ),
    (
        "scheduling and locks",
        "",
        r"_*(schedule|finish_task|try_to_wake|wake|update_(curr|load|rq)|enqueue|dequeue|pick_(next|task)|raw_spin|mutex|rwsem|"
        r"down|up|futex|queued_spin|osq|select_task|sched|switch_mm|rcu|hrtimer|tick)(_\w*|d\w*)?",
    ),
)


class Sampled(NamedTuple):
    share: float
    thread: str
    module: str
    symbol: str
    in_kernel: bool


def parse_report(text: str) -> list[Sampled]:
    """Lines of `perf report -t '|' --sort comm,dso,sym`; others are left out."""
    found = []
    for line in text.splitlines():
        if match := _LINE.fullmatch(line):
            found.append(
                Sampled(
                    float(match["percent"]) / 100,
                    match["thread"].strip(),
                    match["module"].strip(),
                    match["symbol"],
                    match["ring"] in "kHg",
                )
            )
    return found


# What the time may have gone into, as `class_of` calls it.
KINDS = (*dict.fromkeys(name for name, _, _ in _CLASSES if name != IDLE), KERNEL, GENERATOR, PROGRAMS)


def class_of(sampled: Sampled) -> str:
    """Returns the purpose of the work. For programs only copying is distinguished."""
    module = sampled.module.strip("[]").removeprefix("kernel.")
    symbol = re.split(r"[.@]", sampled.symbol)[0]
    for name, modules, symbols in _CLASSES:
        if sampled.in_kernel and modules and re.fullmatch(modules, module):
            return name
        if (sampled.in_kernel or name == "copying") and re.fullmatch(symbols, symbol):
            return name
    if sampled.in_kernel:
        return KERNEL
    # Its threads have names of their own.
    return GENERATOR if sampled.thread.startswith("pen") else PROGRAMS


def profile_of(samples: Iterable[Sampled]) -> Profile:
    """Shares are of the time in which processors were not idle. A PenstockError where there was none."""
    idle, classes = 0.0, defaultdict[str, float](float)
    symbols = defaultdict[tuple[str, str, str], float](float)  # of all threads together
    for sampled in samples:
        name = class_of(sampled)
        if name == IDLE:
            idle += sampled.share
        else:
            classes[name] += sampled.share
            symbols[sampled.symbol, sampled.module, name] += sampled.share
    all_busy = sum(classes.values())
    if all_busy <= 0:
        raise PenstockError("perf sampled no work", "make the run longer, so that perf takes more samples")
    return Profile(
        idle_share=idle / (idle + all_busy),
        shares={name: share / all_busy for name, share in _largest_first(classes)},
        symbols=[
            ProfileSymbol(share=share / all_busy, symbol=symbol, module=module, kind=name)
            for (symbol, module, name), share in _largest_first(symbols)[:_SYMBOLS_KEPT]
        ],
    )


def _largest_first(shares: Mapping[_Key, float]) -> list[tuple[_Key, float]]:
    return sorted(shares.items(), key=lambda each: -each[1])


def profiled(wanted: bool, measure: Callable[[], Run], say: Callable[[str], None]) -> Run:
    """The run, with its profile where one is wanted and can be made; otherwise `say` gets the reason."""
    if not wanted:
        return measure()
    run = None
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-profile-") as folder:
            with _recording(Path(folder) / "perf.data") as data:
                run = measure()
            return run.model_copy(update={"profile": profile_of(parse_report(_report(data)))})
    except PenstockError as error:
        if run is None and not isinstance(error, _NoProfileError):
            raise
        say(f"no profile: {error.message}. User, system and stolen time are reported nevertheless.")
        return run if run is not None else measure()


class _NoProfileError(PenstockError):
    """perf cannot be used."""


@contextlib.contextmanager
def _recording(data: Path) -> Iterator[Path]:
    """All processors, from here to the end."""
    command = ["perf", "record", "--quiet", "--all-cpus", f"--freq={_FREQUENCY_HZ}", f"--output={data}"]
    try:
        # perf says nothing when it has begun: a run that takes no time shows whether it may.
        subprocess.run(
            [*command, "true"],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_ENDS_WITHIN_S,
            check=True,
        )
        process = subprocess.Popen(
            command, stderr=subprocess.PIPE, encoding="utf-8", errors="replace", process_group=0
        )
    except FileNotFoundError as error:
        raise _NoProfileError("the program perf is not installed (Debian: linux-perf)") from error
    except subprocess.CalledProcessError as error:
        reason = next(
            (line for line in error.stderr.splitlines() if line.strip()), f"exit code {error.returncode}"
        )
        raise _NoProfileError(
            f"perf is not permitted here ({reason.strip()}); see /proc/sys/kernel/perf_event_paranoid"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise _NoProfileError("perf does not answer") from error
    try:
        yield data
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _report(data: Path) -> str:
    command = [
        "perf",
        "report",
        "--stdio",
        "--quiet",
        "--no-children",
        "--call-graph=none",
        "--percent-limit=0",
    ]
    try:
        return subprocess.run(
            [*command, "--sort=comm,dso,sym", "--field-separator=|", f"--input={data}"],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_ENDS_WITHIN_S,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise PenstockError(f"perf cannot read what it recorded: {error}") from error
