"""Runs the demonstration: two series through one recorder, then the check, the summary and the pictures."""

import contextlib
import queue
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.demo.summary import PhaseResult, Summary
from penstock.files.aside import aside
from penstock.files.hdf5 import open_for_reading
from penstock.files.images.replay import Replay, image_files, replay_file
from penstock.files.space import require_space
from penstock.files.timing import Percentiles, RatePoint, rate_curve, stage_percentiles
from penstock.model.catalogue import Detector, detector_named, frames_for, replayed_detector
from penstock.model.configuration import Configuration, TcpSource
from penstock.model.errors import PenstockError, UsageError
from penstock.model.events import (
    DetectorSeriesEnd,
    Listening,
    RecorderProgress,
    RecorderSeriesEnd,
)
from penstock.model.plans import GIB, MIB, DetectorPlan, TcpTarget
from penstock.model.text import counted
from penstock.model.units import human_hz, split_address
from penstock.programs.check import check_plan, check_to_the_end
from penstock.programs.locate import detectors_folder, find_program
from penstock.programs.process import Message, Program, forwarding_signals, wait_for
from penstock.programs.signals import came_since
from penstock.programs.simulate import Simulation, detector_plan
from penstock.report.progress import ProgressView, show

MARKER = "penstock-demo"
_EXPECTED_RATIO = 4.0
# It stays a demonstration: what one machine's storage takes, and no more frames than a viewer follows.
_BYTES_PER_S_MAX = 640e6
_RATE_MAX_HZ = 500.0
_RATE_UNKNOWN_HZ = 25.0
_START_TIMEOUT_S = 20.0
_STALL_TIMEOUT_S = 60.0
_LOOK_INTERVAL_S = 1.0
_REPLAY_MEMORY_BYTES = GIB


@dataclass(frozen=True)
class DemoOptions:
    """What to demonstrate. `frames_fast` frames go as fast as they can.

    `rate_hz` None: the detector's own, but no more than _RATE_MAX_HZ and _BYTES_PER_S_MAX.
    """

    folder: Path
    detector: str = "pilatus-6m"
    data: Path | None = None
    rate_hz: float | None = None
    seconds: float = 10.0
    frames_fast: int = 400
    threads: int = 2

    def rate_of(self, detector: Detector) -> float:
        """Frames a second of the paced phase."""
        if self.rate_hz is not None:
            return self.rate_hz
        own = detector.rate_hz or _RATE_UNKNOWN_HZ
        return min(own, _RATE_MAX_HZ, max(_BYTES_PER_S_MAX / detector.frame_bytes, 1.0))

    def paced_as(self, detector: Detector) -> str:
        """The paced phase's title."""
        rate = self.rate_of(detector)
        least = f" (of {human_hz(detector.rate_hz, 6)})" if rate < detector.rate_hz else ""
        return f"at {human_hz(rate, 6)}{least}"


def demo_options(folder: Path, detector: str, data: Path | None, threads: int, *, quick: bool) -> DemoOptions:
    """The usual demonstration, or a quick one."""
    size = {"seconds": 3.0, "frames_fast": 100} if quick else {"seconds": 10.0, "frames_fast": 400}
    return DemoOptions(
        folder=folder,
        detector=detector,
        data=data,
        threads=threads,
        seconds=size["seconds"],
        frames_fast=int(size["frames_fast"]),
    )


@dataclass(frozen=True)
class Input:
    """What the detector shows."""

    detector: Detector
    replay: Replay | None
    source: str


@dataclass(frozen=True)
class RecordedSeries:
    """One series, as reported by the detector and the recorder."""

    title: str
    asked_hz: float
    sent: DetectorSeriesEnd
    recorded: RecorderSeriesEnd

    @property
    def file(self) -> Path:
        return Path(self.recorded.file)


