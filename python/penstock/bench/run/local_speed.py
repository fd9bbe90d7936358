"""A first look at how fast a storage is, for its data sheet: short, and no verdict."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.bench.data.folder import BenchFolder, RoomAdvice, require_room, require_writable
from penstock.bench.judge.checks import validity_of
from penstock.bench.run.device_read import read_device
from penstock.bench.run.run import (
    Access,
    FramesRequest,
    Telling,
    frames_request,
    run_frames,
    run_stream,
    stream_workload,
)
from penstock.model.bench.load import StreamWorkload
from penstock.model.bench.runs import Check, Run
from penstock.model.errors import PenstockError
from penstock.model.plan.datasheet import LocalSpeed
from penstock.model.text import counted
from penstock.model.units import human_bytes, human_seconds

_TRANSFER_BYTES = 8 << 20
_CREATE_BYTES = 4096
_CREATE_WRITERS = 4
_DEVICE_BYTES_MAX = 64 << 30
_ROOM = RoomAdvice("the measurement", "reduce --size or --files", "reduce --files")


@dataclass(frozen=True)
class SpeedRequest:
    """What `measure_speeds` does."""

    stream: StreamWorkload
    creates: FramesRequest

    @property
    def bytes(self) -> int:
        return self.stream.threads * self.stream.thread_bytes + self.creates.bytes

    @property
    def files(self) -> int:
        return self.stream.threads + self.creates.files


def speed_request(target: Path, size_bytes: int, files: int, seconds_max: float) -> SpeedRequest:
    """Refuses, as errors, a target that is none or has no room."""
    access = Access(sync="each")
    request = SpeedRequest(
        stream=stream_workload(1, size_bytes, _TRANSFER_BYTES, True, False, seconds_max, True),
        creates=frames_request(
            _CREATE_BYTES, 0.0, seconds_max, _CREATE_WRITERS, 1.0, None, "file_a_frame", access
        ).as_fast_as_it_goes(files),
    )
    require_writable(target)
    require_room(target, request.bytes, request.files, _ROOM)
    return request


def measure_speeds(target: Path, request: SpeedRequest, telling: Telling) -> list[LocalSpeed]:
    with BenchFolder.make(target, needed_bytes=request.bytes) as folder:
        stream = run_stream(request.stream, Access(sync="end"), folder, telling)
        if stream.document.interrupted or stream.document.problem is not None:
            return _stream_speeds(stream)
        creates = run_frames(request.creates, folder, "create-", telling)
    return [*_stream_speeds(stream), *_create_speed(creates)]


def _stream_speeds(run: Run) -> list[LocalSpeed]:
    access = "with direct I/O" if run.document.storage.direct else "through the page cache"
    return [
        LocalSpeed(
            what=f"sequential {phase.phase}",
            value=phase.bytes_per_s,
            unit="B/s",
            how=f"one thread, {human_bytes(phase.bytes)} in transfers of 8 MiB, {access}"
            + (", until it is synced" if phase.phase == "write" else ""),
            **_soundness([check for check in run.checks if _is_about(check, phase.phase)])
            | ({"validity": "invalid"} if phase.too_short else {}),
        )
        for phase in run.streams
        if phase.bytes_per_s > 0
    ]


def _is_about(check: Check, phase: str) -> bool:
    """The checks of the other phase have its name behind them."""
    other = {"write": "(read)", "read": "(write)"}[phase]
    return not check.name.endswith(other)


def _create_speed(run: Run) -> list[LocalSpeed]:
    seconds = run.document.seconds.completed if run.document.seconds else None
    if run.frames is None or not seconds:
        return []
    how = (
        f"{counted(run.frames.written, 'file')} of 4 KiB by {_CREATE_WRITERS} threads in one"
        " directory, each synced"
    )
    return [
        LocalSpeed(
            what="files created",
            value=run.frames.written / seconds,
            unit="1/s",
            how=f"{how}, in {human_seconds(seconds)}",
            **_soundness(run.checks),
        )
    ]


def _soundness(checks: Sequence[Check]) -> dict[str, object]:
    doubts = [check.reported for check in checks if check.outcome != "ok"]
    return {"validity": validity_of(list(checks)), "doubts": doubts}


def measure_device(path: Path, number: str, seconds_max: float) -> LocalSpeed:
    """Reads it; nothing is written. One that cannot be read has no value, and the reason."""
    what = f"{path} read"
    try:
        found = read_device(path, number, seconds_max, _DEVICE_BYTES_MAX)
    except PenstockError as error:
        why = f"{error.message}; {error.remedy}"
        return LocalSpeed(what=what, value=None, unit="B/s", validity="invalid", how="", doubts=[why])
    short = found.seconds < 1
    return LocalSpeed(
        what=what,
        value=found.bytes / found.seconds if found.seconds else 0.0,
        unit="B/s",
        validity="warned" if short else "valid",
        how=f"one thread, the first {human_bytes(found.bytes)} in transfers of 8 MiB, with direct I/O",
        doubts=[f"long enough: {human_seconds(found.seconds)}"] if short else [],
    )
