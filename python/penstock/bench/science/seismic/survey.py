"""The traces of a line that ships pass several times: shots are in order of time, midpoints are not."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy

from penstock.bench.science.seismic.pipe import Output
from penstock.bench.science.seismic.segy import (
    AS_RECORDED,
    DATA_AT,
    Rows,
    added,
    file_header,
    fill_header,
    hashes_of,
    trace_bytes,
)
from penstock.bench.science.storage.counts import Counts

PASSES, CHANNELS = 16, 60
_NEAR, _STEP = 100, 25
_CHUNKS, _CHUNK_BYTES = 3, 8 << 20
_BLOCK = 256
# Of a 32-bit float: sign and mantissa are random, the exponent is that of 1 to 2.
_RANDOM, _ONE = 0x807FFFFF, 0x3F800000


@dataclass(frozen=True)
class Survey:
    """`shots`: of each pass. No two traces have the same CDP and offset."""

    samples: int
    shots: int
    seed: int

    @property
    def bytes(self) -> int:
        return DATA_AT + self.traces * trace_bytes(self.samples)

    @property
    def traces(self) -> int:
        return PASSES * self.shots * CHANNELS

    def fill(self, rows: Rows, first: int) -> None:
        """Traces from number `first` on, without their samples."""
        number = numpy.arange(first, first + len(rows))
        shot, channel = numpy.divmod(number, CHANNELS)
        passed, position = numpy.divmod(shot, self.shots)
        position = numpy.where(passed % 2, self.shots - 1 - position, position)
        rows.view(numpy.uint8)[:] = 0
        fill_header(rows, self.samples)
        rows["trace"] = rows["trace_in_file"] = number + 1
        rows["shot"], rows["channel"] = shot + 1, channel + 1
        rows["cdp"] = 2 * position + channel + 1
        rows["offset"] = _NEAR + _STEP * (channel * PASSES + passed)


def survey_of(size_bytes: int, samples: int, seed: int) -> Survey:
    """Of about as many bytes; there is at least one shot in each pass."""
    per_shot = PASSES * CHANNELS * trace_bytes(samples)
    return Survey(samples, max(1, round(size_bytes / per_shot)), seed)


@dataclass(frozen=True)
class Truth:
    """What every order of the traces has in common."""

    traces: int
    checksum: int


@dataclass(frozen=True)
class Written:
    truth: Truth
    sha256: str


def write_survey(survey: Survey, path: Path, counts: Counts, on_traces: Callable[[int], None]) -> Written:
    header = file_header(survey.samples, AS_RECORDED)
    checksum, content = 0, hashlib.sha256(header)
    random = numpy.random.default_rng(survey.seed)
    with Output(survey.samples, _CHUNK_BYTES, _CHUNKS, counts) as output:
        output.begin(path, header)
        at = 0
        while at < survey.traces:
            rows = output.room(min(_BLOCK, survey.traces - at))
            survey.fill(rows, at)
            words = random.integers(0, 1 << 32, (len(rows), survey.samples), numpy.uint32)
            rows["samples"] = (words & _RANDOM) | _ONE
            checksum = added(checksum, hashes_of(rows))
            content.update(rows.view(numpy.uint8).data)
            output.filled(len(rows))
            at += len(rows)
            on_traces(len(rows))
        output.end()
        output.wait()
    return Written(Truth(survey.traces, checksum), content.hexdigest())
