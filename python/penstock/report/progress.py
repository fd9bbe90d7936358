"""Progress: bars on a terminal, plain lines anywhere else."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from penstock.model.events import (
    CheckProgress,
    DetectorProgress,
    DetectorSeriesEnd,
    Event,
    FrameProblem,
    Listening,
    LoadProgress,
    MetricsAddress,
    Note,
    Prepare,
    PvaChannel,
    PvaProgress,
    PvaSeriesEnd,
    RecorderProgress,
    RecorderSeriesEnd,
    Rejected,
    SeriesStart,
    Stall,
    Waiting,
)
from penstock.model.text import counted, missing_words
from penstock.model.units import human_bytes, human_hz, human_rate, human_seconds
from penstock.report.remaining import Pace, left_text

_LINE_INTERVAL_S = 10.0
_FIRST_LINE_AFTER_S = 2.0
_REASONS = ("damaged", "dropped", "lost", "partial")


class ProgressView:
    """Shows a bar for each key on a terminal; elsewhere a line after 2 s, then every 10 s, and at the end.

    Both have the remaining time, once the pace is known.

    With `quiet` it prints only what `say` is called with: warnings, problems and log messages.
    """

    def __init__(
        self, console: Console, clock: Callable[[], float] = time.monotonic, quiet: bool = False
    ) -> None:
        self.console = console
        self._clock = clock
        self._quiet = quiet
        self._tasks: dict[str, TaskID] = {}
        self._due: dict[str, float] = {}
        self._states: dict[str, str] = {}
        self._paces: dict[str, Pace] = {}
        self._ends_at: float | None = None
        self.resumed: dict[str, int] = {}
        """Frames that the files of resumed series had before, by series."""
        self._bars: Progress | None = None
        if console.is_terminal and not quiet:
            self._bars = Progress(
                TextColumn("[bold]{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[text]}"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
                console=console,
            )

    def expect(self, seconds: float) -> None:
        """Shows beside all bars, in place of their own remaining time, that of the whole command."""
        self._ends_at = self._clock() + seconds

    def update(
        self, key: str, done: int, total: int, text: str, state: str = "", left_s: float | None = None
    ) -> None:
        """Shows how far `key` is.

        `total` 0 means that the end is not known. A line with a `state` is printed when that changes, and
        has no remaining time. `left_s` is the remaining time of a wait that is known exactly: its first
        line is printed at once.
        """
        now = self._clock()
        left = "" if state else self._left_text(key, now, done, total, left_s)
        if self._bars is not None:
            if key not in self._tasks:
                self._tasks[key] = self._bars.add_task(escape(key), text="", left="", total=total or None)
            self._bars.update(
                self._tasks[key], completed=done, total=total or None, text=escape(text), left=left
            )
            return
        changed = state != self._states.get(key, "")
        self._states[key] = state
        if state and not changed:
            return
        due = self._due.setdefault(key, now if left_s is not None else now + _FIRST_LINE_AFTER_S)
        if (state and changed) or now >= due:
            self._due[key] = now + _LINE_INTERVAL_S
            self.info(f"{key}: {', '.join(filter(None, (text, left)))}")

    def _left_text(self, key: str, now: float, done: int, total: int, left_s: float | None) -> str:
        if left_s is not None:
            return left_text(left_s)
        found = self._paces.setdefault(key, Pace()).left_s(now, done, total)
        if self._ends_at is None or self._ends_at <= now:
            return "" if found is None else f"about {left_text(found)}"
        whole_s = self._ends_at - now
        if found is not None and found > whole_s:  # the step is slower than was planned
            return f"at least {left_text(found)}"
        return f"about {left_text(whole_s)}"

    def finish(self, key: str, text: str, said: str = "") -> None:
        """Prints the last line about `key`, which stays on the screen; `said` replaces the key."""
        self.end(key)
        self.info(f"{said or key}: {text}")

    def end(self, key: str) -> None:
        """Removes the bar of `key`."""
        if self._bars is not None and key in self._tasks:
            self._bars.remove_task(self._tasks.pop(key))
        for noted in (self._due, self._states, self._paces):
            noted.pop(key, None)

    def end_all(self) -> None:
        """Removes all bars."""
        for key in {*self._tasks, *self._due, *self._states, *self._paces}:
            self.end(key)

    def info(self, text: str) -> None:
        """Prints a line unless the view is quiet."""
        if not self._quiet:
            self.say(text)

    def say(self, text: str) -> None:
        """Prints a line in any case."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            # A bar whose last update was skipped would stay short of its end.
            for task in self._tasks.values():
                self._bars.remove_task(task)
            self._tasks.clear()
            self._bars.stop()