def run_demo(options: DemoOptions, view: ProgressView) -> Summary:
    """Leaves files, summary.json and pictures in options.folder. Raises PenstockError with what failed."""
    for program in ("penstock-recorder", "penstock-detector", "penstock-check"):
        find_program(program)
    base = detector_named(detectors_folder(), options.detector)
    if options.data is not None:
        image_files([options.data])  # refused before an earlier demonstration is removed
    prepare_folder(options.folder)
    with open_input(options, base, view) as shown:
        paced = frames_for(options.seconds, options.rate_of(shown.detector))
        frames = paced + options.frames_fast
        need = int(frames * shown.detector.frame_bytes / _EXPECTED_RATIO) + 256 * MIB
        require_space(options.folder, need, "the demonstration")
        series = _record_phases(options, shown, view)
        against = {"npy": str(shown.replay.path)} if shown.replay else {"recorded": True}
        phases = [_checked(each, against, options.threads, view) for each in series]
    summary = Summary(source=shown.source, detector=shown.detector.full_name, phases=phases)
    (options.folder / "summary.json").write_text(summary.model_dump_json(indent=2) + "\n", encoding="utf-8")
    _draw(options.folder, series)
    return summary


def prepare_folder(folder: Path) -> None:
    """Makes the folder, or empties it if an earlier demonstration made it. Never touches any other."""
    marker = folder / MARKER
    if folder.exists() and any(folder.iterdir()) and not marker.is_file():
        raise UsageError(
            f"{folder} has files that no demonstration created",
            "choose another --folder, or empty this one",
        )
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_file() and path.suffix in (".h5", ".png", ".json"):
            path.unlink()
    marker.write_text(
        "Made by `penstock demo`, which replaces the files here when it runs again.\n", encoding="utf-8"
    )


@contextlib.contextmanager
def open_input(options: DemoOptions, base: Detector, view: ProgressView) -> Iterator[Input]:
    """Images of options.data, or simulated ones."""
    if options.data is None:
        yield Input(base, None, "simulated frames (no folder of images was given)")
        return
    reading = "reading images"
    with replay_file(
        [options.data],
        _REPLAY_MEMORY_BYTES,
        frames_for(options.seconds, options.rate_of(base)),
        lambda n, of: view.update(reading, n, of, f"{n} of {of}"),
    ) as replay:
        view.finish(
            reading, f"{counted(replay.frames, 'image')} of {replay.rows} x {replay.columns} {replay.type}"
        )
        shape = replayed_detector(base, replay.rows, replay.columns, replay.type)
        yield Input(shape, replay, f"{replay.frames} recorded images, replayed repeatedly")


def _record_phases(options: DemoOptions, shown: Input, view: ProgressView) -> list[RecordedSeries]:
    """Both series through one recorder, which listens on a port that the system chooses.

    Raises KeyboardInterrupt after a signal, which the programs receive, too, and end.
    """
    began = time.monotonic()
    try:
        series = _record_all(options, shown, view)
    except PenstockError:
        if not came_since(began):
            raise
    if came_since(began):
        raise KeyboardInterrupt
    return series


def _record_all(options: DemoOptions, shown: Input, view: ProgressView) -> list[RecordedSeries]:
    configuration = Configuration(
        folder=options.folder,
        sources=[TcpSource(listen="127.0.0.1:0")],
        threads=options.threads,
        log_level="warning",
    )
    inbox: queue.Queue[Message] = queue.Queue()
    recorder = Program("penstock-recorder", configuration.plan({}), on_log=view.say, inbox=inbox)
    with recorder, forwarding_signals(recorder):
        target = _await_listening(recorder, inbox)
        series = []
        paced = options.rate_of(shown.detector)
        for number, (title, rate, frames) in enumerate(
            (
                (options.paced_as(shown.detector), paced, frames_for(options.seconds, paced)),
                ("at maximum rate", 0.0, options.frames_fast),
            ),
            start=1,
        ):
            simulation = Simulation(
                frames=frames, rate_hz=rate, series_id=number, series_unique_id=f"phase-{number}"
            )
            job = detector_plan(shown.detector, simulation, target, shown.replay)
            view.info(f"phase {number}, {title}: {counted(frames, 'frame')}")
            series.append(_record_one(title, job, recorder, view))
        recorder.require_success(recorder.stop())
    return series


