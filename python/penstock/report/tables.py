"""Detectors, files and findings as tables."""

import itertools
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from penstock.model.catalogue import Detector
from penstock.model.events import CheckReport, RecoverReport
from penstock.model.filters import FoundFilter
from penstock.model.findings import (
    CHANGED,
    MISSING_DATASET,
    NO_CHECKSUMS,
    NO_ENTRY,
    NO_ROWS,
    NOT_HDF5,
    TRUNCATED,
    Finding,
    is_clean,
    lacks_checksums,
    lacks_comparison,
    names_completion,
)
from penstock.model.plans import DetectorPlan, FilesTarget, FilterPlan, RecorderPlan, TcpSourcePlan, TcpTarget
from penstock.model.text import (
    counted,
    harmless,
    how_to_complete,
    how_to_complete_cut,
    missing_words,
    recover_command,
)
from penstock.model.units import (
    format_size,
    human_bytes,
    human_hz,
    human_number,
    human_rate,
    human_seconds,
)

if TYPE_CHECKING:  # it loads HDF5
    from penstock.files.inspect import FileInfo, FrameData

_COLUMNS_SHOWN = 10
_PLACES_SHOWN = 3
_RANGES_SHOWN = 10
_NAMES_SHOWN = 3
# A frame is written with its segment.
_WITH_WAIT = {"write": "; includes the wait for the rest of its segment"}
_LEVEL_STYLE = {"error": "bold red", "warning": "yellow", "info": "cyan"}