def show(view: ProgressView, event: Event) -> None:
    """Shows one event of any of the programs."""
    match event:
        case SeriesStart():
            view.resumed[event.series_unique_id] = event.frames_before
            view.info(_start_line(event))
        case RecorderProgress():
            view.update(
                event.series_unique_id or "recording",
                event.frames_written,
                event.frames_announced,
                recorder_line(event),
                recorder_state(event),
            )
        case RecorderSeriesEnd():
            before = view.resumed.pop(event.series_unique_id, 0)
            view.finish(event.series_unique_id or "series", recorder_summary(event, before))
        case DetectorProgress():
            view.update("sending", event.frames_sent, event.frames, detector_line(event))
        case DetectorSeriesEnd():
            view.finish("sending", detector_summary(event), said="sent")
        case Prepare():
            view.update(f"preparing {event.what}", event.done, event.total, f"{event.done} of {event.total}")
        case Waiting():
            _show_wait(view, event)
        case CheckProgress():
            share = f"{100 * event.done / event.total:.0f} %" if event.total else "…"
            view.update(event.what or "checking", event.done, event.total, share)
        case Listening() | MetricsAddress():
            view.info(_address_line(event))
        case Note() | Rejected() | Stall():
            pass  # the recorder logs it, with the time
        case PvaChannel() | FrameProblem() | PvaProgress() | PvaSeriesEnd():
            _show_source(view, event)


def _start_line(event: SeriesStart) -> str:
    frames = counted(event.frames, "frame") if event.frames else "open end"
    begins, there = "starts", ""
    if event.frames_before:
        begins, there = "resumes", f", {event.frames_before} already in the file"
    file = f": {event.file}" if event.file else ""
    return f"series {event.series_unique_id} {begins} ({frames}{there}){file}"


def _show_source(view: ProgressView, event: PvaChannel | FrameProblem | PvaProgress | PvaSeriesEnd) -> None:
    match event:
        case PvaChannel():
            view.info(f"channel {event.channel} is {event.state}")
        case FrameProblem():
            view.say(frame_problem_line(event))
        case PvaProgress():
            view.update(event.channel, event.frames_sent, 0, source_line(event))
        case PvaSeriesEnd():
            view.finish(event.channel, source_summary(event))


def frame_problem_line(event: FrameProblem) -> str:
    """ "frame with uniqueId 6 is damaged: uncompressedSize is 2400: …"."""
    which = "frame" if event.unique_id is None else f"frame with uniqueId {event.unique_id}"
    if event.damaged:
        return f"{which} is damaged: {event.message}"
    return event.message if event.unique_id is None else f"{which}: {event.message}"


def source_line(event: PvaProgress) -> str:
    """ "120 frames sent, 118 acknowledged, 3 missed"."""
    text = f"{counted(event.frames_sent, 'frame')} sent, {event.acknowledged} acknowledged"
    return text + "".join(
        f", {getattr(event, name)} {name}" for name in ("missed", "damaged") if getattr(event, name)
    )


def source_summary(event: PvaSeriesEnd) -> str:
    """ "scan-1 ended (no frame for 60 s): 120 frames from uniqueId 1 on, all acknowledged; 3 missed"."""
    safe = (
        "all acknowledged"
        if event.acknowledged == event.frames_sent
        else f"{event.acknowledged} acknowledged"
    )
    text = f"{event.series_unique_id} ended ({event.reason}): {counted(event.frames_sent, 'frame')}"
    text += f" from uniqueId {event.first_unique_id} on, {safe}"
    problems = [
        f"{getattr(event, name)} {name}"
        for name in ("missed", "damaged", "refused", "late", "repeated")
        if getattr(event, name)
    ]
    text += "; " + ", ".join(problems) if problems else ""
    return text + (f"; PROBLEM: {event.problem}" if event.problem else "")


