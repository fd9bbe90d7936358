"""Runs the simulated detector."""

import math
import re
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from penstock.model.catalogue import CUSTOM, Detector, replayed_detector
from penstock.model.errors import ExitCode, PenstockError, UsageError
from penstock.model.events import DetectorSeriesEnd, Event
from penstock.model.failure import DISCONNECTED, IO, TIMED_OUT, Failure
from penstock.model.plans import (
    DetectorFields,
    DetectorPlan,
    FaultsPlan,
    FilesTarget,
    SentEncoding,
    Target,
    TcpPeer,
    TcpTarget,
    ZmqTarget,
)
from penstock.model.text import counted
from penstock.model.units import split_address
from penstock.programs.process import LogLine, Program, forwarding_signals

if TYPE_CHECKING:  # it loads HDF5
    from penstock.files.images.replay import Replay

_FORMATS = ("cbf", "tiff", "hdf5")
_ADDRESS = re.compile(r"(?!files:)(?=.*[.:]|localhost$)[^/?#]+")
_TARGET_HELP = "write tcp://127.0.0.1:9900, zmq://127.0.0.1:31001 or files:FOLDER?format=cbf"
_ZMQ_PORT = 31001
_PORT_MAX = 65535


class Simulation(DetectorFields):
    """Settings of a simulation, apart from the detector and the replay."""


ELEMENTS_MAX = 32
GAP_PIXELS_MAX = 65535


def check_encoding(encoding: SentEncoding, target: Target) -> None:
    """Raises UsageError for encodings that Stream V2 does not define."""
    if encoding == "zstd" and not isinstance(target, FilesTarget):
        raise UsageError(
            "--encoding zstd is not defined in Stream V2",
            "choose none, bslz4, bszstd or lz4, or send to files:FOLDER",
        )


def encoding_note(encoding: SentEncoding, target: Target) -> str:
    """Returns a note on encodings that other clients of Stream V2 do not read; "" for the others."""
    if encoding == "bszstd" and isinstance(target, ZmqTarget):
        return "note: DECTRIS' clients of Stream V2 do not read bszstd; use none, bslz4 or lz4 for them"
    return ""


def check_faults(
    faults: FaultsPlan | None, frames: int, elements: tuple[int, int] | None, target: Target
) -> None:
    """Raises UsageError for faults of frames or elements that are not sent."""
    if faults is None:
        return
    if isinstance(target, FilesTarget):
        raise UsageError("--fault does not support files", "use --to tcp://HOST:PORT or zmq://HOST:PORT")
    count = 1 if elements is None else elements[0] * elements[1]
    for rule in faults.rules:
        last = max((last for _, last in rule.frames or []), default=0)
        if last >= frames:
            raise UsageError(
                f"--fault: {rule.kind} of frame {last}, but the last frame is {frames - 1}",
                "frames count from 0: name earlier ones, or send more with --frames",
            )
        if rule.element is not None and rule.element >= count:
            raise UsageError(
                f"--fault: element {rule.element} of {count}", "elements (--elements) count from 0"
            )


def parse_elements(text: str, detector: Detector, target: Target) -> tuple[int, int] | None:
    """Returns the rows and columns of elements of a text such as "2x4"; None of "" and "1x1"."""
    if not text:
        return None
    found = re.fullmatch(r"([1-9][0-9]?)x([1-9][0-9]?)", text)
    if found is None or int(found[1]) * int(found[2]) > ELEMENTS_MAX:
        raise UsageError(
            f'--elements: "{text}" is not a grid', f"ROWSxCOLUMNS of at most {ELEMENTS_MAX} elements, as 2x4"
        )
    rows, columns = int(found[1]), int(found[2])
    if rows * columns == 1:
        return None
    if isinstance(target, FilesTarget):
        raise UsageError(
            "--elements does not support files",
            "use --to tcp://HOST:PORT or zmq://HOST:PORT",
        )
    if isinstance(target, TcpTarget) and len(target.addresses) > rows * columns:
        raise UsageError(
            f"--elements: {counted(rows * columns, 'element')}, and"
            f" {counted(len(target.addresses), 'receiver')} in --to",
            "name at most as many receivers as elements",
        )
    if detector.rows % rows or detector.columns % columns:
        raise UsageError(
            f"--elements: {detector.rows} x {detector.columns} pixels cannot be divided into {text} equal"
            f" elements",
            f"choose numbers that divide {detector.rows} and {detector.columns}",
        )
    return rows, columns


