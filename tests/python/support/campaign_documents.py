"""Campaigns without a storage: of runs that were made up."""

from itertools import islice
from pathlib import Path

from bench_documents import frames_document, run_of

from penstock.bench.data.remote_folder import RunFolder
from penstock.bench.judge.checks import check_content
from penstock.bench.run.jobs import Job
from penstock.bench.run.run import Telling
from penstock.model.bench.campaigns import Campaign, Case, CaseRun, Target, View
from penstock.model.bench.runs import Run
from penstock.model.storage_url import mounted


def made_up_run(carried_bytes_per_s: float = 1e6, validity: str = "valid") -> Run:
    """10 Hz x 1 MB; only the throughput differs."""
    document = frames_document()
    run = run_of(document, [check_content(document)])
    assert run.frames is not None
    frames = run.frames.model_copy(update={"carried_bytes_per_s": carried_bytes_per_s})
    return run.model_copy(update={"frames": frames, "validity": validity})


def made_up_campaign(blocks: int = 2, cases: int = 2, done: int | None = None) -> Campaign:
    """Cases threads=1, 2 … whose runs carry 100 MB/s times the threads, and a tenth more in each block."""
    names = [f"threads={number}" for number in range(1, cases + 1)]
    runs = (
        CaseRun(case=name, block=block, run=made_up_run(1e8 * number * (1 + block / 10)))
        for block in range(blocks)
        for number, name in enumerate(names, 1)
    )
    return Campaign(
        name="made-up",
        title="Made up",
        workload="frames",
        targets=[Target(name="disk", path="/x")],
        seed=1,
        blocks=blocks,
        cases=[
            Case(name=name, target="disk", parameters={"threads": number})
            for number, name in enumerate(names, 1)
        ],
        runs=list(islice(runs, done)),
    )


def with_targets(targets: list[Target], rates: dict[str, float], views: list[View]) -> Campaign:
    """One block of the cases threads=1 and 2 on each target, whose runs carry its rate times the threads."""
    cases = [
        Case(name=f"{threads} on {target.name}", target=target.name, parameters={"threads": threads})
        for target in targets
        for threads in (1, 2)
    ]
    runs = [
        CaseRun(case=case.name, block=0, run=made_up_run(rates[case.target] * (1 + number % 2)))
        for number, case in enumerate(cases)
    ]
    return Campaign(
        name="made-up",
        title="Made up",
        workload="frames",
        targets=targets,
        views=views,
        seed=1,
        blocks=1,
        cases=cases,
        runs=runs,
    )


def job_that(run: "list[Run | Exception]", made: list[Path]) -> Job:
    """Gives these runs one after the other, or fails with them; `made` has the folders that it was given."""
    left = iter(run)

    def act(folder: RunFolder, telling: Telling) -> Run:
        made.append(mounted(folder.path, "a test"))
        outcome = next(left)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return Job(workload="frames", bytes=1, files=1, paced_s=1.0, moved_bytes=0, run=act)