def _address_line(event: Listening | MetricsAddress) -> str:
    return f"metrics at {event.address}" if isinstance(event, MetricsAddress) else sources_line(event)


def _show_wait(view: ProgressView, event: Waiting) -> None:
    if event.reason:
        view.say(receiver_line(event))
        return
    key = f"waiting for {event.address}"
    if event.over:
        view.end(key)
        view.info(f"connected to {event.address}")
        return
    passed = int(event.seconds - event.seconds_left)
    view.update(key, passed, max(1, int(event.seconds)), "", left_s=event.seconds_left)


def show_load(view: ProgressView, event: LoadProgress) -> None:
    """Shows the progress of the load generator."""
    done, total = event.done, event.total
    if event.seconds_left is not None:
        done, total = int(event.seconds), max(1, round(event.seconds + event.seconds_left))
    view.update(event.phase.replace("_", " "), done, total, load_line(event), left_s=event.seconds_left)


def load_line(event: LoadProgress) -> str:
    """ "120 of 250 frames, queue depth 3", "1.2 GB of 4 GB", "800 of 1000, iteration 2", or "800 done"."""
    if event.unit == "operations" and not event.total:  # the end is a time
        return f"{event.done} done"
    if event.phase == "frames":
        return f"{event.done} of {event.total} frames, queue depth {event.held}"
    if event.unit == "operations":
        again = f", iteration {event.iteration + 1}" if event.iteration else ""
        return f"{event.done} of {event.total}{again}"
    if event.phase.startswith("network"):
        return f"{event.done / 1e3:.0f} of {human_seconds(event.total / 1e3)}"
    return f"{human_bytes(event.done)} of {human_bytes(event.total)}"


def sources_line(event: Listening) -> str:
    """ "listening on tcp://127.0.0.1:9900, pulling from tcp://10.1.2.3:31001"."""
    return ", ".join(
        f"{'pulling from' if source in event.pulled else 'listening on'} {source}" for source in event.sources
    )


def receiver_line(event: Waiting) -> str:
    """ "recorder at tcp://127.0.0.1:9900: storage full, waiting"."""
    if event.over:
        return f"recorder at {event.address}: frames are acknowledged again"
    return f"recorder at {event.address}: {event.reason.replace(': ', ', ')}"


def recorder_line(event: RecorderProgress) -> str:
    """ "120 of 250 frames, 622 MB/s in, 71 MB/s out, ratio 8.8, pool 3 %"."""
    announced = f" of {event.frames_announced}" if event.frames_announced else ""
    if event.holdup:
        return f"{event.frames_written}{announced} frames, {event.holdup}"
    if event.ends_in_s is not None:
        return f"{event.frames_written}{announced} frames, {_end_line(event, event.ends_in_s)}"
    parts = [
        f"{event.frames_written}{announced} frames",
        f"{human_rate(event.raw_bytes_per_s)} in",
        f"{human_rate(event.stored_bytes_per_s)} out",
    ]
    if event.stored_bytes and event.frames_received:
        written_share = (
            event.frames_written / event.frames_received
        )  # raw_bytes counts those in flight as well
        parts.append(f"ratio {event.raw_bytes * written_share / event.stored_bytes:.1f}")
    backlog = event.frames_received - event.frames_written
    if backlog > 0:
        parts.append(f"backlog {backlog}")
    if event.pool_bytes:
        parts.append(f"pool {100 * event.pool_used_bytes / event.pool_bytes:.0f} %")
    if event.rejected:
        parts.append(f"{event.rejected} rejected since the recorder's start")
    return ", ".join(parts)


def recorder_state(event: RecorderProgress) -> str:
    """Returns what the series waits for, without the time that passes; empty while frames are written."""
    if event.holdup or event.ends_in_s is None:
        return event.holdup
    return _end_line(event, None)