def with_endpoints(target: Target, elements: tuple[int, int] | None) -> Target:
    """Returns the target with one ZeroMQ endpoint per element.

    The user names all endpoints, or the first of consecutive ports. Raises UsageError for other numbers.
    """
    if not isinstance(target, ZmqTarget):
        return target
    count = 1 if elements is None else elements[0] * elements[1]
    if len(target.endpoints) == count:
        return target
    if elements is None:
        raise UsageError(
            f"--to: {len(target.endpoints)} ZeroMQ endpoints, and one stream",
            "name one, or split frames into as many elements with --elements",
        )
    if target.more:
        raise UsageError(
            f"--to: {len(target.endpoints)} ZeroMQ endpoints for {counted(count, 'element')},"
            " which require one each",
            "name as many, or the first of consecutive ports, such as zmq://127.0.0.1:31001",
        )
    host, port = target.endpoint.rsplit(":", 1)
    first = int(port)
    if first + count - 1 > _PORT_MAX:
        raise UsageError(
            f"--to: {counted(count, 'element')} from port {first} on go beyond port {_PORT_MAX}",
            "name a lower port",
        )
    # Port 0 lets the system choose, for each.
    ports = [first + n if first else 0 for n in range(1, count)]
    return target.model_copy(update={"more": [f"{host}:{each}" for each in ports]})


def check_telling(
    reported: bool, target: Target, elements: tuple[int, int] | None, gap: tuple[int, int] | None
) -> None:
    """Raises UsageError if elements could not be distinguished."""
    if reported:
        return
    if elements is None:
        raise UsageError(
            "--no-announce-elements requires several elements", "give their grid with --elements, such as 2x4"
        )
    if not isinstance(target, ZmqTarget):
        raise UsageError(
            "--no-announce-elements requires ZeroMQ: over TCP only the start message names the element",
            "use --to zmq://HOST:PORT, and `element` of each source in the recorder's configuration",
        )
    if gap is not None:
        raise UsageError(
            "--element-gap excludes --no-announce-elements, because start messages carry it",
            "leave it out, and give each source of the recorder's configuration a `gap` in its `element`",
        )


def parse_element_gap(text: str, elements: tuple[int, int] | None) -> tuple[int, int] | None:
    """Returns the gaps in pixels between rows and columns of elements of "8,36"; None of ""."""
    if not text:
        return None
    found = re.fullmatch(r"([0-9]{1,5}),([0-9]{1,5})", text)
    if found is None or max(int(found[1]), int(found[2])) > GAP_PIXELS_MAX:
        raise UsageError(
            f'--element-gap: "{text}" is not a gap',
            f"ROWS,COLUMNS in pixels, up to {GAP_PIXELS_MAX}, as 8,36",
        )
    if elements is None:
        raise UsageError(
            "--element-gap requires several elements", "give their grid with --elements, such as 2x4"
        )
    return int(found[1]), int(found[2])


def parse_rate(text: str, detector: Detector) -> float:
    """Returns the frame rate in Hz of "25", "max" (0: unpaced) or "" (the detector's own)."""
    if text == "max":
        return 0.0
    if not text:
        if not detector.rate_hz and detector.name != CUSTOM:
            raise UsageError(
                f"the rate of {detector.name} is unknown", "give it with --rate HZ, or --rate max for unpaced"
            )
        return detector.rate_hz
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 < rate <= 1e7:
        number = re.match(r"[0-9.]+(?=\s*[A-Za-z]+$)", text)
        remedy = f"write the number without a unit ({number[0]}), or max" if number else ""
        raise UsageError(
            f'--rate "{text}" is not a frame rate',
            remedy or "give a frame rate in Hz of at most 10 million, or max",
        )
    return rate


def parse_target(text: str, token: str | None) -> Target:
    """Returns the target of tcp://HOST:PORT[,HOST:PORT…], zmq://HOST:PORT[,…] (binds) or files:FOLDER?…

    Without a scheme it is an address of a recorder, as `penstock record --listen` has it.
    """
    if text.startswith("files:"):
        return _files_target(text)
    text = f"tcp://{text}" if _ADDRESS.fullmatch(text) else text
    match = re.fullmatch(r"(tcp|zmq)://(?P<address>[^/?#]+)/?", text)
    if match is None:
        raise UsageError(f'--to "{text}" is not a receiver', _TARGET_HELP)
    try:
        if match[1] == "tcp":
            return _tcp_target(match["address"].split(","), token)
        endpoint, *more = [_zmq_endpoint(address) for address in match["address"].split(",")]
    except ValueError as error:
        raise UsageError(f"{text}: {error}", _TARGET_HELP) from error
    return ZmqTarget(endpoint=endpoint, more=more)


