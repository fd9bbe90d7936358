"""One series from penstock-detector into a file: by penstock-recorder or by the Python receiver.

The detector prepares its images first, then memory is warmed, then the receiver starts. The clock runs
from the moment at which the receiver has taken the start message until the file is closed and synced;
CPU time is that of sender and receiver together over the same stretch.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure.context import GIB, MIB, Context
from measure.machine import warm
from measure.process import BenchmarkError, Service, service
from measure.results import Sample

START_TIMEOUT_S = 300.0
READY_TIMEOUT_S = 30.0
POOL_BYTES = GIB
WARM_BESIDE_BYTES = 2 * GIB  # for the pool, the messages and the images
QUEUED_BYTES = 256 * MIB  # of messages inside the Python receiver


@dataclass(frozen=True)
class Series:
    """What the detector sends."""

    name: str  # "simulated 25 MB"
    rows: int
    columns: int
    type: str
    frames: int
    encoding: str = "none"  # as the detector sends it
    replay: Path | None = None
    distinct_frames: int = 16

    @property
    def frame_bytes(self) -> int:
        return self.rows * self.columns * (2 if self.type.endswith("16") else 4)

    @property
    def raw_bytes(self) -> int:
        return self.frames * self.frame_bytes


@dataclass
class Recording:
    """How penstock-recorder takes it."""

    protocol: str = "zmq"  # or "tcp"
    codec: str = "none"
    pool_bytes: int = POOL_BYTES
    store: dict[str, Any] = field(default_factory=dict)
    when_full: str = "hold"
    threads: int = 2
    chunk: dict[str, Any] = field(default_factory=dict)
    filters: list[dict[str, Any]] = field(default_factory=list)


def module_gaps(rows: int, columns: int) -> list[dict[str, int]]:
    """Between modules of 195 × 487 pixels, 17 and 7 apart, as PILATUS has them."""
    gaps = [
        {"row": row, "column": 0, "rows": min(17, rows - row), "columns": columns}
        for row in range(195, rows, 212)
    ]
    return gaps + [
        {"row": 0, "column": column, "rows": rows, "columns": min(7, columns - column)}
        for column in range(487, columns, 494)
    ]


def file_bytes(series: Series, codec: str) -> int:
    """About what the file will have; compressed frames have a sixth and less."""
    return series.raw_bytes if (series.encoding, codec) == ("none", "none") else series.raw_bytes // 6


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def detector_plan(series: Series, to: dict[str, Any]) -> dict[str, Any]:
    return {
        "detector": {
            "name": "benchmark",
            "rows": series.rows,
            "columns": series.columns,
            "type": series.type,
            "gaps": module_gaps(series.rows, series.columns),
            "simulation": {"background_mean": 5.0, "spots": 300, "spot_sigma": 1.0, "spot_counts": 500.0},
        },
        "frames": series.frames,
        "rate_hz": 0,
        "distinct_frames": series.distinct_frames,
        "replay": str(series.replay) if series.replay else None,
        "stamp": False,
        "encoding": series.encoding,
        "to": to,
        "series_unique_id": "benchmark",
        "connect_timeout_s": START_TIMEOUT_S,
        "log_level": "error",
    }


def recorder_plan(folder: Path, recording: Recording, port: int) -> dict[str, Any]:
    source: dict[str, Any] = {"kind": "tcp", "host": "127.0.0.1", "port": port}
    if recording.protocol == "zmq":
        source = {"kind": "zmq", "endpoint": f"tcp://127.0.0.1:{port}", "bind": False}
    return {
        "folder": str(folder),
        "overwrite": True,
        "sources": [source],
        "codec": {"filters": recording.filters} if recording.filters else {"encoding": recording.codec},
        "chunk": recording.chunk,
        "threads": recording.threads,
        "pool_bytes": recording.pool_bytes,
        "when_full": recording.when_full,
        "store": recording.store,
        "log_level": "error",
    }


def synced(path: Path) -> None:
    handle = os.open(path, os.O_RDWR)
    os.fsync(handle)
    os.close(handle)


def receive(
    series: Series,
    detector: Service,
    receiver: Service,
    path: Path,
    inspect: Callable[[], None] | None = None,
) -> tuple[dict[str, Any], Sample]:
    """The receiver listens now; its last event and the sample."""
    receiver_before, detector_before = receiver.cpu_seconds(), detector.cpu_seconds()
    start = detector.wait_for("series_start", START_TIMEOUT_S)
    # A receiver that broke ends at once; its detector would wait for it.
    end = receiver.wait_for("series_end")
    sent = detector.wait_for("series_end")
    receiver_cpu = receiver.cpu_seconds() - receiver_before
    if inspect:
        inspect()
    detector_cpu = detector.finish(stop=False) - detector_before
    if sent.get("problem") or end.get("problem"):
        raise BenchmarkError(f"{series.name}: {sent.get('problem') or end.get('problem')}")
    stored = path.stat().st_size
    seconds = end["time"] - start["time"]
    cpu = detector_cpu + receiver_cpu
    return end, {
        "seconds": seconds,
        "bytes_per_s": series.raw_bytes / seconds,
        "stored_bytes_per_s": stored / seconds,
        "cpu_s_per_gb": cpu / series.raw_bytes * 1e9,
        "cpu_s_per_stored_gb": cpu / stored * 1e9,
        "detector_cpu_s_per_gb": detector_cpu / series.raw_bytes * 1e9,
        "ratio": series.raw_bytes / stored,
    }


@contextlib.contextmanager
def prepared_detector(
    context: Context, series: Series, to: dict[str, Any], folder: Path, stored_bytes: int
) -> Iterator[Service]:
    """Its images are ready, and as much memory as both ends and the file need has just been in use."""
    command = [context.program("penstock-detector"), "--plan", "-"]
    with service(command, detector_plan(series, to), cores=context.cores) as detector:
        while True:
            event = detector.wait_for("prepare", START_TIMEOUT_S)
            if event["what"] == "images" and event["done"] == event["total"]:
                break
        warm(folder, stored_bytes + WARM_BESIDE_BYTES)
        yield detector


def nothing_more(_path: Path) -> Sample:
    return {}


def penstock(
    context: Context,
    folder: Path,
    series: Series,
    recording: Recording,
    use: Callable[[Path], Sample] = nothing_more,
) -> Sample:
    """`use` gets the file before it is removed; what it measures goes into the sample."""
    port = free_port()
    path = folder / "benchmark.h5"
    command = [context.program("penstock-recorder"), "--plan", "-"]
    to: dict[str, Any] = {"kind": "zmq", "endpoint": f"tcp://127.0.0.1:{port}"}
    if recording.protocol == "tcp":
        to = {"kind": "tcp", "host": "127.0.0.1", "port": port}
    with (
        prepared_detector(context, series, to, folder, file_bytes(series, recording.codec)) as detector,
        service(command, recorder_plan(folder, recording, port), cores=context.cores) as recorder,
    ):
        recorder.wait_for("listening", READY_TIMEOUT_S)
        peaks: list[int] = []
        end, sample = receive(
            series, detector, recorder, path, lambda: peaks.append(recorder.memory_peak_bytes())
        )
        recorder.finish(stop=True)
    synced(path)
    used = use(path)
    path.unlink()
    if recording.when_full == "hold" and end["frames_written"] != series.frames:
        raise BenchmarkError(f"{end['frames_written']} of {series.frames} frames were written")
    full = end["pool_used_bytes_max"] / end["pool_bytes"]
    return {**sample, **used, "memory_peak_bytes": float(peaks[0]), "pool_used_share": full}


def python_receiver(
    context: Context, folder: Path, series: Series, mode: str, filter_options: dict[str, Any] | None = None
) -> Sample:
    """`mode`: raw, compress, pass (frames come compressed and stay so) or filter (by HDF5's own pipeline)."""
    port = free_port()
    path = folder / "benchmark.h5"
    job = {
        "endpoint": f"tcp://127.0.0.1:{port}",
        "path": str(path),
        "frames": series.frames,
        "rows": series.rows,
        "columns": series.columns,
        "type": series.type,
        "mode": mode,
        "filter": filter_options or {},
        "threads": 2,
        "messages_max": max(4, QUEUED_BYTES // series.frame_bytes),
    }
    to = {"kind": "zmq", "endpoint": job["endpoint"]}
    stored = file_bytes(series, "bslz4" if mode in ("compress", "filter") else "none")
    with (
        prepared_detector(context, series, to, folder, stored) as detector,
        service(context.peer("receiver.py"), job, cores=context.cores) as receiver,
    ):
        receiver.wait_for("listening", READY_TIMEOUT_S)
        end, sample = receive(series, detector, receiver, path)
        receiver.finish(stop=False)
    path.unlink()
    if end["frames_written"] != series.frames:
        raise BenchmarkError(f"the Python receiver wrote {end['frames_written']} of {series.frames} frames")
    return sample