def _end_line(event: RecorderProgress, ends_in_s: float | None) -> str:
    seconds = "" if ends_in_s is None else f" ({ends_in_s:.0f} s left)"
    missing = event.frames_announced - event.frames_received
    if missing > 0:
        return f"waiting for {missing} missing frames{seconds}"
    if event.frames_written < event.frames_received:
        return "writing the remaining frames"
    return f"waiting for the end of the series{seconds}"


def recorder_summary(event: RecorderSeriesEnd, before: int = 0) -> str:
    """Returns the outcome of the series in one line; `before` frames were in the file of a resumed series."""
    if event.removed:
        return (
            f"{event.file} was deleted during the recording:"
            f" its {counted(event.frames_written, 'frame is', 'frames are')} lost"
        )
    # A message of a frame that arrived in another one is damaged without making the frame missing.
    reasons = {name: getattr(event, name) for name in _REASONS}
    known = event.missing - (event.missing if event.never_came is None else event.never_came)
    reasons = reasons if sum(reasons.values()) == known else {}
    text = f"{counted(event.frames_written, 'frame')} in {event.file}, {human_bytes(event.stored_bytes)}"
    if event.stored_bytes:
        text += f" (ratio {event.raw_bytes / event.stored_bytes:.1f})"
    if before:
        # The bytes are those of the whole file, but the time is that since the resume.
        text += (
            f"; resumed: {counted(before, 'frame was', 'frames were')} in the file,"
            f" {event.frames_written - before} were added"
        )
    elif event.seconds > 0:
        frames_seconds = event.frames_seconds or event.seconds
        text += f", {human_seconds(frames_seconds)}"
        if event.frames_written > 1:  # a single frame has no rate
            text += f", {human_rate(event.raw_bytes / frames_seconds)}"
        text += _closed_after(frames_seconds, event.seconds)
    problems = [missing_words(event.missing, reasons)] if event.missing else []
    others = {name: getattr(event, name) for name in (*_REASONS, "duplicate", "late", "unfiltered")}
    if not event.missing:
        del others["lost"]  # these were sent again
    problems += [f"{count} {name}" for name, count in others.items() if count and name not in reasons]
    if problems:
        text += "; " + ", ".join(problems)
    return text + (f"; PROBLEM: {event.problem}" if event.problem else "")


def _closed_after(frames_seconds: float, seconds: float) -> str:
    """Returns how long the series stayed open after its last frame, if more than a second."""
    return f", closed after {human_seconds(seconds)}" if seconds - frames_seconds > 1 else ""


def detector_line(event: DetectorProgress) -> str:
    late = f", {event.late} behind schedule" if event.late else ""
    if event.frames_sent == event.frames:
        return f"all {counted(event.frames, 'frame')} sent{late}; waiting until the series is closed"
    rate = f", {human_hz(event.rate_hz)}, {human_rate(event.bytes_per_s)}" if event.rate_hz else ""
    return f"{event.frames_sent} of {event.frames} frames{rate}{late}"


def detector_summary(event: DetectorSeriesEnd) -> str:
    """What was sent, in one line, without a problem: that is the command's error."""
    sending_seconds = event.sending_seconds or event.seconds
    faults = event.faults or {}
    frames = counted(event.frames_sent, "frame")
    if event.dropped:
        frames = f"{event.frames_sent - event.dropped} of {frames} ({event.dropped} dropped by --fault)"
    text = f"{frames}, {human_bytes(event.bytes)} in {human_seconds(sending_seconds)}"
    text += f" ({human_hz(event.rate_hz)})" if event.frames_sent > 1 else ""
    text += _closed_after(sending_seconds, event.seconds)
    if event.acknowledged is not None:
        # The recorder acknowledges all frames below a number, also those that never arrived.
        text += f", {event.acknowledged} {'accounted for' if any(faults.values()) else 'acknowledged'}"
    if event.late:
        text += f", {event.late} sent behind schedule (at most by {human_seconds(event.late_max_ms / 1e3)})"
    if event.faults is not None:
        done = ", ".join(f"{count} {kind}" for kind, count in faults.items()) or "none"
        text += f"; faults (seed {event.fault_seed}): {done}"
    return text
