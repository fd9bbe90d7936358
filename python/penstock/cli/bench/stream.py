"""`penstock bench stream`"""

from dataclasses import dataclass

from penstock.bench.data.folder import RoomAdvice
from penstock.bench.run.by_protocol import require_by_protocol
from penstock.bench.run.jobs import stream_job
from penstock.bench.run.run import stream_bytes, stream_files
from penstock.bench.run.workloads import StreamParameters
from penstock.cli.bench.beside import beside_rows
from penstock.cli.bench.null_choice import NullOptions
from penstock.cli.bench.ranks_choice import (
    HintOption,
    RanksOptions,
    clients_text,
    require_parallel_hdf5,
    team_of,
    through_text,
)
from penstock.cli.bench.running import How, check_run, may_go_on, run_job
from penstock.cli.common import reports_errors
from penstock.cli.option_table import DataclassTable, ModelTable, command_of
from penstock.cli.verbosity import show_plan, shows_progress
from penstock.lab.clients import folders_of_ranks, require_other_readers
from penstock.report.runs import stream_plan_rows

_ROOM = RoomAdvice(fewer_bytes="reduce --size", fewer_files="reduce --threads, or use --shared")
# Parameters that streams through HDF5 do not have.
_NOT_OF_HDF5 = ("segments", "order", "queue_depth", "buffered", "mpi_io", "block")
_OF_NULL = ("null_delay", "null_straggler", "null_freeze")


@dataclass(frozen=True)
class _Hints:
    hint: HintOption = None


def _stream(
    parameters: StreamParameters, of_ranks: RanksOptions, hints: _Hints, of_null: NullOptions, how: How
) -> None:
    """Measure bandwidth: write one file per thread or a shared file, then read each part by another thread.

    The run is `valid`, `warned` or `invalid`; the table of checks gives the reason. Exit code 4: the run is
    invalid, do not use its metrics; 1: it failed or was interrupted.
    """
    asked = parameters.model_copy(update={"hints": " ".join(hints.hint)}) if hints.hint else parameters
    team = team_of(of_ranks.ranks, of_ranks.mpi, asked.mpi_io, asked.needs_mpi)
    workload, access = asked.parts(of_null.backend(asked.backend))
    require_parallel_hdf5(access.library, team)
    require_by_protocol(how.place, workload, access, team)
    files, size_of_all = stream_files(workload, access, team), stream_bytes(workload, access, team)
    second = check_run(how, size_of_all, files, _ROOM)
    through = through_text(asked.backend, team)
    clients = ""
    if access.null is None:
        clients = clients_text(how.place, team)
        if workload.read:
            require_other_readers(folders_of_ranks(how.place, team), team)
    target, repetitions = str(how.place), how.repetitions
    rows = stream_plan_rows(workload, access, target, files, size_of_all, repetitions, through, clients)
    show_plan(rows | beside_rows(second, how.blocks), dry_run=how.dry_run, json=how.json)
    if how.dry_run:
        return
    may_go_on(how.yes)
    run_job(stream_job(workload, access, team), how, second, asked.seed)


def _hdf5(
    parameters: StreamParameters, of_ranks: RanksOptions, hints: _Hints, of_null: NullOptions, how: How
) -> None:
    """Measure bandwidth through HDF5: write one dataset of bytes in each file, then read it.

    The same as `penstock bench stream --backend hdf5`. The run is `valid`, `warned` or `invalid`; the table
    of checks gives the reason. Exit code 4: the run is invalid, do not use its metrics; 1: it failed or was
    interrupted.
    """
    _stream(parameters, of_ranks, hints, of_null, how)


stream_command = reports_errors(
    shows_progress(
        command_of(
            _stream,
            ModelTable(StreamParameters),
            DataclassTable(RanksOptions),
            DataclassTable(_Hints),
            DataclassTable(NullOptions),
            DataclassTable(How),
        )
    )
)
hdf5_command = reports_errors(
    shows_progress(
        command_of(
            _hdf5,
            ModelTable(StreamParameters, _NOT_OF_HDF5, backend="hdf5"),
            DataclassTable(RanksOptions, ("mpi",)),
            DataclassTable(_Hints, ("hint",)),
            DataclassTable(NullOptions, _OF_NULL),
            DataclassTable(How),
        )
    )
)