def _await_listening(recorder: Program, inbox: "queue.Queue[Message]") -> TcpTarget:
    listening = wait_for(inbox, Listening, _START_TIMEOUT_S)
    if not isinstance(listening, Listening) or not listening.sources:
        recorder.require_success(recorder.wait(_START_TIMEOUT_S))
        raise PenstockError("the recorder exited before it listened", "see its log above")
    host, port = split_address(listening.sources[0].removeprefix("tcp://"), 0)
    return TcpTarget(host=host, port=port)


def _record_one(title: str, job: DetectorPlan, recorder: Program, view: ProgressView) -> RecordedSeries:
    """One series: both programs' events come through the recorder's inbox."""
    sent: DetectorSeriesEnd | None = None
    recorded: RecorderSeriesEnd | None = None
    with Program("penstock-detector", job, on_log=view.say, inbox=recorder.inbox) as detector:
        detector_done, written, watchdog = False, 0, Watchdog()
        while recorded is None or not detector_done:
            watchdog.look(written)
            try:
                message = recorder.inbox.get(timeout=_LOOK_INTERVAL_S)
            except queue.Empty:
                continue
            match message.event:
                case None if message.program is detector:
                    detector_done = True
                    detector.require_success(detector.wait(_START_TIMEOUT_S))
                case None:
                    recorder.require_success(recorder.wait(_START_TIMEOUT_S))
                    raise PenstockError(
                        "the recorder was stopped before the demonstration ended", "run it again"
                    )
                case DetectorSeriesEnd() as end:
                    sent = end
                case RecorderSeriesEnd() as end:
                    recorded = end
                case RecorderProgress() as progress:
                    written = progress.frames_written
                    show(view, progress)
                case _:
                    pass
    if sent is None:
        raise PenstockError(
            "the detector exited without reporting how many frames it sent", "see its log above"
        )
    show(view, recorded)
    return RecordedSeries(title, job.rate_hz, sent, recorded)


class Watchdog:
    """Detects that neither program makes progress, even if both still report."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._frames = -1
        self._since = clock()

    def look(self, frames: int) -> None:
        """`frames` is how many are in the file. A PenstockError when there were no more for too long."""
        now = self._clock()
        if frames != self._frames:
            self._frames, self._since = frames, now
        elif now - self._since > _STALL_TIMEOUT_S:
            raise PenstockError(
                f"no frame reached the file for {_STALL_TIMEOUT_S:g} s ({frames} are in it)",
                "is the storage stalled? Check `df` and the system's log",
            )


def _checked(
    series: RecordedSeries, against: dict[str, Any], threads: int, view: ProgressView
) -> PhaseResult:
    plan = check_plan(series.file, against, threads)
    report = check_to_the_end(plan, lambda event: show(view, event), view.say)
    timing = _timing(series.file)
    return PhaseResult(
        title=series.title,
        asked_hz=series.asked_hz,
        sent=series.sent,
        recorded=series.recorded,
        timing=timing,
        check=report,
    )


@aside
def _timing(path: Path) -> list[Percentiles]:
    with open_for_reading(path) as file:
        return stage_percentiles(file)


@aside
def _rates(path: Path) -> list[RatePoint]:
    with open_for_reading(path) as file:
        return rate_curve(file)


@aside
def _first_frame(path: Path) -> Any:
    with open_for_reading(path) as file:
        return file["/entry/data/data"][0]


def _draw(folder: Path, series: list[RecordedSeries]) -> None:
    # Here, because matplotlib takes half a second to load, and every command would wait for it.
    from penstock.report.pages.pictures import Phase, draw_frame, draw_throughput  # noqa: PLC0415

    curves = []
    for each in series:
        curves.append(Phase(each.title, _rates(each.file)))
    draw_throughput(curves, folder / "throughput.png")
    draw_frame(_first_frame(series[0].file), f"frame 0 of {series[0].file.name}", folder / "frame.png")
