"""A run of a campaign by another process, as inside of a laboratory without root: `env` enters nothing."""

import os
import signal
import threading
from pathlib import Path

import pytest

from penstock.bench.campaign.cells import Cell, run_inside
from penstock.bench.run.jobs import Job
from penstock.bench.run.run import Telling
from penstock.bench.run.workloads import WORKLOADS
from penstock.model.bench.runs import Run
from penstock.model.errors import InterruptedRunError, PenstockError


def inside(folder: Path, **values: object) -> Run:
    parameters = WORKLOADS["stream"].model_validate(values)
    job = parameters.job()
    assert isinstance(job, Job)
    telling = Telling(lambda _: None, lambda _: None)
    return run_inside(["env"], Cell(job, folder, "", [], False), "stream", parameters, telling, print)


def test_it_makes_the_run(tmp_path: Path) -> None:
    run = inside(tmp_path, size="1MiB", transfer="1MiB", read=False)
    assert run.document.problem is None
    assert run.document.phases
    assert list(tmp_path.iterdir()) == []


def test_its_problem_is_told(tmp_path: Path) -> None:
    with pytest.raises(PenstockError) as found:
        inside(tmp_path / "absent", size="1MiB", transfer="1MiB")
    assert "absent" in found.value.message


@pytest.mark.parametrize("number", ["INT", "TERM"])
def test_a_signal_that_its_program_gets_before_it_listens_is_no_failed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    program = tmp_path / "penstock-load"
    program.write_text(f"#!/bin/sh\nkill -{number} $$\n", encoding="ascii")
    program.chmod(0o755)
    monkeypatch.setenv("PENSTOCK_BIN", str(tmp_path))
    with pytest.raises(InterruptedRunError):
        inside(tmp_path, size="1MiB", transfer="1MiB", read=False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after_s", [0.1, 2.5])
def test_a_signal_is_never_a_failed_run(tmp_path: Path, number: signal.Signals, after_s: float) -> None:
    """Before the process listens to it, and while it works: then it has what was measured."""
    before, is_over = signal.getsignal(number), threading.Event()

    def send() -> None:
        """Once this process listens to it: on a busy machine that takes longer than `after_s`."""
        while signal.getsignal(number) == before and not is_over.wait(0.005):
            pass
        if not is_over.wait(after_s):
            os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        run = inside(tmp_path, size="500MiB", transfer="4KiB", sync="each")
    except InterruptedRunError:
        pass
    else:
        assert run.document.interrupted
    finally:
        is_over.set()
        sender.join()
    assert list(tmp_path.iterdir()) == []