def filter_table(filters: Iterable[FoundFilter]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("filter", "number", "values", "parameters"):
        table.add_column(title, justify="right" if title == "number" else "left", overflow="fold")
    for found in filters:
        table.add_row(
            escape(found.short_name or found.name),
            str(found.id),
            "kept" if found.keeps_all_values else "may change",
            escape(found.parameters),
        )
    return table


def _filter_words(chosen: FilterPlan) -> str:
    values = ", ".join(str(value) for value in chosen.values)
    words = f"{chosen.name or 'HDF5'} (filter {chosen.id}; {values or 'no parameters'})"
    return f"{chosen.channel}: {words}" if chosen.channel else words


def repeated_rows(repetitions: int | None) -> dict[str, str]:
    """Of the plan of a run."""
    return {} if repetitions is None else {"repeated": f"{counted(repetitions, 'time')}, one after the other"}


def fact_table(rows: dict[str, str]) -> Table:
    """Two columns: what, and its value."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        if value:
            table.add_row(name, escape(harmless(value)))  # before its width is measured
    return table


def info_page(info: "FileInfo") -> RenderableType:
    rows = {
        "file": f"{info.file}, {human_bytes(info.bytes)}"
        + (f", {info.definition}" if info.definition else "")
        + (f", layout {info.layout}" if info.layout else "")
        + (f", export of {info.export_of}" if info.export_of else ""),
        "series": info.series_unique_id or "",
        "detector": info.detector or "",
        **{name.replace("_", " "): _length(value) for name, value in info.detector_fields.items()},
        "wavelength": info.wavelength or "",
        "start": _utc(info.start_time or ""),
        "end": _utc(info.end_time or "") + (f" ({info.ended_by})" if info.ended_by else ""),
    }
    if info.data is not None:
        rows |= _data_rows(info.data, info.frames_announced)
    if info.recoverable is not None:
        frames = max(info.frames_announced or 0, info.data.shape[0] if info.data else 0, info.recoverable)
        rows["unfinished"] = (_so_far if info.being_recorded else _recoverable)(info.recoverable, frames)
    if info.part_of is not None:
        rows["source file"] = f"it has a part of the series in {info.part_of}"
    for number, entry in enumerate(info.entries):
        rows["entries" if number == 0 else " " * number] = entry
    if info.members is not None:
        rows["files"] = info.members.summary
    if info.ledger:
        # Places that read as the fill value are those of the missing frames, except in a scan.
        said = {"filled"} if info.ledger.get("filled") == info.ledger.get("missing") else set()
        rows["frames"] = ", ".join(
            missing_words(count, info.reasons) if name == "missing" else f"{count} {name}"
            for name, count in info.ledger.items()
            if name in ("received", "missing") or (count and name not in info.reasons and name not in said)
        )
        if info.unreachable:
            rows["frames"] += f", {info.unreachable} in source files that are missing or not readable"
    if info.unfitting:
        columns = [f"{count} of {path}" for path, count in info.unfitting.items()]
        hidden = len(columns) - _COLUMNS_SHOWN
        more = f" and of {hidden} more (--json lists them)" if hidden > 0 else ""
        rows["did not fit"] = "values: " + ", ".join(columns[:_COLUMNS_SHOWN]) + more
    for stage in info.timing:
        p50, p99, worst = (human_seconds(value / 1e3) for value in (stage.p50_ms, stage.p99_ms, stage.max_ms))
        rows[f"time to {stage.stage}" if stage.stage != "total" else "received to written"] = (
            f"median {p50}, 99 % within {p99}, at most {worst}" + _WITH_WAIT.get(stage.stage, "")
        )
    for number, text in enumerate(info.missing):
        rows["missing" if number == 0 else " " * number] = text
    parts: list[RenderableType] = [fact_table(rows)]
    if remedy := _remedy_of(info):
        # One line, for copying.
        parts.append(Text(f"what to do: {remedy}", no_wrap=True, overflow="ignore"))
    return Group(*parts, Text(""), Text("\n".join(info.tree)))


def _remedy_of(info: "FileInfo") -> str:
    """Returns what to do about a file; "" if nothing is wrong with it."""
    cut = info.members.unreadable if info.members and not info.being_recorded else {}
    if cut and info.unfinished:
        return (
            f"copy {_first_names(cut)} again from the source, then {recover_command(info.file)};"
            " if this is the only copy, add --salvage"
        )
    if cut:
        return (
            f"copy {_first_names(cut)} again from the source; if this is the only copy:"
            f" {recover_command(info.file)} --salvage"
        )
    if info.recoverable is not None and not info.being_recorded:
        return how_to_complete(info.file, info.can_resume)
    if info.part_of is None:
        return ""
    return f"name the file of the series: penstock info {shlex.quote(info.part_of)}"


def _first_names(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:_NAMES_SHOWN]) + (", …" if len(shown) > _NAMES_SHOWN else "")


def _length(text: str) -> str:
    """Returns "450 µm" of "0.00045 m"; other texts as they are."""
    number, _, unit = text.partition(" ")
    try:
        metres = float(number)
    except ValueError:
        return text
    if unit != "m" or not 0 < metres < 1:
        return text
    return f"{human_number(metres * 1e6, 6)} µm" if metres < 1e-3 else f"{human_number(metres * 1e3, 6)} mm"


def _utc(time: str) -> str:
    """Returns a time of ISO 8601 with "Z" for UTC, as the recorder writes it."""
    return time.removesuffix("+00:00") + "Z" if time.endswith("+00:00") else time


def _data_rows(data: "FrameData", announced: int | None) -> dict[str, str]:
    shape = " x ".join(map(str, data.shape))
    frames = f"{shape} {data.dtype} at {data.path}" + (f", {announced} announced" if announced else "")
    if data.linked_files and not data.stored_bytes:
        return {"data": frames, "stored": f"in {', '.join(data.linked_files)}"}
    ratio = f" of {human_bytes(data.raw_bytes)} (ratio {data.ratio:.2f})" if data.ratio else ""
    return {
        "data": frames,
        "channels": ", ".join(data.channels),
        "chunks": " x ".join(map(str, data.chunks)) if data.chunks else "contiguous",
        "codec": ", ".join(data.filters) or "none",
        "stored": human_bytes(data.stored_bytes) + ratio,
    }


def findings_text(findings: Iterable[Finding]) -> Text:
    """A block for each kind of finding, with its first places. Lines are whole, for searching."""
    text = Text(no_wrap=True, overflow="ignore")
    for (level, what), kind in itertools.groupby(findings, lambda each: (each.level, each.what)):
        places = list(kind)
        text.append(f"{level:<8}", style=_LEVEL_STYLE[level]).append(f"{what}\n", style="bold")
        for finding in places[:_PLACES_SHOWN]:
            values = [f"expected {finding.expected}" if finding.expected else "", finding.actual]
            said = ", found ".join(value for value in values if value)
            text.append(" " * 8 + ": ".join(part for part in (finding.where, said) if part) + "\n")
        if hidden := sum(finding.places for finding in places[_PLACES_SHOWN:]):
            text.append(f"{'':8}and {hidden} more (--json lists them)\n")
        if places[0].remedy:
            text.append(f"{'':8}what to do: {places[0].remedy}\n")
    return text


def conclusion(report: CheckReport) -> Text:
    """The check's last line."""
    if not report.complete:
        found = "no damage" if is_clean(report.findings) else "DAMAGE"
        where = f" ({report.reached})" if report.reached else ""
        return Text(f"interrupted{where}: {found} found until then", style="bold yellow")
    if not report.ok:
        return Text(_foreign(report) or "damage found", style="bold red")
    if lacks_comparison(report.findings):
        return Text("no damage found; pixels not compared", style="bold yellow")
    if lacks_checksums(report.findings):
        pixels = "the compared pixels are equal" if report.compared_frames else "cannot verify the frames"
        return Text(f"no checksums: {pixels}", style="bold yellow")
    if report.frames and not report.segments and not report.compared_frames and _has_copies(report.findings):
        return Text("no damage, but copied frames have no checksums", style="bold yellow")
    return _state(report)


def completion(report: CheckReport, file: Path, can_resume: Callable[[], bool]) -> str:
    """Returns what to do with a file that a recorder left; "" if nothing, or if a finding says it."""
    if report.recoverable is None or report.being_recorded or names_completion(report.findings):
        return ""
    if cut := [each for each in report.findings if each.what == TRUNCATED]:
        return how_to_complete_cut(file, only_salvage=any(each.level == "error" for each in cut))
    return how_to_complete(file, can_resume())


def _state(report: CheckReport) -> Text:
    """Of a file without damage."""
    lacks = ""
    if report.being_recorded:
        return Text(f"no damage; {_so_far(report.recoverable, report.frames)}", style="bold green")
    if report.recoverable is not None:
        lacks = f"UNFINISHED: {_recoverable(report.recoverable, report.frames)}"
    elif report.missing:
        lacks = f"INCOMPLETE: {report.frames - report.missing} of {report.frames} frames are complete"
    elif report.unfinished:
        lacks = "UNFINISHED: the file is open for writing"
    elif without := [each.actual.partition(":")[0] for each in report.findings if each.what == NO_ROWS]:
        lacks = f"times of {', '.join(without)} are missing"
    elif gone := [each.where for each in report.findings if each.what == MISSING_DATASET]:
        more = f" and {len(gone) - 1} more" if gone[1:] else ""
        lacks = f"CHANGED since it was closed: {gone[0]}{more} missing"
    elif any(each.what == CHANGED for each in report.findings):
        lacks = "CHANGED since it was closed"
    return Text(f"no damage, but {lacks}", style="bold yellow") if lacks else Text("fine", style="bold green")


def _foreign(report: CheckReport) -> str:
    """Returns what a file is not, if that is all that is wrong with it."""
    errors = {each.what for each in report.findings if each.level == "error"}
    if report.segments:
        return ""
    if NOT_HDF5 in errors:
        return NOT_HDF5
    return "not a NeXus file" if errors == {NO_ENTRY} else ""


def _has_copies(findings: Iterable[Finding]) -> bool:
    """Returns whether the file is an export, whose checksums are in the recorded file."""
    return any(each.what == NO_CHECKSUMS and each.level == "info" for each in findings)


def report_line(report: CheckReport) -> str:
    """What the check looked at, in one line."""
    is_truncated = any(each.what == TRUNCATED for each in report.findings)
    is_counted = report.complete and not is_truncated and not report.being_recorded
    text = f"{counted(report.frames, 'frame')}, {_not_there(report)}; " if is_counted else ""
    others = report.chunks - report.frame_chunks
    if report.segments:
        text += f"{counted(report.frame_chunks, 'chunk')} of frames in {counted(report.segments, 'segment')}"
        text += f", {counted(others, 'chunk')} of per-frame values" if others else ""
    else:
        text += f"{counted(others, 'chunk')} without checksums"
    text += f", {human_bytes(report.bytes)}"
    if report.compared_frames:
        text += (
            f"; {counted(report.compared_frames, 'frame')} compared pixel by pixel,"
            f" {report.different_frames} different"
        )
    return f"{text} ({human_seconds(report.seconds)})"


def missing_line(report: CheckReport) -> str:
    """Returns the numbers of missing frames: "missing: 92, 319-322 (damaged)"; "" if none are."""
    if not report.missing_ranges:
        return ""
    shown = report.missing_ranges[:_RANGES_SHOWN]
    left = report.missing - sum(each.last - each.first + 1 for each in shown)
    more = f", and {counted(left, 'frame')} more (--json lists them)" if left > 0 else ""
    return f"missing: {', '.join(map(str, shown))}{more}"


def _not_there(report: CheckReport | RecoverReport) -> str:
    reasons = {
        "damaged": report.damaged_frames,
        "dropped": report.dropped_frames,
        "lost": report.lost_frames,
        "partial": report.partial,
    }
    return missing_words(report.missing, reasons)


def _recoverable(frames: int, of: int) -> str:
    return f"{frames} of {of} frames can be recovered (the recorder did not close the file)"


def _so_far(frames: int | None, of: int) -> str:
    if frames is None:
        return "being recorded now"
    return f"being recorded now: {frames}{f' of {of}' if of > frames else ''} frames so far"


def recovery_lines(report: RecoverReport) -> list[str]:
    """What a recovery found and did."""
    verb = "are" if report.written or report.way == "nothing" else "would be"
    there = f"{report.frames - report.missing} of {report.frames} frames {verb} complete"
    if report.missing:
        there += f" ({_not_there(report)})"
    looked = (
        f"{counted(report.segments, 'segment')} of frames, {counted(report.indexed, 'chunk')} in the index"
        f" ({human_seconds(report.seconds)})"
    )
    errors = sum(finding.level == "error" for finding in report.findings)
    remarks = (
        [f"not all of the series: {errors} error{'s' if errors > 1 else ''}, see above"] if errors else []
    )
    if report.indexed:
        remarks.append("chunks in the index were not read again: `penstock check` compares their checksums")
    if report.way == "nothing":
        return [looked, f"nothing to do: {there}", *remarks]
    would = "" if report.written else "would be "
    if report.way == "seal":
        return [looked, f"the file {would or 'is '}sealed: {there}", *remarks]
    if report.way == "rebuild":
        what = f"{counted(report.recovered, 'chunk')} {would}put into HDF5's structures, which are rebuilt"
    elif report.recovered:
        what = f"{counted(report.recovered, 'chunk')} that the index lacked {would}put into it"
    else:
        what = f"the index lacks no chunk; the rest of the file {would or 'is '}completed"
    damaged = f", {counted(report.damaged, 'damaged chunk')} left out" if report.damaged else ""
    return [
        looked,
        what + damaged,
        there + ("" if report.written else "; nothing was written (--dry-run)"),
        *remarks,
    ]


def _gap_words(gaps: list[int]) -> str:
    return "/".join(map(str, gaps if len(set(gaps)) > 1 else gaps[:1])) or "0"


def plan_table(plan: RecorderPlan) -> Table:
    """What `penstock record` would do."""
    rows = {
        "folder": str(plan.folder),
        "file name": plan.file_name + (" (replaces files)" if plan.overwrite else " (never replaces a file)"),
    }
    if plan.files.layout == "per_writer":
        rows["files"] = "one per rank, with a virtual dataset"
    elif plan.files.layout == "split":
        rows["files"] = f"a new one every {counted(plan.files.frames, 'frame')}, with a virtual dataset"
    for number, source in enumerate(plan.sources):
        if isinstance(source, TcpSourcePlan):
            text = f"listen on {source.host}:{source.port}" + (", token required" if source.token else "")
        else:
            text = f"{'bind' if source.bind else 'pull from'} {source.endpoint}"
            if source.element is not None:
                rows_columns = " x ".join(map(str, source.element.grid))
                text += f", element {source.element.number} of {rows_columns}"
                rows_apart, columns_apart = source.element.gaps()
                if any(rows_apart + columns_apart):
                    text += f", gaps {_gap_words(rows_apart)} x {_gap_words(columns_apart)} pixels"
        rows[f"source {number + 1}"] = text
    level = f" level {plan.codec.level}" if plan.codec.level else ""
    filters = plan.codec.filters or []
    how = "; ".join(map(_filter_words, filters)) or f"{plan.codec.encoding}{level}"
    rows["compression"] = f"{how}, {counted(plan.threads, 'thread')}"
    shape = " x ".join(map(str, plan.chunk.shape))
    one = f"{shape} pixels of a frame" if shape else "a whole frame"
    several = (
        f"{shape} pixels of {plan.chunk.frames} frames" if shape else f"{plan.chunk.frames} whole frames"
    )
    rows["chunk"] = several if plan.chunk.frames > 1 else one
    if (dimensions := len(plan.chunk.shape)) not in (0, 2):
        rows["chunk"] += f" of {counted(dimensions, 'dimension')}; single frames for other dimensions"
    if plan.scan.axes:
        axes = " x ".join(f"{axis.name} {axis.points or len(axis.values)}" for axis in plan.scan.axes)
        rows["scan"] = f"{axes}, {plan.scan.order}"
    rows["pool"] = f"{format_size(plan.pool_bytes)}; when it is full: {plan.when_full}"
    rows["durability"] = plan.store.durability
    rows["segments"] = (
        f"{format_size(plan.store.segment_bytes)}, aligned to {format_size(plan.store.alignment_bytes)}"
    )
    rows["placement"] = plan.store.placement
    rows["resume"] = (
        "resumes a series in its file after a crash" if plan.resume else "a series starts in a new file"
    )
    rows["ends"] = f"after {plan.series_limit} series" if plan.series_limit else "with SIGINT or SIGTERM"
    return fact_table(rows)


def simulation_table(plan: DetectorPlan, replayed: str = "") -> Table:
    """What `penstock simulate` would send; `replayed` names the images, where there are some."""
    detector = Detector.model_validate(plan.detector)
    total = plan.frames * detector.frame_bytes
    rows = {
        "detector": f"{detector.name}, {detector.rows} x {detector.columns} {detector.type}",
        "frames": f"{plan.frames} of {human_bytes(detector.frame_bytes)}, {human_bytes(total)} uncompressed",
        "images": f"replayed from {replayed or plan.replay}"
        if plan.replay
        else f"simulated, seed {plan.seed}, {plan.distinct_frames} different",
        "sent as": plan.encoding,
    }
    if plan.rate_hz > 0:
        seconds = human_seconds(plan.frames / plan.rate_hz)
        rows["rate"] = (
            f"{human_hz(plan.rate_hz, 6)}, {human_rate(plan.rate_hz * detector.frame_bytes)}, {seconds}"
        )
    else:
        rows["rate"] = "unpaced"
    match plan.to:
        case TcpTarget():
            rows["to"] = "tcp://" + ", ".join(plan.to.addresses)
        case FilesTarget():
            rows["to"] = f"one {plan.to.format} file per frame in {plan.to.folder}"
        case _:
            rows["to"] = f"clients that pull from {', '.join(plan.to.endpoints)}"
    if plan.elements is not None:
        rows["elements"] = f"{plan.elements[0]} x {plan.elements[1]}, one stream each"
        if plan.element_gap is not None:
            rows["elements"] += f", {plan.element_gap[0]} x {plan.element_gap[1]} pixels apart"
        if not plan.elements_told:
            rows["elements"] += "; named in the recorder's configuration"
    if plan.faults is not None:
        kinds = ", ".join(rule.kind for rule in plan.faults.rules) or "none"
        rows["faults"] = f"{kinds}; seed {plan.faults.seed}"
    rows["series"] = plan.series_unique_id
    return fact_table(rows)
