"""`penstock bench --backend null`: storage that misbehaves as it is told, and the checks that see it."""

from pathlib import Path

import pytest
from conftest import Run as RunCommand

from penstock.cli.bench.null_choice import null_backend
from penstock.model.bench.load import NullBackend
from penstock.model.bench.runs import Run
from penstock.model.errors import UsageError
from penstock.report.null import null_text

FRAMES = ("--frame-size", "4KiB", "--rate", "100", "--frames", "150", "--writers", "2", "--yes", "--json")
STREAM = ("--size", "4MiB", "--transfer", "64KiB", "--yes", "--json")


def measured(run: RunCommand, target: Path, workload: str, *options: str) -> Run:
    finished = run("bench", workload, str(target), "--backend", "null", *options)
    assert finished.returncode in (0, 4), finished.stderr
    assert list(target.iterdir()) == []
    result = Run.model_validate_json(finished.stdout)
    assert isinstance(result.document.plan.backend, NullBackend)
    assert result.document.problem is None
    return result


def outcomes(result: Run) -> dict[str, str]:
    return {check.name: check.outcome for check in result.checks}


def test_a_freeze_drops_frames_and_is_the_longest_stall(run: RunCommand, tmp_path: Path) -> None:
    frozen = measured(run, tmp_path, "frames", *FRAMES, "--null-freeze", "0.3:0.7", "--buffer-seconds", "0.2")
    generator = frozen.document.generator
    assert frozen.frames is not None
    assert generator is not None
    assert generator.gaps is not None
    waited_ns = generator.pacer_waited_ns + sum(writer.waited_ns for writer in generator.writers)
    stood_s = 1e-9 * (generator.gaps.sum_ns + waited_ns)  # for want of a processor
    assert 0.5 <= frozen.frames.stall_s <= 0.9 + stood_s
    # Of 70 frames that become due meanwhile 20 find room.
    assert 30 <= frozen.frames.dropped <= 70 + 100 * stood_s
    assert frozen.frames.latency_ms.max >= 500
    assert frozen.document.plan.backend == NullBackend(freeze_at_s=0.3, freeze_s=0.7)


def test_delays_and_stragglers_are_what_the_write_alone_takes(run: RunCommand, tmp_path: Path) -> None:
    slow = measured(run, tmp_path, "frames", *FRAMES, "--null-delay", "0.003", "--null-straggler", "50:0.1")
    assert slow.frames is not None
    assert 3.0 <= slow.frames.service_ms.p50 < 50
    assert slow.frames.service_ms.max >= 103
    assert outcomes(slow)["storage, not the page cache"] == "ok", "nothing was stored (--backend null)"


@pytest.mark.parametrize("shared", [(), ("--shared",)])
def test_a_stream_is_as_slow_as_it_is_told(run: RunCommand, tmp_path: Path, shared: tuple[str, ...]) -> None:
    """64 transfers of 5 ms take a third of a second, each way."""
    result = measured(run, tmp_path, "stream", *STREAM, "--null-delay", "0.005", *shared)
    assert [phase.phase for phase in result.streams] == ["write", "read"]
    for phase, measured_phase in zip(result.streams, result.document.phases or [], strict=True):
        assert phase.bytes == 4 << 20
        assert phase.bytes_per_s <= (4 << 20) / 0.32
        (thread,), gaps = measured_phase.threads, measured_phase.gaps
        assert thread.done_s is not None
        assert gaps is not None
        # But for the time for which it had no processor.
        assert thread.done_s - 1e-9 * (thread.waited_ns + gaps.sum_ns) < (4 << 20) / 3e6
        assert phase.mismatches is None


def test_ranks_have_no_storage_either(run: RunCommand, tmp_path: Path) -> None:
    result = measured(run, tmp_path, "stream", *STREAM, "--ranks", "2", "--null-delay", "0.005")
    assert [phase.bytes for phase in result.streams] == [8 << 20, 8 << 20]


def test_what_is_not_stored_is_told_before_and_after(run: RunCommand, tmp_path: Path) -> None:
    for workload, options in (
        ("frames", ("--frame-size", "1MiB", "--rate", "100")),
        ("stream", ("--size", "1TiB")),
    ):
        planned = run("bench", workload, str(tmp_path), *options, "--backend", "null", "--dry-run")
        assert planned.returncode == 0, planned.stderr
        assert "none; nothing is stored" in planned.stdout
    done = run(
        "bench", "stream", str(tmp_path), *STREAM[:-1], "--backend", "null", "--null-straggler", "10:0.01"
    )
    assert "none: 10 ms more every 10th call" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--null-delay", "1"), ("--null-delay", "--backend null")),
        (("--backend", "null", "--null-straggler", "100"), ("--null-straggler 100", "100:0.5")),
        (("--backend", "null", "--null-straggler", "1.5:1"), ("--null-straggler 1.5:1", "whole")),
        (("--backend", "null", "--null-freeze", "-1:1"), ("--null-freeze -1:1", "2:3")),
        (("--backend", "null", "--null-freeze", "1:nan"), ("--null-freeze 1:nan",)),
        (("--backend", "null", "--null-freeze", "1:4000"), ("3600",)),
    ],
)
def test_bad_input_is_named(
    options: tuple[str, ...], words: tuple[str, ...], run: RunCommand, tmp_path: Path
) -> None:
    for workload in (("frames", "--frame-size", "1KiB", "--rate", "1"), ("stream",)):
        finished = run("bench", workload[0], str(tmp_path), *workload[1:], *options, "--yes")
        assert finished.returncode == 2, finished.stderr
        assert all(word in finished.stderr for word in words), finished.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_queue_of_nothing_is_refused(run: RunCommand, tmp_path: Path) -> None:
    finished = run("bench", "stream", str(tmp_path), "--backend", "null", "--queue-depth", "2", "--yes")
    assert finished.returncode == 2
    assert "--queue-depth 2 with --backend null" in finished.stderr


def test_options_become_the_plan_s_and_words() -> None:
    assert null_backend("posix", None, None, None) is None
    assert null_backend("null", None, None, None) == NullBackend()
    backend = null_backend("null", 0.001, "100:0.5", "2:3")
    assert backend == NullBackend(
        delay_s=0.001, straggler_every=100, straggler_s=0.5, freeze_at_s=2, freeze_s=3
    )
    assert null_text(backend) == "none: 1 ms per call, 500 ms more every 100th call, frozen after 2 s for 3 s"
    assert null_text(NullBackend()) == "none"
    with pytest.raises(UsageError, match="--null-freeze requires --backend null"):
        null_backend("mpiio", None, None, "2:3")
