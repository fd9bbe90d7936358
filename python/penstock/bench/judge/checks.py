"""What makes a measurement sound: named conditions, each with what was expected and what was found."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy

from penstock.bench.data.content import content_text, images_in_turn
from penstock.bench.judge.generator_checks import (
    IN_TIME,
    NOT_THE_BOTTLENECK,
    check_handing_over,
    check_own_work,
    check_running,
    worst_gap,
)
from penstock.bench.judge.rank_checks import check_ranks_end_together, ended_together, make_check, rank_checks
from penstock.bench.statistics.quantiles import latencies_ns, quantile_ns
from penstock.bench.statistics.steady import CHANGE_MIN, Movement, bandwidth_movement, movement_of
from penstock.model.bench.load import (
    FramesWorkload,
    LoadDocument,
    NullBackend,
    RemoteBackend,
    StoreBackend,
    StreamPhase,
    StreamWorkload,
)
from penstock.model.bench.network import NetworkWorkload
from penstock.model.bench.runs import STREAM_S_MIN, Check, CheckOutcome, StreamFigures, Validity
from penstock.model.failure import NO_SPACE
from penstock.model.text import counted
from penstock.model.units import human_bytes, human_number, human_percent, human_seconds

LONG_ENOUGH, LARGE_ENOUGH = "long enough", "large compared with memory (read)"
COMPLETE = "complete"
NO_STEAL, QUIET, AT_HAND = "no steal", "machine quiet", "processors available"
SHORT_S = 10.0
FAR_TOO_SHORT_S = STREAM_S_MIN
# Of a frame's period, or the time itself where the period is short.
JITTER_SHARE, JITTER_MIN_S = 0.1, 1e-3
CEILING_FACTOR, CEILING_FACTOR_MIN = 2.0, 1.1
STEAL_SHARE, STEAL_SHARE_MAX = 0.01, 0.1
OTHERS_SHARE = 0.2
WAIT_SHARE = 0.05
CACHED_SHARE, CACHED_SHARE_MAX = 0.01, 0.1
_REFUSED = "the file system rejects direct I/O"
_OF_SERVERS = "a file counts when the server has it; how much the server keeps in memory is unknown"
# Of a frame's period.
LATENCY_SHARE = 0.05
# By which begin and end differ: what scatters as much says nothing about a steady state.
_SCATTER_FACTOR = 2.0
# Of fewer, the one in which nothing more becomes due is too much of the whole.
_PERIODS_MIN = 10


def validity_of(checks: list[Check]) -> Validity:
    outcomes = {check.outcome for check in checks}
    return "invalid" if "failed" in outcomes else "warned" if "warning" in outcomes else "valid"


def _graded(value: float, warning_above: float, failed_above: float) -> CheckOutcome:
    return "failed" if value > failed_above else "warning" if value > warning_above else "ok"


def frame_checks(
    document: LoadDocument,
    ceiling_hz: float | None,
    memory_file_system: bool,
    direct_cached: str = "",
    longer: str = "",
) -> list[Check]:
    """Returns the checks of a frames workload.

    `direct_cached`: why direct I/O does not reach the storage, see Conditions. `longer`: option that makes
    the run longer, otherwise that of `penstock bench frames`.
    """
    workload = document.plan.workload
    assert isinstance(workload, FramesWorkload)
    longer = longer or ("--seconds" if workload.rate_hz > 0 else "--frames")
    assert document.frames is not None
    seconds = (document.seconds.completed or document.seconds.last_done or 0.0) if document.seconds else 0.0
    checks = [
        check_complete(document),
        check_storage_was_written(document, document.frames.bytes, memory_file_system, direct_cached),
        check_content(document),
        *machine_checks(document, seconds),
        *rank_checks(document),
    ]
    if workload.rate_hz == 0:
        checks += [
            check_long_enough(seconds, longer),
            *check_handing_over(document),
            *check_ranks_end_together(document),
        ]
    if workload.rate_hz > 0:
        checks += [
            check_long_enough(max(seconds, schedule_s(document.frames.due, workload.rate_hz)), longer),
            check_offered_in_time(document, workload),
            check_ceiling(workload, ceiling_hz),
        ]
    return [*checks, *check_steady(document, workload, longer)]


def schedule_s(due: int, rate_hz: float) -> float:
    """The last frame stands for a period, too: 100 at 10 Hz are ten seconds. One at 0.1 Hz is a moment."""
    return round(due / rate_hz, 6) if due >= _PERIODS_MIN else 0.0


def stream_checks(
    document: LoadDocument,
    figures: list[StreamFigures],
    memory_file_system: bool,
    direct_cached: str = "",
    own_cache: str = "",
) -> list[Check]:
    """Of a stream workload. `direct_cached`, `own_cache`: caches that reads may come from, see Conditions."""
    workload = document.plan.workload
    limited = isinstance(workload, StreamWorkload) and workload.seconds_max > 0
    longer = "--size and --seconds" if limited else "--size"
    written = sum(phase.bytes for phase in figures if phase.phase == "write")
    seconds = sum(phase.last_done_s or 0.0 for phase in figures)
    checks = [
        check_complete(document),
        check_storage_was_written(document, written, memory_file_system, direct_cached),
        check_content(document),
    ]
    others_stand = not all(phase.too_short for phase in figures)
    for phase in figures:
        checks += [
            check_long_enough(phase.last_done_s or 0.0, longer, phase.phase, others_stand=others_stand),
            *(check_read_back(phase) if phase.phase == "read" else ()),
        ]
        if phase.too_short and others_stand:  # it has no figure that these could make doubtful
            continue
        checks += [
            *check_together(phase),
            *(
                check_read(document, phase, memory_file_system, direct_cached)
                if phase.phase == "read"
                else ()
            ),
            *check_size(document, phase, memory_file_system, own_cache),
        ]
    checks += [check for measured in document.phases or [] for check in check_own_work(measured)]
    steady = (check for measured in document.phases or [] for check in check_steady_phase(measured, longer))
    return [*checks, *steady, *machine_checks(document, seconds), *rank_checks(document)]


NO_SPACE_ADVICE = "free space on the target, or make the run smaller"


def is_no_space(document: LoadDocument) -> bool:
    """Whether what ended a run is that the storage had no room."""
    return document.failure is not None and document.failure.code == NO_SPACE


def check_complete(document: LoadDocument) -> Check:
    """An interruption leaves sound figures of a shorter run, storage that hangs is what was looked for.

    An error leaves no figures.
    """
    counts = document.frames
    if document.problem is not None and counts is not None and counts.unfinished and not counts.failed:
        return make_check(
            COMPLETE,
            "warning",
            "the run completes",
            document.problem,
            "better",
            "check the servers, devices and logs of the storage: it did not answer",
        )
    if document.problem is not None:
        advice = NO_SPACE_ADVICE if is_no_space(document) else "fix the reported error, then run again"
        return make_check(COMPLETE, "failed", "no error", document.problem, advice=advice)
    actual = interruption_text(document) if document.interrupted else "the run completed"
    return make_check(
        COMPLETE,
        "warning" if document.interrupted else "ok",
        "the run completes",
        actual,
        "either",
        "run again",
    )


def interruption_text(document: LoadDocument) -> str:
    """Returns "interrupted after 3 of 20 s" of a run at a rate, and "it was interrupted" of others."""
    workload, counts = document.plan.workload, document.frames
    if not isinstance(workload, FramesWorkload) or workload.rate_hz <= 0 or counts is None:
        return "it was interrupted"
    after, whole = (human_seconds(count / workload.rate_hz) for count in (counts.due, counts.planned))
    number, _, unit = after.rpartition(" ")
    return f"interrupted after {number if whole.endswith(f' {unit}') else after} of {whole}"


def check_long_enough(
    seconds: float,
    longer: str,
    what: str = "",
    far_too_short_s: float = FAR_TOO_SHORT_S,
    others_stand: bool = False,
) -> Check:
    """Checks the duration of the run, or of `what`.

    `longer` names the options that increase it. A phase that is far too short is left out alone where figures
    of others stand.
    """
    outcome: CheckOutcome = "warning" if seconds < SHORT_S else "ok"
    actual, expected = human_seconds(seconds), f"at least {human_seconds(SHORT_S)}"
    if seconds < far_too_short_s and others_stand:
        actual += f": below {human_seconds(far_too_short_s)}, and left out"
    elif seconds < far_too_short_s:
        outcome, expected = "failed", f"{expected}, and {human_seconds(far_too_short_s)} to count at all"
    return make_check(
        f"{LONG_ENOUGH}{f' ({what})' if what else ''}",
        outcome,
        expected,
        actual,
        "better",
        f"increase {longer}, so that the run shows more than the caches of devices and servers",
    )


def check_storage_was_written(
    document: LoadDocument, written: int, memory_file_system: bool, direct_cached: str = ""
) -> Check:
    """Not the page cache: direct, or forced to storage; or at least more than fits into memory."""
    backend = document.plan.backend
    name, expected = "storage, not the page cache", "direct I/O, or a sync"
    found = _not_through_the_cache(document, memory_file_system, direct_cached)
    if found or isinstance(backend, NullBackend | RemoteBackend):
        return make_check(name, "ok", expected, found)
    memory = int(document.machine["before"]["memory_bytes"].get("total", 0))
    size = f"{human_bytes(written)} written, {human_bytes(memory)} of memory"
    refused = written > 0 and is_direct_refused(document)
    if document.storage.direct or refused:
        size = f"{_REFUSED if refused else direct_cached}; {size}"
    if backend.sync == "none":
        found = size if document.storage.direct or refused else f"neither; {size}"
        return make_check(name, "failed", expected, found, "better", _past_the_cache(document))
    if backend.sync == "end" and written < memory:
        return make_check(
            name,
            "warning",
            expected,
            f"a sync of complete files only; {size}",
            "better",
            f"use {'--buffered ' if refused else ''}--sync each, or write more bytes than memory:"
            " single writes measure the page cache",
        )
    found = f"through the page cache with a sync ({backend.sync})"
    if refused:
        advice = "use --buffered to measure that without this warning"
        return make_check(name, "warning", "direct I/O", f"{_REFUSED}: {found}", "either", advice)
    return make_check(name, "ok", expected, found)


def _not_through_the_cache(document: LoadDocument, memory_file_system: bool, direct_cached: str) -> str:
    """Returns how the run's bytes got past the page cache; "" if they went through it."""
    if isinstance(document.plan.backend, NullBackend):
        return "not applicable: nothing was stored (--backend null)"
    if memory_file_system:
        return "not applicable: the target is memory"
    if isinstance(document.plan.backend, RemoteBackend):
        return _OF_SERVERS
    return "direct I/O" if document.storage.direct and not direct_cached else ""


