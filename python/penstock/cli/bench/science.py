"""What the commands of the sciences' workloads share: plan, question, run, report."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.bench.science.parameters import ScienceParameters
from penstock.cli.bench.running import (
    DataTarget,
    DataTargetOrUrl,
    How,
    Target,
    check_run,
    may_go_on,
    run_job,
)
from penstock.cli.common import reports_errors
from penstock.cli.option_table import DataclassTable, ModelTable, command_of
from penstock.cli.verbosity import show_plan, shows_progress
from penstock.report.tables import repeated_rows

# A load that is repeated beside a run; jobs are not.
_OF_LOADS = ("background", "background_target", "blocks")


@dataclass(frozen=True)
class _HowMounted(How):
    """Of a workload that takes no URL."""

    target: Target


@dataclass(frozen=True)
class _HowMountedData(How):
    """Of a workload that takes no URL, and leaves a data set."""

    target: DataTarget


@dataclass(frozen=True)
class _HowData(How):
    """Of a workload that leaves a data set."""

    target: DataTargetOrUrl


def run_parameters(parameters: ScienceParameters, how: How) -> None:
    """Raises typer.Exit if the run failed or is invalid."""
    job = parameters.job()
    check_run(how, job.bytes, job.files, parameters.ROOM)
    job.require()
    rows = {"target": str(how.place)} | parameters.plan_rows()
    rows |= parameters.time_row() | parameters.space_row(job)
    rows |= repeated_rows(how.repetitions)
    show_plan(rows, dry_run=how.dry_run, json=how.json)
    if how.dry_run:
        return
    may_go_on(how.yes)
    run_job(job, how, None, 0)


def how_table(model: type[ScienceParameters]) -> DataclassTable:
    """The options of all commands that suit a workload whose jobs are processes."""
    if model.DATA_STAYS:
        return DataclassTable(_HowMountedData if model.MOUNTED else _HowData, _OF_LOADS)
    return DataclassTable(_HowMounted if model.MOUNTED else How, _OF_LOADS)


def science_command(model: type[ScienceParameters], run: Callable[..., None]) -> Callable[..., None]:
    """Returns the command; its help is the docstring of `run`."""
    return reports_errors(shows_progress(command_of(run, ModelTable(model), how_table(model))))
