"""Series after series: start, end, and messages to the recorder."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from penstock.client import ClientError, FramesRefusedError, RefusedError, SeriesProblemError
from penstock.model.errors import PenstockError
from penstock.model.events import Event, FrameProblem, PvaProgress, PvaSeriesEnd
from penstock.model.pva import PvaPlan
from penstock.model.text import counted
from penstock.pva.errors import BadFrameError
from penstock.pva.frames import Frame
from penstock.pva.open_series import Damage, OpenSeries, plain_name, tag_of
from penstock.pva.order import Place, Seen

Report = Callable[[Event], None]
# Held frames wait no longer for one before them when none comes.
_HOLD_S = 1.0
_SEND_LOOK_S = 0.5
_CLOSERS = 3
# Of one series; the counts have all.
_PROBLEMS_TOLD = 20


class SeriesSender:
    """Takes frames as they come, and makes series of them."""

    def __init__(self, plan: PvaPlan, report: Report, is_over: Callable[[], bool]) -> None:
        self._plan, self._report, self._is_over = plan, report, is_over
        self._open: OpenSeries | None = None
        self._begun = 0
        self._names: set[str] = set()
        self._closers = ThreadPoolExecutor(_CLOSERS, "pva-close")
        self._closing: list[Future[None]] = []
        self.failures: list[str] = []
        self.damaged = 0
        self._counting = threading.Lock()  # closers count frames as well
        self._last_unique_id: int | None = None
        self._seen = Seen()
        self._reported: set[str] = set()  # fields of the start message: the next series lacks them too

    @property
    def is_done(self) -> bool:
        """All series that were wanted have ended."""
        return self._open is None and 0 < self._plan.series_limit <= self._begun

    @property
    def is_open(self) -> bool:
        return self._open is not None

    def goes_on(self, unique_id: int) -> bool:
        """Whether such a frame would be a new one of the open series' counter."""
        return self._open is not None and self._open.order.is_next(unique_id)

    def take(self, frame: Frame, *, at_connection: bool = False) -> None:
        """Sends it, now or when those before it have come."""
        series = self._open
        again = self._seen.is_again(frame.unique_id, frame.stamp)
        if at_connection and self._seen.is_last(frame.unique_id, frame.stamp):
            again = True  # the channel still shows it
        if again:
            # Of this series or of one that has ended; it begins none.
            if series is not None:
                series.counts.repeated += 1
            return
        if series is not None and (frame.kind != series.kind or tag_of(self._plan, frame) != series.tag):
            self.end(_difference(series, frame, self._plan))
        self._place(frame, again)
        self._send_ready()

    def problem(self, unique_id: int | None, text: str) -> None:
        """A frame that cannot be recorded."""
        series = self._open
        self._tell_damage(series, unique_id, text)
        if series is None or unique_id is None:
            return
        if series.order.take(unique_id, Damage(unique_id, text)) is Place.TAKEN:
            series.last_frame = time.monotonic()
            self._send_ready()

    def _tell_damage(self, series: OpenSeries | None, unique_id: int | None, text: str) -> None:
        with self._counting:
            self.damaged += 1
            is_reported = self.damaged <= _PROBLEMS_TOLD
        if series is not None:
            series.counts.damaged += 1
            is_reported = is_reported or series.counts.damaged == 1
        if is_reported:
            self._report(FrameProblem(event="frame_problem", unique_id=unique_id, damaged=True, message=text))

    def _tell_refusals(self, series: OpenSeries) -> None:
        """Counts a rejection of the recorder. Both sides count a message that is not an image as damaged."""
        for unique_id, damaged, text in series.new_refusals():
            if damaged:
                self._tell_damage(series, unique_id, text)
            else:
                series.counts.refused += 1
                self._report(FrameProblem(event="frame_problem", unique_id=unique_id, message=text))

    def tick(self, disconnected_s: float | None) -> None:
        """Now and then: what has to happen without a frame."""
        series = self._open
        if series is None:
            return
        idle_s = time.monotonic() - series.last_frame
        if series.order.waits and idle_s > _HOLD_S:
            self._send_ready(all_of_them=True)
        if disconnected_s is not None and disconnected_s > self._plan.reconnect_s:
            self.end(f"the channel was disconnected for {self._plan.reconnect_s:g} s")
        elif disconnected_s is None and 0 < self._plan.idle_end_s < idle_s:
            self.end(f"no frame for {self._plan.idle_end_s:g} s")
        elif self._open is not None:
            self._polled(self._open)
            self._tell_refusals(series)

    def progress(self) -> None:
        if self._open is not None:
            counts, series = self._open.counts, self._open.series
            self._report(
                PvaProgress(
                    event="source_progress",
                    channel=self._plan.channel,
                    series_unique_id=series.name,
                    frames_received=counts.received,
                    frames_sent=series.sent,
                    acknowledged=series.acknowledged,
                    missed=self._open.order.missed,
                    damaged=counts.damaged,
                )
            )

    def end(self, why: str) -> None:
        """Ends the open series, if there is one; the recorder closes it while the next one may begin."""
        if self._open is None:
            return
        self._send_ready(all_of_them=True)
        series, self._open = self._open, None
        if series is not None:
            self._hand_over(series, why)

    def finish(self, why: str) -> bool:
        """Ends all series; waits until the recorder has closed the files, or time is up."""
        self.end(why)
        while self._closing and not self._is_over():
            self._closing = list(wait(self._closing, timeout=_SEND_LOOK_S).not_done)
        self._closers.shutdown(wait=not self._closing)
        if self.damaged:
            self.failures.insert(0, _damaged_words(self.damaged))
        return not self._closing

    def abandon(self) -> None:
        """Leaves the open series to whoever resumes it."""
        if self._open is not None:
            self._open.series.abandon()
            self._open = None

    def _place(self, frame: Frame, again: bool | None, first: int | None = None) -> None:
        """Into the open series, or another one. `first` is the uniqueId that a new one begins with."""
        if self._open is None:
            if self.is_done:
                return
            self._open = self._begin(frame, self._first_of(frame) if first is None else first)
        series = self._open
        place = series.order.take(frame.unique_id, frame, again)
        if place is Place.ELSEWHERE:
            self.end(f"uniqueId went to {frame.unique_id}")
            self._place(frame, again)  # which begins where the new series does
            return
        series.last_frame = time.monotonic()
        if place is Place.TAKEN:
            series.counts.received += 1
            self._last_unique_id = frame.unique_id
            self._seen.note(frame.unique_id, frame.stamp)
        elif place is Place.LATE:
            series.counts.late += 1
        else:
            series.counts.repeated += 1

    def _first_of(self, frame: Frame) -> int:
        stated, frames = self._plan.first_unique_id, self._plan.frames
        if stated is None or not 0 <= frame.unique_id - stated <= self._plan.gap_frames_max:
            return frame.unique_id
        if frames == 0:
            return stated
        # A continuous counter: this many frames belong to earlier series.
        return frame.unique_id - (frame.unique_id - stated) % frames

    def _begin(self, frame: Frame, first: int) -> OpenSeries:
        name = self._name(frame)
        self._wait_for_closers()
        try:
            series = OpenSeries(self._plan, frame, first, name)
        except RefusedError as problem:
            # Somebody else's file has the name, say. Frames come all the same.
            other = f"{name}-{_now()}"
            self._notify(f"{problem}; trying it as {other}")
            try:
                series = OpenSeries(self._plan, frame, first, other)
            except ClientError as again:
                raise PenstockError(str(again), "the recorder's message gives the reason") from again
        except ClientError as problem:
            raise PenstockError(str(problem), "check that a recorder listens at this address") from problem
        self._begun += 1
        for field, text in series.start_problems.items():
            if field not in self._reported:
                self._reported.add(field)
                self._notify(text)
        self._tell_gap(first)
        return series

    def _wait_for_closers(self) -> None:
        """A recorder has few series open at once."""
        while True:
            self._closing = [future for future in self._closing if not future.done()]
            if len(self._closing) < _CLOSERS or self._is_over():
                return
            wait(self._closing, timeout=_SEND_LOOK_S, return_when=FIRST_COMPLETED)

    def _tell_gap(self, first: int) -> None:
        """Frames that were lost between two series are missing in neither of them."""
        last = self._last_unique_id
        if last is not None and 1 < first - last <= self._plan.gap_frames_max:
            self._notify(
                f"between the series {first - last - 1} frames are missing: uniqueId changed from {last}"
                f" to {first}"
            )

    def _notify(self, text: str) -> None:
        self._report(FrameProblem(event="frame_problem", unique_id=None, message=text))

    def _name(self, frame: Frame) -> str:
        text = (
            self._plan.name.replace("{attribute}", tag_of(self._plan, frame))
            .replace("{date}", _now())
            .replace("{channel}", self._plan.channel)
        )
        name = plain_name(text)
        candidates = (name if number == 1 else f"{name}-{number}" for number in range(1, 1 << 30))
        found = next(each for each in candidates if each not in self._names)
        self._names.add(found)
        return found

    def _send_ready(self, *, all_of_them: bool = False) -> None:
        series = self._open
        if series is None:
            return
        for frame in series.order.ready(all_of_them=all_of_them):
            over = frame.unique_id - series.first_unique_id
            if 0 < self._plan.frames <= over:
                # Those that were announced have gone by: it is one of the next as many.
                if self._open is series:
                    self._hand_over(series, "all its frames have arrived")
                if isinstance(frame, Damage):
                    continue  # which begins none
                self._place(frame, again=False, first=frame.unique_id - over % self._plan.frames)
            elif self._open is series:
                self._send(series, frame)
        for text in series.problems:
            self._notify(text)
        series.problems.clear()
        if self._open is series and series.order.is_complete:
            self._hand_over(series, "all its frames have arrived")
        elif self._open is not series:
            self._send_ready(all_of_them=all_of_them)

    def _send(self, series: OpenSeries, frame: Frame | Damage) -> None:
        try:
            if isinstance(frame, Frame):
                self._send_frame(series, frame)
            else:
                series.send_damage(frame)
        except SeriesProblemError as problem:
            self._lost(series, problem)
        except ClientError as problem:
            raise PenstockError(str(problem), "check that the recorder is running") from problem

    def _send_frame(self, series: OpenSeries, frame: Frame) -> None:
        try:
            series.send(frame, self._is_over)
        except BadFrameError as problem:
            self._tell_damage(series, frame.unique_id, str(problem))
            series.send_damage(Damage(frame.unique_id, str(problem)))

    def _hand_over(self, series: OpenSeries, why: str) -> None:
        self._open = None
        self._closing.append(self._closers.submit(self._close, series, why))

    def _polled(self, series: OpenSeries) -> None:
        try:
            series.series.poll()
        except SeriesProblemError as problem:
            self._lost(series, problem)
        except ClientError as problem:
            raise PenstockError(str(problem), "check that the recorder is running") from problem

    def _lost(self, series: OpenSeries, problem: ClientError) -> None:
        """The recorder has closed it."""
        self._open = None
        self._ended(series, "the recorder closed it", str(problem))

    def _close(self, series: OpenSeries, why: str) -> None:
        problem = None
        try:
            series.series.close()
        except FramesRefusedError:
            pass  # they are reported one by one
        except ClientError as error:
            problem = str(error)
        self._ended(series, why, problem)

    def _ended(self, series: OpenSeries, why: str, problem: str | None) -> None:
        self._tell_refusals(series)
        counts = series.counts
        counts.refused += series.refusals_untold
        if problem is None and counts.refused:
            problem = f"the recorder rejected {counted(counts.refused, 'frame')}"
        if problem is not None:
            self.failures.append(f"{series.name}: {problem}")
        self._report(
            PvaSeriesEnd(
                event="source_series_end",
                channel=self._plan.channel,
                series_unique_id=series.name,
                reason=why,
                first_unique_id=series.first_unique_id,
                frames_received=counts.received,
                frames_sent=series.series.sent,
                acknowledged=series.series.acknowledged,
                missed=series.order.missed,
                late=counts.late,
                repeated=counts.repeated,
                damaged=counts.damaged,
                refused=counts.refused,
                problem=problem,
            )
        )


def _damaged_words(count: int) -> str:
    return f"{count} corrupt frames" if count > 1 else "1 corrupt frame"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")


def _difference(series: OpenSeries, frame: Frame, plan: PvaPlan) -> str:
    names = ("type", "shape", "codec")
    for name, before, after in zip(names, series.kind, frame.kind, strict=True):
        if before != after:
            return f"{name} went from {before or 'none'} to {after or 'none'}"
    return f"{plan.name_attribute} changed from {series.tag} to {tag_of(plan, frame)}"
