"""What a rehearsal is to do."""

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.bench.judge.search import STEPS_MAX
from penstock.files.record_folder import require_record_folder
from penstock.model.bench.rehearsals import RehearsalStepKind
from penstock.model.catalogue import Detector
from penstock.model.configuration import Configuration, PvaSource, TcpSource, ZmqSource
from penstock.model.errors import UsageError
from penstock.model.plans import SentEncoding
from penstock.model.units import human_bytes, human_seconds, size_at_least
from penstock.programs.ranks import Ranks

# Of a step: enough for quarters whose delays can be compared.
FRAMES_MIN = 40
UNPACED_RUNS_MAX = 3
_WARM_UP_S = 1.0
# Less is often the time that ssh takes.
_CLOCKS_APART_S = 1.0
# To start the programs and to record the warm-up.
_AROUND_S = 5.0


@dataclass(frozen=True)
class Images:
    """What is sent. `replay` is an array file on this machine; None: simulated frames."""

    detector: Detector
    replay: Path | None = None
    replayed: tuple[Path, ...] = ()
    """the images as the user named them"""
    encoding: SentEncoding = "none"
    ratio: float | None = None

    @property
    def against(self) -> dict[str, object]:
        """What the check compares with."""
        return {"recorded": True} if self.replay is None else {"npy": str(self.replay)}

    @property
    def words(self) -> str:
        return ", ".join(map(str, self.replayed)) or "simulated"


@dataclass(frozen=True)
class RehearsalRequest:
    """Times are in seconds; 0 skips the search or the soak."""

    name: str
    images: Images
    rate_hz: float
    seconds: float
    search_s: float
    times_max: float
    """upper limit of the search, as a multiple of the detector's rate"""
    soak_s: float
    buffer_s: float
    """of frames that the detector's own buffer holds"""
    series_bytes: int
    """room for the files of one series"""
    configuration: Configuration
    configuration_file: str = ""
    """its name; empty: the defaults"""
    ranks: Ranks | None = None
    sender: str = ""
    """host with ssh; empty: this machine"""
    listen: str = ""
    """address of this machine as the sender reaches it"""
    sender_ahead_s: float = 0.0
    """of the clock of the sender's host, certainly; negative: behind"""
    step_s: float = 10.0
    """of the search, at least"""
    storage_alone_bytes_per_s: float | None = None

    @property
    def frame_bytes(self) -> int:
        return self.images.detector.frame_bytes

    @property
    def frames_fitting(self) -> int:
        """Uncompressed frames of one series that have room."""
        return self.series_bytes // self.frame_bytes

    def seconds_of(self, kind: RehearsalStepKind) -> float:
        """Returns the duration that a step of a kind has at least."""
        by_kind: dict[RehearsalStepKind, float] = {
            "warm-up": _WARM_UP_S,
            "rate": self.seconds,
            "soak": self.soak_s,
        }
        return by_kind.get(kind, self.step_s)

    def series_of(self, kind: RehearsalStepKind, rate_hz: float, ratio: float) -> list[int]:
        """Returns the frames of each series of a step: all but the last are as long as the room permits.

        `ratio` is the compression ratio that is known of the frames. Only a soak and the first run may have
        several series.
        """
        fit = max(FRAMES_MIN, math.floor(self.frames_fitting * ratio))
        frames = max(FRAMES_MIN, math.ceil(self.seconds_of(kind) * rate_hz))
        if kind not in ("rate", "soak"):
            return [min(frames, fit)]
        count = math.ceil(frames / fit)
        return [math.ceil(frames / count)] * count

    @property
    def series_max(self) -> int:
        """Returns how many series there may be: warm-up, the rate twice, unpaced, the search, the soak."""
        rate, soak = (len(self.series_of(kind, self.rate_hz, 1.0)) for kind in ("rate", "soak"))
        return 1 + 2 * rate + UNPACED_RUNS_MAX + STEPS_MAX + soak

    @property
    def bytes_at_once(self) -> int:
        """Returns the space that the largest series may take, as long as nothing is known of the ratio."""
        kinds: tuple[RehearsalStepKind, ...] = ("rate", "soak", "search")
        frames = max(max(self.series_of(kind, self.rate_hz, 1.0)) for kind in kinds)
        return frames * self.frame_bytes

    @property
    def seconds_expected(self) -> float:
        """Returns about how long it takes, checks included."""
        unpaced_s = self.step_s if self.search_s else 0.0
        return 2 * (self.seconds + self.soak_s + unpaced_s) + self.search_s + _AROUND_S


