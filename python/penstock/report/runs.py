"""Runs for people."""

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from penstock.bench.judge.holds import outcome_of
from penstock.bench.run.run import Access, FramesRequest
from penstock.lab.clients import text_of_ranks
from penstock.model.bench.load import FramesWorkload, Layout, LoadDocument, NullBackend, StreamWorkload
from penstock.model.bench.percentiles import Percentiles
from penstock.model.bench.runs import Check, FrameFigures, Run, StepOutcome, StreamFigures
from penstock.model.text import counted
from penstock.model.units import (
    human_bytes,
    human_hz,
    human_percent,
    human_rate,
    human_seconds,
    human_size,
)
from penstock.report.cost import cost_rows, profile_rows
from penstock.report.metadata import TOO_SHORT, metadata_view
from penstock.report.network import network_rows
from penstock.report.null import null_text
from penstock.report.science import science_rows
from penstock.report.tables import fact_table, repeated_rows

_STYLE = {"ok": "green", "warning": "yellow", "failed": "bold red"}
_VALIDITY_STYLE = {"valid": "bold green", "warned": "bold yellow", "invalid": "bold red"}


def frames_plan_rows(
    request: FramesRequest, target: str, repetitions: int | None = None, runs: int = 1, clients: str = ""
) -> dict[str, str]:
    """Returns the planned run; `runs` counts repetitions and runs with a background load.

    `clients`: which one each rank uses.
    """
    rows = {
        "target": f"a new directory in {target}, removed afterwards",
        "frames": f"{request.frames}{image_text(request)} of {human_size(request.frame_bytes)},"
        f" {_rate_text(request)}",
        "files": _files_text(request.files, request.bytes),
        "takes": _duration_text(request, runs),
    }
    scheme, is_url, _ = target.partition("://")
    pattern = pattern_rows(request, f"by {scheme}" if is_url else "")
    return rows | pattern | {"clients": clients} | repeated_rows(repetitions)


def _files_text(files: int, size: int) -> str:
    return f"{files}, {human_size(size)} in all" if files else "none; nothing is stored"


def pattern_rows(request: FramesRequest, through: str = "") -> dict[str, str]:
    """How frames are written; `through`: what, if it is not the kernel."""
    cache = through or ("with direct I/O" if request.access.direct else "through the page cache")
    access = f"{cache}, sync: {request.access.sync}"
    if request.access.null is not None:
        access = f"storage: {null_text(request.access.null)}"
    layout = layout_text(request.layout)
    late = human_seconds(request.late_after_s)
    return {
        "writers": f"{_writers_text(request)}, {layout}, {access}",
        "buffer": f"{counted(request.buffer_frames, 'frame')}; a frame is late after {late}",
    }


def layout_text(layout: Layout) -> str:
    return {"file_a_frame": "one file per frame", "file_a_writer": "one file per writer"}[layout]


def image_text(request: FramesRequest) -> str:
    if request.image is None:
        return ""
    image = request.image
    text = f" {image.format} files, {image.rows} x {image.columns} {image.type},"
    if image.source:
        text += f" images of {image.source} in turn,"
    return text


def _writers_text(request: FramesRequest) -> str:
    return (
        str(request.writers) if request.ranks == 1 else f"{request.writers} in each of {request.ranks} ranks"
    )


def _rate_text(request: FramesRequest) -> str:
    if not request.rate_hz:
        return "unpaced"
    return f"{human_hz(request.rate_hz, 6)}, {human_rate(request.rate_hz * request.frame_bytes)}"


def _duration_text(request: FramesRequest, runs: int) -> str:
    if not request.rate_hz:
        return "as long as the storage needs"
    seconds = request.frames / request.rate_hz
    each = f", {counted(runs, 'run')} of {human_seconds(seconds)}" if runs > 1 else ""
    return human_seconds(seconds * runs) + each