def is_direct_refused(document: LoadDocument) -> bool:
    """The run was to use direct I/O, and its file system rejected that when files were opened or written."""
    return getattr(document.plan.backend, "direct", False) and not document.storage.direct


def _past_the_cache(document: LoadDocument) -> str:
    """The advice for a run whose bytes may have stayed in the page cache."""
    if is_direct_refused(document):
        return "use --buffered --sync each"
    return "use --sync each" if document.storage.direct else "leave out --buffered, or use --sync each"


def check_content(document: LoadDocument) -> Check:
    plan = document.plan
    repeats = plan.content == "random" and images_in_turn(plan) > 0
    return make_check(
        "incompressible content",
        "ok" if plan.content == "random" and not repeats else "warning",
        "bytes that storage can neither compress nor deduplicate",
        content_text(plan),
        "better",
        "use --format cbf, which has different pixels in each frame"
        if repeats
        else f"leave out --content {plan.content}",
    )


def check_offered_in_time(document: LoadDocument, workload: FramesWorkload) -> Check:
    """The generator's own stalls: frames that it came to late, whatever storage did."""
    assert document.times is not None
    jitter = document.times.jitter
    allowed_s = max(JITTER_MIN_S, JITTER_SHARE / workload.rate_hz)
    most_s = jitter.max_ns * 1e-9
    usual_s = quantile_ns(jitter, 0.999) * 1e-9
    outcome: CheckOutcome = (
        "failed" if most_s > workload.late_after_s else "warning" if usual_s > allowed_s else "ok"
    )
    actual = f"99.9 % within {human_seconds(usual_s)}, all within {human_seconds(most_s)}"
    # It may have stood still when no frame was due any more, and some were being written.
    if (worst := worst_gap(document)) is not None and worst.is_worse_than(outcome):
        outcome, actual = worst.outcome, f"{actual}; it stalled for {worst.actual}"
    return make_check(
        IN_TIME,
        outcome,
        f"99.9 % within {human_seconds(allowed_s)}, all within {human_seconds(workload.late_after_s)}",
        actual,
        "worse",
        "run on an idle machine: another program used the processors",
    )