def _zmq_endpoint(address: str) -> str:
    host, port = split_address(address, _ZMQ_PORT)
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def _tcp_target(addresses: list[str], token: str | None) -> TcpTarget:
    (host, port), *more = [split_address(address, 9900) for address in addresses]
    peers = [TcpPeer(host=other, port=its_port) for other, its_port in more]
    return TcpTarget(host=host, port=port, token=token, more=peers)


def _files_target(text: str) -> FilesTarget:
    parts = urlsplit("x:" + text.removeprefix("files:"), allow_fragments=False)
    options = parse_qs(parts.query, keep_blank_values=True)
    folder = text.removeprefix("files:").partition("?")[0]
    if not folder:
        raise UsageError(f'--to "{text}" has no folder', _TARGET_HELP)
    unknown = set(options) - {"format", "rename"}
    kind = options.get("format", ["cbf"])[-1]
    rename = options.get("rename", ["true"])[-1]
    if unknown or kind not in _FORMATS or rename not in ("true", "false"):
        raise UsageError(
            f'"{text}" cannot be read', f"format is {', '.join(_FORMATS)}; rename is true or false"
        )
    return FilesTarget.model_validate(
        {"folder": str(Path(folder).absolute()), "format": kind, "rename": rename == "true"}
    )


def detector_plan(
    detector: Detector, simulation: Simulation, target: Target, replay: "Replay | None" = None
) -> DetectorPlan:
    """Returns the job. The frames of a replay have the shape and type of its images."""
    if replay is not None:
        detector = replayed_detector(detector, replay.rows, replay.columns, replay.type)
    values = simulation.model_dump()
    values["series_unique_id"] = simulation.series_unique_id or new_series_name(detector)
    values["detector"] = detector.for_plan()
    values["replay"] = str(replay.path) if replay else None
    values["stamp"] = simulation.stamp and replay is None
    values["to"] = target.model_dump()
    return DetectorPlan.model_validate(values)


def new_series_name(detector: Detector) -> str:
    """Returns a unique, descriptive name of a series."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", detector.name).strip("-").lower()
    return f"{name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:6]}"


def simulate(
    plan: DetectorPlan, on_event: Callable[[Event], None], on_log: LogLine | None = None
) -> DetectorSeriesEnd:
    """Sends the series, and blocks until it ends. SIGINT and SIGTERM end it. Failures are PenstockErrors."""
    end: DetectorSeriesEnd | None = None
    with Program("penstock-detector", plan, on_log=on_log) as program, forwarding_signals(program):
        for event in program.events():
            if isinstance(event, DetectorSeriesEnd):
                count = 1 if plan.elements is None else plan.elements[0] * plan.elements[1]
                end = event.model_copy(update={"elements": count})
                on_event(end)
            else:
                on_event(event)
        code = program.wait()
        if end is not None and end.problem:
            raise PenstockError(
                f"{end.frames_sent} of {plan.frames} frames were sent: {end.problem}",
                _target_remedy(plan, end.failure, is_begun=True),
            )
        if end is None and code == ExitCode.FAILED and program.last_error is not None:
            raise PenstockError(
                f"nothing was sent: {program.last_error}",
                _target_remedy(plan, program.failure, is_begun=False),
            )
        program.require_success(code)
    if end is None:
        raise PenstockError(
            "penstock-detector exited without reporting how many frames it sent", "see its log above"
        )
    return end


_NOT_REACHED = (DISCONNECTED, TIMED_OUT)


def _target_remedy(plan: DetectorPlan, failure: Failure | None, is_begun: bool) -> str:
    """For a target that cannot be reached; what it refused has its remedy in the refusal.

    Before the series has begun, an error of the system is one of the network.
    """
    code = failure.code if failure is not None else ""
    is_unreachable = code in _NOT_REACHED or (code == IO and not is_begun)
    match plan.to:
        case TcpTarget() if is_unreachable:
            return (
                f"check that a recorder listens on {', '.join(plan.to.addresses)}, or start one with"
                f" `penstock record`"
            )
        case ZmqTarget() if code == TIMED_OUT and not is_begun:
            where = f"check that a recorder pulls from {', '.join(plan.to.endpoints)}."
            if not plan.elements_told:
                return f"{where} Its configuration needs a source with an `element` for each"
            command = "penstock record " + " ".join(f"--zmq {each}" for each in plan.to.endpoints)
            return f"{where} Start one with `{command}`"
        case FilesTarget():
            return f"check the free space and the permissions of {plan.to.folder}"
    return ""
