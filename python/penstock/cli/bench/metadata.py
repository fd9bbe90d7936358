"""`penstock bench metadata`"""

from penstock.bench.data.folder import RoomAdvice
from penstock.bench.run.by_protocol import require_by_protocol
from penstock.bench.run.jobs import metadata_job
from penstock.bench.run.workloads import MetadataParameters
from penstock.cli.bench.beside import beside_rows
from penstock.cli.bench.ranks_choice import RanksOptions, clients_text, team_of
from penstock.cli.bench.running import How, check_run, may_go_on, run_job
from penstock.cli.common import reports_errors
from penstock.cli.option_table import DataclassTable, ModelTable, command_of
from penstock.cli.verbosity import show_plan, shows_progress
from penstock.report.metadata import metadata_plan_rows

_ROOM = RoomAdvice(fewer_bytes="reduce --size or --items", fewer_files="reduce --items")


def _metadata(parameters: MetadataParameters, of_ranks: RanksOptions, how: How) -> None:
    """Measure how fast files and directory trees are created, looked up, read, renamed and removed.

    The run is `valid`, `warned` or `invalid`; the table of checks gives the reason. Exit code 4: the run is
    invalid, do not use its metrics; 1: it failed or was interrupted.
    """
    team = team_of(of_ranks.ranks, of_ranks.mpi)
    asked = parameters.model_copy(update={"ranks": of_ranks.ranks or 1})
    workload, access = asked.parts()
    require_by_protocol(how.place, workload, access, team)
    job = metadata_job(workload, access, team)
    second = check_run(how, job.bytes, job.files, _ROOM)
    clients = clients_text(how.place, team)
    rows = metadata_plan_rows(workload, asked.sync, str(how.place), how.repetitions, asked.ranks, clients)
    show_plan(rows | beside_rows(second, how.blocks), dry_run=how.dry_run, json=how.json)
    if how.dry_run:
        return
    may_go_on(how.yes)
    run_job(job, how, second, asked.seed)


metadata_command = reports_errors(
    shows_progress(
        command_of(
            _metadata, ModelTable(MetadataParameters), DataclassTable(RanksOptions), DataclassTable(How)
        )
    )
)