def check_ceiling(workload: FramesWorkload, ceiling_hz: float | None) -> Check:
    """Without any storage the generator is well above the rate, or it was what was measured."""
    name = NOT_THE_BOTTLENECK
    expected = f"without storage the generator reaches at least {CEILING_FACTOR:g} times the rate"
    if ceiling_hz is None:
        return make_check(name, "warning", expected, "not measured", "worse", "run again")
    factor = ceiling_hz / workload.rate_hz
    outcome: CheckOutcome = (
        "failed" if factor < CEILING_FACTOR_MIN else "warning" if factor < CEILING_FACTOR else "ok"
    )
    return make_check(
        name,
        outcome,
        expected,
        f"{human_number(factor)} times ({human_number(ceiling_hz, 4)} frames/s)",
        "worse",
        "increase --writers, or use a machine with more cores",
    )


def check_steady(document: LoadDocument, workload: FramesWorkload, longer: str) -> Iterator[Check]:
    """Throughput and, at a rate, latency are constant from start to end: nothing fills or warms up."""
    if document.records is None:
        return
    done = numpy.asarray(document.records.done_ns, dtype=numpy.float64)
    if (moved := bandwidth_movement(done[done >= 0])) is not None:
        yield _steady("bandwidth", longer, moved, moved.change < 0)
    if workload.rate_hz == 0:
        return
    latencies = latencies_ns(document.records.done_ns, workload.rate_hz)
    if (moved := movement_of(latencies[latencies >= 0] / 1e9)) is not None:
        # Beside the time that a frame has, microseconds are nothing, however sure they are.
        matters = abs(moved.after - moved.before) > LATENCY_SHARE / workload.rate_hz
        beside = f", or {human_seconds(LATENCY_SHARE / workload.rate_hz)}"
        yield _steady("latency", longer, moved, moved.change > 0, beside, matters=matters)


