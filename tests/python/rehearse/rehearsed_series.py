"""Series of a rehearsal as sender, recorder and check report them, without running one."""

from typing import Any

from penstock.bench.rehearse.chain import SeriesRequest, SeriesResult
from penstock.bench.rehearse.outcome import Recorded
from penstock.bench.rehearse.stages import window_of
from penstock.model.bench.rehearsals import Delays
from penstock.model.events import CheckReport, DetectorSeriesEnd, RecorderSeriesEnd

RATE, FRAMES = 50.0, 500


def recorded(delays: Delays | None = None, **fields: Any) -> Recorded:
    """A series of which everything arrived, unless `fields` say otherwise."""
    request = SeriesRequest("rehearsal-000000001", 1, FRAMES, RATE, 20.0)
    written = fields.pop("written", FRAMES)
    result = SeriesResult(
        request,
        DetectorSeriesEnd(
            event="series_end",
            frames_sent=fields.pop("sent", FRAMES),
            sending_seconds=10.0,
            seconds=10.1,
            late_max_ms=fields.pop("late_max_ms", 2.0),
        ),
        RecorderSeriesEnd(
            event="series_end",
            frames_received=written,
            frames_written=written,
            lost=fields.pop("lost", 0),
            problem=fields.pop("problem", None),
            frames_seconds=10.0,
            seconds=10.0 + fields.pop("closing_s", 0.1),
        ),
        window=window_of(fields.pop("stages", [])),
        stopped=fields.pop("stopped", False),
    )
    check = CheckReport(
        event="report",
        ok=True,
        compared_frames=fields.pop("compared", written),
        different_frames=fields.pop("different", 0),
        findings=fields.pop("findings", []),
    )
    assert not fields
    return Recorded(result, check, delays or Delays(received_max_s=0.01, written_max_s=0.3, growth=0.0))
