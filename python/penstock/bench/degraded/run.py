"""One series is recorded into a laboratory, one of whose servers fails meanwhile."""

import contextlib
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy
import numpy.typing

from penstock import __version__
from penstock.bench.data.folder import BenchFolder, FileSet
from penstock.bench.data.marks import FILE_MODE
from penstock.bench.degraded.dip import dip_of
from penstock.bench.degraded.schedule import FaultSchedule
from penstock.files.aside import aside
from penstock.files.hdf5 import open_for_reading
from penstock.files.timing import times_of
from penstock.lab.request import LabState
from penstock.model.bench.degraded import Degraded, FaultKind
from penstock.model.bench.fault_schedules import Fault
from penstock.model.catalogue import custom_detector
from penstock.model.configuration import Configuration, TcpSource
from penstock.model.errors import PenstockError
from penstock.model.events import DetectorSeriesEnd, Listening, RecorderSeriesEnd
from penstock.model.plans import StorePlan, TcpTarget
from penstock.model.units import split_address
from penstock.programs.check import check_plan, check_to_the_end
from penstock.programs.process import Message, Program, forwarding_signals, wait_for
from penstock.programs.record import recorder_options
from penstock.programs.simulate import Simulation, detector_plan

PREFIX = "degraded-"
Times = numpy.typing.NDArray[numpy.int64]
_START_S, _CLOSES_WITHIN_S, _LOOKS_EVERY_S = 30.0, 300.0, 0.1


@dataclass(frozen=True)
class DegradedRequest:
    laboratory: LabState
    server: int
    fault: FaultKind
    rate_hz: float
    rows: int
    columns: int
    seconds: float
    at_s: float
    """when the server fails, since the recorder has listened"""
    away_s: float
    """until it is started again"""

    @property
    def frames(self) -> int:
        return round(self.seconds * self.rate_hz)

    @property
    def frame_bytes(self) -> int:
        return self.rows * self.columns * 2

    @property
    def schedule(self) -> list[Fault]:
        return [
            Fault(at_s=self.at_s, server=self.server, fault=self.fault),
            Fault(at_s=self.at_s + self.away_s, server=self.server, fault="heal"),
        ]


def run_degraded(request: DegradedRequest, say: Callable[[str], None]) -> Degraded:
    """Leaves nothing in the laboratory. Raises PenstockError if nothing could be recorded."""
    mount = Path(request.laboratory.mount)
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    faults = FaultSchedule(request.laboratory.name, request.schedule, say)
    needed = request.frames * request.frame_bytes
    with faults.never_left_failed(), BenchFolder.make(mount, needed_bytes=needed) as folder:
        folder.announce(FileSet(prefix=PREFIX, count=2, suffix="h5", parts=True))
        recorded = _record(request, folder.path, faults, say)
        faults.finish()
        path = Path(recorded.file)
        report = check_to_the_end(check_plan(path, {"recorded": True}, 2), lambda _: None, say)
        received, written = _times(path)
    if not faults.found or received is None or written is None:
        raise PenstockError(faults.problem or "the file has no times", "see `penstock lab logs`")
    (found,) = faults.found
    known = (received >= 0) & (written >= 0)
    zero = int(received[known].min())
    fault_s = (found.began.wall_ns - zero) * 1e-9
    heal_s = None if found.ended is None else (found.ended.wall_ns - zero) * 1e-9
    came, done = ((each[known] - zero).astype(numpy.float64) * 1e-9 for each in (received, written))
    dip = dip_of(came, done, fault_s, heal_s)
    return Degraded(
        version=__version__,
        started=started,
        laboratory=request.laboratory.name,
        system=request.laboratory.system,
        servers=sum(node.name.startswith("server") for node in request.laboratory.nodes),
        server=request.server,
        fault=request.fault,
        rate_hz=request.rate_hz,
        frame_bytes=request.frame_bytes,
        frames=request.frames,
        missing=request.frames - int(known.sum()),
        different=report.different_frames or 0,
        fault_s=fault_s,
        heal_s=heal_s,
        before_hz=dip.before_hz,
        lowest_hz=dip.lowest_hz,
        dip_s=dip.dip_s,
        returned_s=dip.returned_s,
        caught_up_s=dip.caught_up_s,
        healed_s=found.healed_s,
        problem=recorded.problem or faults.problem,
    )


@aside
def _times(path: Path) -> tuple[Times | None, Times | None]:
    with open_for_reading(path) as file:
        return times_of(file, "received"), times_of(file, "written")


def _record(
    request: DegradedRequest, folder: Path, faults: FaultSchedule, say: Callable[[str], None]
) -> RecorderSeriesEnd:
    # Each segment is synced before its frames count as written: else the client's cache would answer.
    store = StorePlan(durability="segment")
    configuration = Configuration(
        folder=folder,
        sources=[TcpSource(listen="127.0.0.1:0")],
        threads=2,
        log_level="warning",
        store=store,
        file_mode=f"{FILE_MODE:04o}",
    )
    inbox: queue.Queue[Message] = queue.Queue()
    plan = configuration.plan({})
    recorder = Program("penstock-recorder", plan, on_log=say, inbox=inbox, options=recorder_options(plan))
    with recorder, forwarding_signals(recorder):
        listening = wait_for(inbox, Listening, _START_S)
        if not isinstance(listening, Listening):
            raise PenstockError("the recorder exited before it listened", "see its log above")
        host, port = split_address(listening.sources[0].removeprefix("tcp://"), 0)
        simulation = Simulation(
            frames=request.frames, rate_hz=request.rate_hz, series_unique_id=f"{PREFIX}{1:09d}"
        )
        detector = custom_detector(request.rows, request.columns, "uint16")
        sent = detector_plan(detector, simulation, TcpTarget(host=host, port=port))
        with Program("penstock-detector", sent, on_log=say, inbox=inbox):
            faults.begin()
            recorded = _until_closed(inbox)
        with contextlib.suppress(PenstockError):
            recorder.stop()
    return recorded


def _until_closed(inbox: "queue.Queue[Message]") -> RecorderSeriesEnd:
    deadline, sent_s = time.monotonic() + 86_400, None
    while time.monotonic() < deadline:
        with contextlib.suppress(queue.Empty):
            event = inbox.get(timeout=_LOOKS_EVERY_S).event
            if isinstance(event, RecorderSeriesEnd):
                return event
            if isinstance(event, DetectorSeriesEnd) and sent_s is None:
                sent_s = time.monotonic()
                deadline = sent_s + _CLOSES_WITHIN_S
    raise PenstockError(
        f"the series was not closed within {_CLOSES_WITHIN_S:g} s of its last frame",
        "the storage does not answer; see `penstock lab status`",
    )