def check_steady_phase(phase: StreamPhase, longer: str) -> Iterator[Check]:
    """By the bytes of the intervals that are whole: the last one has what came after it, too."""
    if (moved := movement_of(numpy.asarray(phase.series.bytes[:-1], dtype=numpy.float64))) is not None:
        yield _steady(f"bandwidth ({phase.phase})", longer, moved, moved.change < 0)


def _steady(
    what: str, longer: str, found: Movement, got_worse: bool, beside: str = "", *, matters: bool = True
) -> Check:
    """Figures of a storage that gets slower are better than what comes. `beside`: what counts for nothing.

    Unless it `matters`, a change is below that.
    """
    change = human_percent(found.change, sign="+")
    moved = found.moved and matters
    if moved:
        actual = f"{'slower' if got_worse else 'faster'} at the end: {change}"
    elif abs(found.change) <= CHANGE_MIN or not matters:
        actual = f"{change} at the end, within the limit"
    elif found.factor < _SCATTER_FACTOR:
        actual = f"{change} at the end, within the scatter"
    else:
        actual = f"cannot be assessed: the scatter is too large ({change} at the end)"
    return make_check(
        f"steady {what}",
        "warning" if moved else "ok",
        f"constant from start to end, within {100 * CHANGE_MIN:.0f} % or its scatter{beside}",
        actual,
        "better" if got_worse else "worse",
        f"increase {longer}, so that the run reaches a steady state",
    )


def check_together(phase: StreamFigures) -> Iterator[Check]:
    """A thread that ends early leaves the bandwidth to the others."""
    if not phase.first_done_s or not phase.last_done_s:
        return
    share = phase.first_done_s / phase.last_done_s
    yield ended_together(
        f"threads end together ({phase.phase})", share, "increase --size, the bytes per thread"
    )


def check_read_back(phase: StreamFigures) -> Iterator[Check]:
    """Whatever its time was: storage that returns other bytes is told of a moment, too."""
    if phase.mismatches is not None:
        yield make_check(
            "data read equals data written",
            "ok" if phase.mismatches == 0 else "failed",
            "no block differs",
            f"{counted(phase.mismatches, 'block differs', 'blocks differ')}",
            "either",
            "find the cause before you use this storage: it returned different bytes than were written",
        )


def check_read(
    document: LoadDocument, phase: StreamFigures, memory_file_system: bool, direct_cached: str = ""
) -> Iterator[Check]:
    """Where the bytes came from."""
    if memory_file_system or isinstance(document.plan.backend, NullBackend):
        return
    if isinstance(document.plan.backend, RemoteBackend):
        yield make_check(
            "read from storage", "ok", "not from this machine's memory", "the client keeps nothing"
        )
        return
    name, expected = "read from storage", f"at most {100 * CACHED_SHARE:.0f} % in the page cache before"
    cached = phase.cached_share
    # A store is written with direct I/O, and read by HDF5, which goes through it.
    is_direct = document.storage.direct and not isinstance(document.plan.backend, StoreBackend)
    advice = _past_the_cache(document)
    if is_direct and direct_cached:
        yield make_check(
            name,
            "warning",
            expected,
            direct_cached,
            "better",
            "increase --size beyond the memory size, or use storage without that cache",
        )
    elif is_direct and (cached is None or cached <= CACHED_SHARE):
        yield make_check(name, "ok", expected, "direct I/O")
    elif cached is None:
        yield make_check(name, "warning", expected, "not reported by the kernel", "better", advice)
    else:
        # Also of direct I/O: a file system may take O_DIRECT, and use its cache.
        outcome = _graded(cached, CACHED_SHARE, CACHED_SHARE_MAX)
        yield make_check(name, outcome, expected, f"{100 * cached:.1f} %", "better", advice)