def require_usable(request: RehearsalRequest) -> None:
    """Raises UsageError if a series of this configuration could not be rehearsed."""
    if request.frames_fitting < FRAMES_MIN:
        need = FRAMES_MIN * request.frame_bytes
        raise UsageError(
            f"--space is {human_bytes(request.series_bytes)}; {FRAMES_MIN} frames of"
            f" {human_bytes(request.frame_bytes)} require {human_bytes(need)}",
            f"use at least --space {size_at_least(need).replace(' ', '')}",
        )
    configuration = request.configuration
    if "{" not in configuration.file_name and configuration.overwrite:
        raise UsageError(
            f"file_name is {configuration.file_name} and overwrite is true: each series would replace the"
            " file of the one before",
            "add {series_unique_id} to file_name, or remove overwrite",
        )


def rehearsed(
    configuration: Configuration, folder: Path, sources: list[TcpSource | ZmqSource]
) -> Configuration:
    """Returns the configuration with the rehearsal's folder, file names and sources; all else stays.

    Raises UsageError if it contradicts itself then.
    """
    values = configuration.model_dump(exclude_unset=True)
    values |= {
        "folder": folder,
        "file_name": "{series_unique_id}.h5",
        "overwrite": False,
        "resume": False,
        "series_limit": 0,
        "log_level": "warning",
        "sources": [source.model_dump() for source in sources],
    }
    # A scan has as many frames as points, and metrics their own port: neither costs a stage anything.
    for name in ("scan", "metrics"):
        values.pop(name, None)
    return Configuration.model_validate(values)


def notes_of(request: RehearsalRequest, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Returns notes on what a recording with this configuration does differently."""
    return [
        *_start_notes(request, environment),
        *_clock_notes(request),
        *left_out(request.configuration),
    ]


def _start_notes(request: RehearsalRequest, environment: Mapping[str, str]) -> Iterator[str]:
    """What the rehearsal replaces, and what would keep `penstock record` from starting."""
    configuration = request.configuration
    try:
        if "folder" in configuration.model_fields_set:
            require_record_folder(configuration.folder)
        configuration.plan(environment)
    except UsageError as error:
        yield (
            f"`penstock record --config {request.configuration_file}` would not start: {error.message};"
            f" {error.remedy}"
        )


def _clock_notes(request: RehearsalRequest) -> Iterator[str]:
    if abs(request.sender_ahead_s) < _CLOCKS_APART_S:
        return
    apart = human_seconds(abs(request.sender_ahead_s))
    side = "ahead of" if request.sender_ahead_s > 0 else "behind"
    yield (
        f"the clock of {request.sender} is {apart} {side} this machine's. The rehearsal does not use it, but"
        " times that a detector there puts into files would be wrong: run `timedatectl set-ntp true` on both"
    )


def left_out(configuration: Configuration) -> list[str]:
    """Returns notes on what the rehearsal does not use of a configuration."""
    notes = []
    if configuration.scan.axes:
        notes.append("scan is not rehearsed: its frames are recorded as a plain series")
    if any(isinstance(source, PvaSource) for source in configuration.sources):
        notes.append("pvAccess sources are not rehearsed: frames arrive over TCP instead")
    if configuration.names_one_file:
        notes.append(
            f"file_name {configuration.file_name} has no placeholder: the second series of a beam time would"
            " be rejected because the file exists; add {series_unique_id}"
        )
    return notes
