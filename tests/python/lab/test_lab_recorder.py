"""A series recorded to each system: one and two ranks, appended and in slots, compared pixel by pixel."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Record
from laboratories import Run, free_name, requires
from ports import free_ports
from warm_command import penstock

FRAMES = 120
SYSTEMS = [pytest.param(each, marks=requires(each)) for each in ("xfs", "moosefs", "gluster", "ceph")]


@pytest.fixture(scope="module", params=SYSTEMS)
def mount(request: pytest.FixtureRequest) -> Iterator[Path]:
    """One laboratory for all series of a system."""
    with free_name() as name:
        up = penstock("lab", "up", request.param, "--name", name, "--disks", "loop:1GiB", "--json")
        assert up.returncode == 0, up.stderr
        yield Path(json.loads(up.stdout)["mount"])


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("placement", ["log", "slots"])
def test_a_series_is_recorded_and_right(
    record: Record, run: Run, mount: Path, ranks: int, placement: str
) -> None:
    folder = mount / f"{placement}-{ranks}"
    folder.mkdir()
    options = ["--ranks", str(ranks), "--listen", f"127.0.0.1:{free_ports(ranks)}"] if ranks > 1 else []
    recorder = record(folder, "--placement", placement, "--series", "1", *options, listen=ranks == 1)
    if ranks > 1:
        recorder.listening()
    sent = run(
        *("simulate", "custom", "--rows", "256", "--columns", "256", "--to", f"tcp://{recorder.address}"),
        *("--frames", str(FRAMES), "--rate", "200", "--series-name", "one"),
    )
    assert sent.returncode == 0, sent.stderr
    end = recorder.series_end()
    assert (end.frames_written, end.missing, end.problem) == (FRAMES, 0, None)
    report = json.loads(run("check", str(folder / "one.h5"), "--against", "recorded", "--json").stdout)
    assert (report["compared_frames"], report["different_frames"]) == (FRAMES, 0)
    assert not [finding for finding in report["findings"] if finding["level"] == "error"], report