def check_size(
    document: LoadDocument, phase: StreamFigures, memory_file_system: bool, own_cache: str
) -> Iterator[Check]:
    """What is read does not fit into a cache that the kernel does not show."""
    kept_nowhere = isinstance(document.plan.backend, NullBackend | RemoteBackend)
    if phase.phase != "read" or memory_file_system or kept_nowhere:
        return
    memory = int(document.machine["before"]["memory_bytes"].get("total", 0))
    sizes = f"{human_bytes(phase.bytes)} read, {human_bytes(memory)} of memory"
    is_small = bool(own_cache) and phase.bytes <= memory
    yield make_check(
        LARGE_ENOUGH,
        "warning" if is_small else "ok",
        "more than memory, or no cache except the page cache, which is checked",
        f"{own_cache}; {sizes}" if own_cache else sizes,
        "better",
        "increase --size beyond the memory size: recently written data may be read from memory",
    )


@dataclass(frozen=True)
class _Processors:
    """Processor-seconds between two looks."""

    all: float
    steal: float
    others: float


def _processors(document: LoadDocument) -> _Processors | None:
    before, after = document.machine["before"], document.machine["after"]
    if not before.get("processor_seconds") or not before.get("own"):
        return None
    spent = {
        name: after["processor_seconds"][name] - seconds
        for name, seconds in before["processor_seconds"].items()
    }
    own = sum(after["own"][name] - before["own"][name] for name in ("user_s", "system_s"))
    total = sum(spent.values())
    busy = total - spent["idle"] - spent["iowait"] - spent["steal"]
    return _Processors(total, spent["steal"], max(0.0, busy - own)) if total > 0 else None


def machine_checks(document: LoadDocument, seconds: float) -> Iterator[Check]:
    """Whether the generator had the machine to itself."""
    spent = _processors(document)
    if spent is not None:
        steal = spent.steal / spent.all
        yield make_check(
            NO_STEAL,
            _graded(steal, STEAL_SHARE, STEAL_SHARE_MAX),
            f"at most {100 * STEAL_SHARE:.0f} % of the processors' time",
            f"{100 * steal:.1f} %",
            "worse",
            "reserve processors for this virtual machine: others used them",
        )
        yield from check_quiet(document)
    workload = document.plan.workload
    yield from _check_waiting(waits_ns(document), seconds, _thread_option(workload))
    if not isinstance(workload, FramesWorkload) or workload.rate_hz == 0:
        yield from check_running(document)


def check_quiet(document: LoadDocument, second_s: float = 0.0) -> Iterator[Check]:
    """`second_s`: of processors, that what was to run beside it used. Nothing where nothing is known."""
    spent = _processors(document)
    if spent is not None:
        others = max(0.0, spent.others - second_s) / spent.all
        yield make_check(
            QUIET,
            "ok" if others <= OTHERS_SHARE else "warning",
            f"others use at most {100 * OTHERS_SHARE:.0f} % of the processors",
            f"{100 * others:.0f} %",
            "worse",
            "stop other programs on this machine, or use another machine",
        )


def waits_ns(document: LoadDocument) -> list[int]:
    if document.generator is not None:
        return [document.generator.pacer_waited_ns, *(w.waited_ns for w in document.generator.writers)]
    if document.metadata is not None:
        return document.metadata.waited_ns
    phases = document.phases or []
    own = [thread.waited_ns for phase in phases for thread in phase.threads]
    return own + [phase.storage_waited_ns for phase in phases if phase.storage_waited_ns is not None]


def _thread_option(workload: object) -> str:
    """Returns the option that sets the number of threads."""
    if isinstance(workload, FramesWorkload):
        return "--writers"
    return "--streams" if isinstance(workload, NetworkWorkload) else "--threads"


def _check_waiting(waits: list[int], seconds: float, option: str) -> Iterator[Check]:
    known = [wait for wait in waits if wait >= 0]
    if not known or seconds <= 0:
        return
    share = max(known) * 1e-9 / seconds
    yield make_check(
        AT_HAND,
        "ok" if share <= WAIT_SHARE else "warning",
        f"no thread waits for a processor for more than {100 * WAIT_SHARE:.0f} % of the time",
        f"waiting for a processor: {100 * share:.1f} % of the time",
        "worse",
        f"reduce {option}, or use a machine with more cores",
    )
