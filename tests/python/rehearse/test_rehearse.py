"""Short rehearsals with the real programs: the answer, the narrowest stage, and what is left behind."""

import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import numpy
import pytest
from warm_command import penstock, popen

from penstock.files.catalogue import Catalogue, Filter, default_path
from penstock.model.bench.rehearsals import Rehearsal

SMALL = ("custom", "--rows", "256", "--columns", "256", "--rate", "40")
# Exit codes of "yes", "no" and "cannot tell". Each is right where other programs use the processors.
WHATEVER_ELSE_RUNS = (0, 1, 3)
PATIENT = ("--buffer-seconds", "60")
SHORT = ("--seconds", "2", "--search-time", "0", "--soak", "0", "--yes", *PATIENT)
LATE = re.compile(r" late; the detector's buffer holds |the backlog grew by | were not indexed meanwhile$")


def rehearse(*arguments: str, codes: tuple[int, ...] = (0,)) -> Rehearsal:
    """Runs the command and returns its document."""
    done = penstock("rehearse", *arguments, "--json")
    assert done.returncode in codes, done.stderr
    return Rehearsal.model_validate_json(done.stdout)


def assert_complete(found: Rehearsal, frames: int) -> None:
    """Every series has its frames as they were sent; at worst, frames were late."""
    assert found.problem is None
    assert (found.sent % frames, found.missing) == (0, 0)
    series = [each for step in found.steps if step.kind == "rate" for each in step.series]
    assert {(each.sent, each.compared, each.different) for each in series} == {(frames, frames, 0)}
    shortcomings = [each for step in found.steps for each in step.shortcomings]
    assert all(LATE.search(each) for each in shortcomings), shortcomings


def configured(folder: Path, **settings: Any) -> str:
    path = folder / "recorder.yaml"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return str(path)


def slow_codec(folder: Path, **settings: Any) -> str:
    """One thread that compresses slowly, and a small pool."""
    codec = {"encoding": "deflate", "level": 2}
    return configured(folder, threads=1, pool_bytes="64 MiB", codec=codec, **settings)


@pytest.fixture
def target(tmp_path: Path, programs: dict[str, Path]) -> Path:
    folder = tmp_path / "storage"
    folder.mkdir()
    return folder


