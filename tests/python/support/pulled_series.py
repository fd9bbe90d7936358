"""Series that a recorder pulls from detectors, message by message."""

from pathlib import Path

from conftest import Record, RecordCommand
from detector_stream import frames_of, least_message, multi_dimensional
from ports import free_ports

from penstock.model.events import Listening, Note, RecorderSeriesEnd, Rejected

FRAMES = frames_of("uint16")
PATIENCE = "end_timeout_s: 3\nidle_timeout_s: 10\n"


def start(name: str = "s", number: int = 1, frames: int = 0, **more: object) -> dict[str, object]:
    return {**least_message("uint16", frames), "series_id": number, "series_unique_id": name, **more}


def image(frame: int, name: str = "s", number: int = 1, data: object = None) -> dict[str, object]:
    channels = {"threshold_1": multi_dimensional(FRAMES[frame]) if data is None else data}
    names = {"series_id": number, "series_unique_id": name}
    return {"type": "image", **names, "image_id": frame, "data": channels}


def end(name: str = "s", number: int = 1) -> dict[str, object]:
    return {"type": "end", "series_id": number, "series_unique_id": name}


def pull(
    record: Record,
    folder: Path,
    *endpoints: str,
    series: int = 1,
    settings: str = PATIENCE,
    pool: str = "256MiB",
) -> RecordCommand:
    config = folder / "record.yaml"
    config.write_text(settings, encoding="ascii")
    options = [text for endpoint in endpoints for text in ("--zmq", endpoint)]
    options += ["--series", str(series), "--pool", pool]
    recorder = record(folder, str(config), *options, listen=False)
    recorder.until(Listening)
    return recorder


def rejected(recorder: RecordCommand) -> list[str]:
    return [event.message for event in recorder.events if isinstance(event, Rejected)]


def noted(recorder: RecordCommand) -> list[str]:
    return [event.message for event in recorder.events if isinstance(event, Note)]


def endpoints(count: int) -> list[str]:
    first = free_ports(count)
    return [f"tcp://127.0.0.1:{first + i}" for i in range(count)]


def counts(ended: RecorderSeriesEnd) -> tuple[int, ...]:
    return (ended.frames_received, ended.missing, ended.duplicate, ended.damaged, ended.dropped)
