"""The recorder and the sender of a rehearsal, without its steps."""

from itertools import pairwise
from pathlib import Path

import pytest

from penstock.bench.data.marks import FILE_MODE
from penstock.bench.rehearse.chain import Chain, SeriesRequest
from penstock.bench.rehearse.request import Images, RehearsalRequest
from penstock.bench.rehearse.sources import rehearsal_plan
from penstock.bench.rehearse.stages import is_working
from penstock.model.catalogue import Detector
from penstock.model.configuration import Configuration
from penstock.model.events import Event, StageTimes

FRAMES = 100


@pytest.mark.slow
def test_stages_are_reported_until_the_last_frame_is_compressed(
    tmp_path: Path, programs: dict[str, Path]
) -> None:
    """All frames are in memory within a moment, and the series ends; compressing them takes seconds."""
    detector = Detector(name="custom", description="", rows=256, columns=256, type="uint16", rate_hz=40)
    codec = {"encoding": "deflate", "level": 9}
    request = RehearsalRequest(
        name="custom",
        images=Images(detector),
        rate_hz=40.0,
        seconds=1.0,
        search_s=0.0,
        times_max=1.0,
        soak_s=0.0,
        buffer_s=1.0,
        series_bytes=1 << 30,
        configuration=Configuration.model_validate({"threads": 1, "codec": codec}),
    )
    plan = rehearsal_plan(request, tmp_path, {}).model_copy(update={"folder": tmp_path})
    events: list[Event] = []

    def note(event: Event) -> None:
        events.append(event)

    with Chain(request, plan, note, print) as chain:
        result = chain.run(SeriesRequest("rehearsal-000000001", 1, FRAMES, 0.0, 60.0))
    assert result.recorded.frames_written == FRAMES
    assert not result.stopped
    assert result.file.stat().st_mode & 0o7777 == FILE_MODE
    stages = [event for event in events if isinstance(event, StageTimes)]
    working = [is_working(*pair) for pair in pairwise(stages)]
    assert working.count(True) >= 2