def test_every_frame_is_compared_and_nothing_is_left(target: Path, tmp_path: Path) -> None:
    document = tmp_path / "rehearsal.json"
    page = tmp_path / "rehearsal.html"
    files = ("--output", str(document), "--report", str(page))
    found = rehearse(*SMALL, str(target), *SHORT, *files, codes=WHATEVER_ELSE_RUNS)
    assert_complete(found, 80)
    for step in found.steps:
        # Empty where the recorder reported too few metrics while frames were sent, on a busy machine.
        assert [use.stage for use in step.stages] in ([], [
            "sender", "network", "receive", "pool", "compress", "write", "storage", "index",
        ])  # fmt: skip
    assert found.ratio is not None
    assert found.ratio > 1
    assert Rehearsal.model_validate_json(document.read_bytes()) == found
    listed = Catalogue(default_path()).documents(Filter(kind="rehearsal"))
    assert str(document) in [each.entry.path for each in listed if each.state == "there"]
    assert "Does the chain keep up" in page.read_text(encoding="utf-8")
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("command", ["rehearse", "verdict"])
@pytest.mark.parametrize(
    ("rate", "name"),
    [
        (("--rate", "20"), "EIGER2 X 1M at 20 Hz; its maximum is 2000 Hz: frames"),
        (("--rate", "2000"), "EIGER2 X 1M: frames"),
    ],
)
def test_detector_is_called_by_its_name_and_any_rate_below_its_own(
    target: Path, command: str, rate: tuple[str, ...], name: str
) -> None:
    done = penstock(command, "eiger2-1m", str(target), *rate, "--space", "4GB", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert name in " ".join(done.stdout.split())


@pytest.mark.slow
def test_soak_of_several_series_needs_the_space_of_one(target: Path, tmp_path: Path) -> None:
    config = configured(tmp_path, codec={"encoding": "none"})
    document = tmp_path / "rehearsal.json"
    times = ("--seconds", "1", "--search-time", "0", "--soak", "6", "--yes")
    arguments = (*SMALL, str(target), *times, "--space", "10MiB", "--config", config)
    files = 0
    with popen("rehearse", *arguments, "--output", str(document)) as command:
        while command.poll() is None:
            files = max(files, len(list(target.glob("*/*.h5"))))
            time.sleep(0.02)
    found = Rehearsal.model_validate_json(document.read_bytes())
    soak = next(step for step in found.steps if step.kind == "soak")
    assert len(soak.series) > 1
    assert sum(each.compared for each in soak.series) == soak.total("sent") >= 240
    assert files == 1


FAST = ("custom", "--rows", "256", "--columns", "256", "--rate", "1500")


@pytest.mark.slow
def test_slow_codec_is_named_and_the_answer_is_no(target: Path, tmp_path: Path) -> None:
    arguments = (*FAST, str(target), "--config", slow_codec(tmp_path), "--seconds", "4", "--yes")
    found = rehearse(*arguments, "--search-time", "0", "--soak", "0", codes=(1,))
    assert found.answer in ("no", "likely no"), "likely if other programs used the processors"
    assert found.narrowest == "compress"
    assert "codec.level" in " ".join(found.advice)
    assert list(target.iterdir()) == []


@pytest.mark.slow
def test_search_brackets_the_highest_rate(target: Path, tmp_path: Path) -> None:
    """On a busy machine it may differ from the unpaced rate in either direction."""
    shape = ("custom", "--rows", "256", "--columns", "256", "--rate", "100", str(target))
    times = ("--seconds", "2", "--step-seconds", "3", "--search-time", "45", "--search-max", "50")
    config = slow_codec(tmp_path)
    found = rehearse(*shape, "--config", config, *times, "--soak", "0", "--yes", codes=(0, 1))
    assert found.narrowest == "compress"
    assert found.search is not None
    assert found.sustained_hz is not None
    if found.search.ended != "time":  # on a busy machine, which may have had none for full speed
        assert found.search.full_speed_hz is not None
        assert found.sustained_hz / found.search.full_speed_hz < 3
        assert found.sustained_hz / found.search.full_speed_hz > 0.2
        assert found.less_than_hz is not None
        assert found.sustained_hz < found.less_than_hz


def test_replayed_images_are_compared(target: Path, tmp_path: Path) -> None:
    images = numpy.random.default_rng(1).poisson(3, (7, 64, 96)).astype(numpy.uint16)
    path = tmp_path / "images.npy"
    numpy.save(path, images)
    arguments = ("custom", "--rate", "40", str(target), *SHORT, "--replay", str(path), "--encoding", "bslz4")
    found = rehearse(*arguments, codes=WHATEVER_ELSE_RUNS)
    assert_complete(found, 80)
    assert found.images == str(path)


def test_over_zmq_as_the_configuration_says(target: Path, tmp_path: Path) -> None:
    config = configured(tmp_path, sources=[{"kind": "zmq", "endpoint": "tcp://10.1.2.3:31001"}])
    found = rehearse(*SMALL, str(target), *SHORT, "--config", config, codes=WHATEVER_ELSE_RUNS)
    assert found.transport == "zmq"
    assert_complete(found, 80)


@pytest.mark.slow
def test_two_ranks_record_together(target: Path) -> None:
    found = rehearse(*SMALL, str(target), *SHORT, "--ranks", "2")
    assert found.ranks == 2
    assert found.answer in ("yes", "likely yes")
    assert found.missing == 0


@pytest.mark.slow
def test_dropped_frames_are_never_a_yes(target: Path, tmp_path: Path) -> None:
    config = slow_codec(tmp_path, when_full="drop")
    arguments = (*FAST, str(target), "--config", config, "--seconds", "4", "--yes")
    found = rehearse(*arguments, "--search-time", "0", "--soak", "0", codes=(1,))
    assert found.missing > 0
    assert any("not in the file" in reason for reason in found.reasons)


def test_interrupt_leaves_a_document_and_no_folder(target: Path, tmp_path: Path) -> None:
    document = tmp_path / "rehearsal.json"
    arguments = (*SMALL, str(target), "--seconds", "1", "--soak", "300", "--search-time", "0", "--yes")
    with popen("rehearse", *arguments, *PATIENT, "--space", "6MiB", "--output", str(document)) as command:
        until_soak_has_series(document)
        asked = time.monotonic()
        command.send_signal(signal.SIGINT)
        assert command.wait(150) == 5, "no frame was lost, and it did not end"
        assert time.monotonic() - asked < 120, "it did not wait for the end of the soak"
    found = Rehearsal.model_validate_json(document.read_bytes())
    assert found.problem == "it was interrupted"
    assert found.answer in ("likely yes", "likely no")
    soak = found.steps[-1]
    assert soak.kind == "soak"
    assert soak.series
    assert all(each.compared == each.sent > 0 for each in soak.series)
    assert found.sent == sum(step.total("sent") for step in found.steps if step.kind != "warm-up")
    assert list(target.iterdir()) == []


def until_soak_has_series(document: Path) -> None:
    """Waits until the document, which a kill would leave, has a complete series of the soak."""
    deadline = time.monotonic() + 150
    while time.monotonic() < deadline:
        if document.exists():
            last = Rehearsal.model_validate_json(document.read_bytes()).steps[-1]
            if last.kind == "soak" and last.series:
                return
        time.sleep(0.1)
    raise AssertionError("the soak has no series")


def test_configuration_that_would_overwrite_is_rejected(target: Path, tmp_path: Path) -> None:
    config = configured(tmp_path, file_name="all.h5", overwrite=True)
    done = penstock("rehearse", *SMALL, str(target), *SHORT, "--config", config)
    assert done.returncode == 2
    assert "all.h5" in done.stderr
    assert "{series_unique_id}" in done.stderr
    assert list(target.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "shown"), [((), "30 s at"), (("--soak", "90"), "90 s at"), (("--minutes", "1.5"), "90 s at")]
)
def test_soak_is_in_seconds_as_for_verdict(target: Path, given: tuple[str, ...], shown: str) -> None:
    for command in ("rehearse", "verdict"):
        done = penstock(command, *SMALL, str(target), *given, "--dry-run")
        assert done.returncode == 0, done.stderr
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("soak ")]
        default = command == "verdict" and not given
        assert ("60 s at" if default else shown) in line


