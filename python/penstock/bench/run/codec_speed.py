"""How fast one thread of the recorder compresses, and how much: tried with the recorder itself."""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.bench.judge.checks import OTHERS_SHARE
from penstock.files.sheet.machine import processor_name
from penstock.files.sheet.system import System
from penstock.files.space import require_space
from penstock.model.catalogue import Detector, replayed_detector
from penstock.model.configuration import Codec, Configuration, TcpSource
from penstock.model.errors import PenstockError, UsageError
from penstock.model.events import Event, Listening
from penstock.model.plan.sizing import CodecMeasurement, Compression
from penstock.model.plan.system_texts import ProcessorTime, others_share, parse_processor_time
from penstock.model.plans import GIB, MIB, Encoding, TcpTarget
from penstock.model.text import counted
from penstock.model.units import split_address
from penstock.programs.process import LogLine
from penstock.programs.record import record
from penstock.programs.simulate import Simulation, detector_plan, simulate

if TYPE_CHECKING:  # it loads HDF5
    from penstock.files.images.replay import Replay

_RAW_BYTES = 600 * MIB
_FRAMES_MIN, _FRAMES_MAX = 4, 2000
# Slow enough that sender, receiver and the thread that compresses do not fight for two cores.
_RAW_BYTES_PER_S = 300e6
_IMAGES_MAX = 16
RATIO_MAX = 1e6


@contextlib.contextmanager
def example_images(paths: list[Path]) -> Iterator["Replay | None"]:
    """Real images for `measure_codec`; None where no path is named."""
    if not paths:
        yield None
        return
    from penstock.files.images.replay import replay_file  # noqa: PLC0415  (it loads fabio and HDF5)

    with replay_file(paths, GIB, _IMAGES_MAX, lambda _n, _of: None) as replay:
        yield replay


def measure_codec(
    detector: Detector,
    encoding: Encoding,
    images: "Replay | None",
    processor: str,
    log: LogLine,
    level: int = 0,
) -> CodecMeasurement:
    """Records about 600 MB of `images`, or of simulated frames of `detector`, in a temporary folder.

    The speed is that of the thread that compresses: its time in the codec and in copying what comes out.
    """
    shown = replayed_detector(detector, images.rows, images.columns, images.type) if images else detector
    frames = max(_FRAMES_MIN, min(_FRAMES_MAX, _RAW_BYTES // shown.frame_bytes))
    with tempfile.TemporaryDirectory(prefix="penstock-codec-") as folder:
        require_space(Path(folder), frames * shown.frame_bytes, "the measurement of the codec")
        configuration = Configuration(
            folder=Path(folder),
            sources=[TcpSource(listen="127.0.0.1:0")],
            codec=Codec(encoding=encoding, level=level),
            threads=1,
            series_limit=1,
        )
        simulation = Simulation(frames=frames, rate_hz=_RAW_BYTES_PER_S / shown.frame_bytes, stamp=False)

        def send(event: Event) -> None:
            if isinstance(event, Listening):
                host, port = split_address(event.sources[0].removeprefix("tcp://"), 0)
                plan = detector_plan(detector, simulation, TcpTarget(host=host, port=port), images)
                simulate(plan, lambda _: None, log)

        others = _Others()
        recording = record(configuration.plan({}), send, log)
        others_had = others.share()
    seconds = sum(series.stage_seconds.get("compress", 0.0) for series in recording.ended)
    raw, stored = (sum(getattr(s, name) for s in recording.ended) for name in ("raw_bytes", "stored_bytes"))
    if recording.problems or not (seconds > 0 and stored > 0):
        raise PenstockError(
            "the codec could not be measured: " + ("; ".join(recording.problems) or "nothing was recorded"),
            "give --ratio and --codec-speed instead",
        )
    return CodecMeasurement(
        encoding=encoding,
        images=f"{images.frames} recorded images" if images else f"simulated frames of {detector.name}",
        ratio=raw / stored,
        bytes_per_s=raw / seconds,
        frames=frames,
        raw_bytes=raw,
        processor=processor,
        simulated=images is None,
        others_share=others_had,
    )


class _Others:
    """What other programs took of the processors since this was made; our own are ended by then."""

    def __init__(self) -> None:
        self._before, self._own_s = self._look()

    def share(self) -> float:
        after, own_s = self._look()
        if self._before is None or after is None:
            return 0.0
        return others_share(self._before, after, (own_s - self._own_s) * os.sysconf("SC_CLK_TCK"))

    @staticmethod
    def _look() -> tuple[ProcessorTime | None, float]:
        return parse_processor_time(System().text("/proc/stat")), sum(os.times()[:4])


def compressions(
    detectors: Sequence[Detector],
    encoding: Encoding,
    ratio: float | None,
    speed_bytes_per_s: float | None,
    measure: bool,
    images: list[Path],
    log: LogLine,
) -> list[Compression]:
    """For each detector. What is stated is not measured; a detector that is there twice is measured once.

    A UsageError where two options say the same thing.
    """
    if ratio is not None and images:
        raise UsageError("--ratio and --images exclude each other", "give one of them")
    if ratio is not None and not 1 <= ratio <= RATIO_MAX:
        limit = "exceeds the maximum of 1000000" if ratio > RATIO_MAX else "is below the minimum of 1"
        raise UsageError(f"--ratio: {ratio:g} {limit}", "give uncompressed size divided by stored size")
    if encoding == "none" and (ratio is not None or measure or images):
        raise UsageError(
            "--encoding none does not compress", "leave out --encoding, or --ratio, --measure and --images"
        )
    if encoding == "none" or not (ratio is not None or speed_bytes_per_s or measure or images):
        return [Compression() for _ in detectors]
    wanting = (ratio is None or speed_bytes_per_s is None) and (measure or bool(images))
    measured: dict[str, CodecMeasurement] = {}
    with example_images(images if wanting else []) as replay:
        for detector in detectors if wanting else []:
            key = detector.model_dump_json()
            if key not in measured:
                images_text = (
                    counted(replay.frames, "image") if replay else f"simulated frames of {detector.name}"
                )
                log(f"measuring {encoding} on {images_text}")
                measured[key] = measure_codec(detector, encoding, replay, processor_name(), log)
    return [
        _compression(encoding, ratio, speed_bytes_per_s, measured.get(detector.model_dump_json()))
        for detector in detectors
    ]


def _compression(
    encoding: Encoding, ratio: float | None, speed: float | None, found: CodecMeasurement | None
) -> Compression:
    values: dict[str, Any] = {"encoding": encoding, "ratio_from": "unknown, assumed to be 1"}
    if ratio is not None:
        values |= {"ratio": ratio, "ratio_from": "stated"}
    elif found is not None:
        values |= {
            "ratio": found.ratio,
            "ratio_from": f"{encoding}, {found.images}",
            "simulated": found.simulated,
        }
    if speed is not None:
        values |= {"speed_bytes_per_s": speed, "speed_from": "stated"}
    elif found is not None:
        values |= {
            "speed_bytes_per_s": found.bytes_per_s,
            "speed_from": f"{encoding} in the recorder, {found.images}, on {found.processor}",
        }
        if found.others_share > OTHERS_SHARE:
            values["speed_doubt"] = (
                f"other programs used {100 * found.others_share:.0f} % of the processors while the codec was"
                f" measured: a core compresses faster; measure again on an idle machine"
            )
    return Compression.model_validate(values)