def stream_plan_rows(
    workload: StreamWorkload,
    access: Access,
    target: str,
    files: int,
    size: int,
    repetitions: int | None = None,
    through: str = "",
    clients: str = "",
) -> dict[str, str]:
    """`files` and `size`: of all ranks together. `through`: the back end, and the ranks.

    `clients`: which one each rank uses.
    """
    phases = "write, then read" if workload.read else "write"
    verified = ", verified" if workload.verify else ""
    blocks = human_size(workload.thread_bytes // workload.segments)
    depth = access.queue_depth or 1
    queue = f", queue depth {depth} per thread" if depth > 1 else ""
    layout = f"{counted(workload.segments, 'segment')}, each with one block of {blocks} per thread"
    return {
        "target": f"a new directory in {target}, removed afterwards",
        "files": f"{files} of {human_size(size // files)}, {human_size(size)} in all"
        if files
        else "none; nothing is stored",
        "threads": f"{workload.threads}" + (f"; {layout}" if workload.shared else ""),
        "transfers": f"{human_size(workload.transfer_bytes)}, {workload.order}{queue}",
        "phases": f"{phases}{verified}",
        "through": through,
        "clients": clients,
    } | repeated_rows(repetitions)


def run_view(run: Run) -> RenderableType:
    figures = _frames_rows(run.frames) if run.frames else {}
    for phase in run.streams:
        figures |= _stream_rows(phase)
    figures |= _job_rows(run.document)
    if run.network:
        figures |= network_rows(run.network)
    if run.science:
        figures |= science_rows(run.science)
    if run.cost:
        figures |= cost_rows(run.cost)
    if run.profile:
        figures |= profile_rows(run.profile, run.cost)
    view: RenderableType = fact_table(figures)
    if run.workload == "metadata":
        view = Group(metadata_view(run.metadata), *([Text(), view] if figures else []))
    return Group(view, Text(), checks_table(run.checks), Text(), *_conclusion(run))


def _conclusion(run: Run) -> Iterator[Text]:
    """Returns the last lines: whether the metrics may be used, if not, why; whether a rate was sustained."""
    if run.document.interrupted or run.document.problem is not None:
        yield Text(f"INCOMPLETE: {run.document.problem or 'the run was interrupted'}", style="bold red")
    yield Text.assemble("The run is ", (run.validity, _VALIDITY_STYLE[run.validity]), ".")
    failed = [check for check in run.checks if check.outcome == "failed"]
    if failed:
        yield Text("Why:")
        yield from (Text(f"- {check.reported}") for check in failed)
    advice = [f"{check.name}: {check.advice}" for check in failed if check.advice]
    if advice:
        yield Text("What to do:")
        yield from (Text(f"- {each}") for each in dict.fromkeys(advice))
    if rate := rate_text(run):
        yield Text(rate)


# Where more frames were lost, a bound of the loss rate says less than the loss.
_BOUND_MAX = 0.01
_RATE_WORDS: dict[StepOutcome, str] = {
    "held": "sustained",
    "not held": "not sustained",
    "disturbed": "not sustained, but disturbed by other load",
}


def rate_text(run: Run) -> str:
    """Returns "100 Hz not sustained: 1 dropped, 102 late"; empty unless a complete, valid run had a rate.

    The deadline is that of a verdict: half of what the queue takes, or --late-after if that is longer.
    """
    load, figures = run.document.plan.workload, run.frames
    is_complete = not run.document.interrupted and run.document.problem is None
    if figures is None or not isinstance(load, FramesWorkload) or not load.rate_hz or not is_complete:
        return ""
    limit_s = max(load.late_after_s, load.buffer_frames / load.rate_hz / 2)
    outcome, shortcomings, _ = outcome_of(run, limit_s)
    if outcome not in _RATE_WORDS:
        return ""
    counts = {
        "dropped": figures.dropped,
        "failed": figures.failed,
        "unfinished": figures.unfinished,
        "late": figures.late,
    }
    found = [f"{number} {name}" for name, number in counts.items() if number]
    found += [each for each in shortcomings if each.startswith("the backlog")]
    if outcome == "held" and found:
        found.append(f"none after more than {human_seconds(limit_s)}")
    what = f": {', '.join(found)}" if found else ""
    return f"{human_hz(load.rate_hz, 6)} {_RATE_WORDS[outcome]}{what}"


def loss_text(lost: int, due: int, bound_95: float) -> str:
    """Returns the bound of the loss rate if few frames or none were lost, otherwise their share."""
    if due and lost / due > _BOUND_MAX:
        return f"{human_percent(lost / due)} of the frames"
    bound = human_percent(bound_95, 2)
    return f"loss rate below {bound} with 95 % confidence, if frames are lost independently"


def _frames_rows(figures: FrameFigures) -> dict[str, str]:
    of_due = f"of {figures.due}"
    rate = f"{human_hz(figures.needed_hz, 6)}, {human_rate(figures.needed_bytes_per_s)}"
    rows = {"needed": rate} if figures.needed_hz else {}
    rows |= {
        "throughput": human_rate(figures.carried_bytes_per_s),
        "written": f"{figures.written} {of_due}",
        "dropped": f"{figures.dropped} {of_due}",
        "late": f"{figures.late} {of_due}",
    }
    if figures.failed or figures.unfinished:
        rows["failed, unfinished"] = f"{figures.failed}, {figures.unfinished}"
    if figures.needed_hz:
        lost = figures.due - figures.written
        rows["lost"] = f"{lost} {of_due}; {loss_text(lost, figures.due, figures.lost_share_bound_95)}"
    rows |= {
        "latency from due time": _percentiles(figures.latency_ms),
        "write time": _percentiles(figures.service_ms),
        "scheduling delay": _percentiles(figures.jitter_ms),
        "longest stall": human_seconds(figures.stall_s),
        "peak queue depth": counted(figures.held_max, "frame"),
    }
    if figures.recovery_s is not None:
        rows["recovered after"] = human_seconds(figures.recovery_s)
    return rows


def phase_text(figures: StreamFigures) -> str:
    """ "622 MB/s (4.29 GB)", or that it was too short for a rate; what was moved is in the rate's units."""
    moved = human_bytes(figures.bytes)
    if figures.too_short:
        return f"{TOO_SHORT}: {moved} in {human_seconds(figures.last_done_s or 0.0)}"
    return f"{human_rate(figures.bytes_per_s)} ({moved})"


def _stream_rows(figures: StreamFigures) -> dict[str, str]:
    name: str = figures.phase
    rows = {name: phase_text(figures)}
    if figures.first_done_s is not None and figures.last_done_s is not None:
        done = f"{human_seconds(figures.first_done_s)}, {human_seconds(figures.last_done_s)}"
        rows[f"{name}: first, last thread done"] = done
    rows[f"{name}: transfer time"] = _percentiles(figures.service_ms)
    if figures.mismatches is not None:
        rows[f"{name}: corrupt blocks"] = str(figures.mismatches)
    return rows


def _job_rows(document: LoadDocument) -> dict[str, str]:
    """The ranks, and the libraries between them and the files."""
    rows: dict[str, str] = {}
    if isinstance(document.plan.backend, NullBackend):
        rows["storage"] = null_text(document.plan.backend)
    if document.job is not None:
        hosts = len({rank.host for rank in document.job.parts})
        error_s = max((rank.clock_error_ns for rank in document.job.parts), default=0) * 1e-9
        where = counted(hosts, "host")
        rows["ranks"] = (
            f"{document.job.ranks} on {where}, {escape(document.job.library)},"
            f" clocks agree within {human_seconds(error_s)}"
        )
        rows["clients"] = text_of_ranks(document.job.folders)
    if document.storage.hdf5 is not None:
        rows["HDF5"] = document.storage.hdf5
    if document.storage.hints is not None:
        hints = " ".join(f"{name}={value}" for name, value in sorted(document.storage.hints.items()))
        rows["hints in effect"] = escape(hints) or "none"
    return rows


def _percentiles(values: Percentiles) -> str:
    named = (("p50", values.p50), ("p90", values.p90), ("p99", values.p99), ("p99.9", values.p999))
    texts = [f"{name} {human_seconds(value * 1e-3)}" for name, value in named]
    return ", ".join([*texts, f"max {human_seconds(values.max * 1e-3)}"])


def checks_table(checks: Iterable[Check]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("check", "", "expected", "found"):
        table.add_column(title, overflow="fold")
    for check in checks:
        outcome = Text(check.outcome, style=_STYLE[check.outcome])
        table.add_row(escape(check.name), outcome, escape(check.expected), escape(check.actual))
    return table