def test_listen_without_from_is_rejected(target: Path) -> None:
    done = penstock("rehearse", *SMALL, str(target), *SHORT, "--listen", "127.0.0.1:9900")
    assert done.returncode == 2
    assert "--listen requires --from" in done.stderr
    assert list(target.iterdir()) == []


@pytest.mark.slow
def test_slow_codec_keeps_no_rate_that_memory_took(target: Path, tmp_path: Path) -> None:
    """Few compressed frames of a run have reached the file when the last one arrives."""
    codec = {"encoding": "deflate", "level": 9}
    config = configured(tmp_path, threads=1, codec=codec)
    times = ("--seconds", "2", "--step-seconds", "2", "--search-time", "1", "--soak", "0", "--yes")
    shape = ("custom", "--rows", "256", "--columns", "256", "--rate", "50")
    found = rehearse(*shape, str(target), "--config", config, *times, codes=(1,))
    assert found.answer in ("no", "likely no")
    assert found.narrowest == "compress"
    assert any("compress was" in reason and "backlog grew" in reason for reason in found.reasons)
    assert found.unpaced_hz is None or found.unpaced_hz < found.needed_hz
    assert not any(step.stopped for step in found.steps if step.total("sent") == step.total("written") == 100)


def test_too_little_space_is_named(target: Path) -> None:
    done = penstock("rehearse", *SMALL, str(target), *SHORT, "--space", "1MiB")
    assert done.returncode == 2
    assert "--space" in done.stderr
