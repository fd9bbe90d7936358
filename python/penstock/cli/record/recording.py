"""What `penstock record` does."""

import errno
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.common import err, out, print_json, warn
from penstock.cli.record.chain_choice import ranks_of
from penstock.cli.record.events import event_output
from penstock.cli.record.pva import pva_given, read_start
from penstock.cli.record.record import RunOptions
from penstock.cli.verbosity import info, progress
from penstock.files.record_folder import require_record_folder
from penstock.files.storage import storage_facts
from penstock.lab.clients import folders_of_ranks, ranks_text
from penstock.model.configuration import PvaSource
from penstock.model.errors import PenstockError, UsageError
from penstock.model.events import Event, RecorderSeriesEnd
from penstock.model.layout.find import describe, load_layout
from penstock.model.layout.nodes import DEFAULT, Layout
from penstock.model.overrides import RecordOptions, configuration_from, sources_left_out
from penstock.model.plans import RecorderPlan
from penstock.model.problems import reason_of
from penstock.model.storage import describe_facts, settle_store
from penstock.model.text import counted
from penstock.programs.locate import find_program, layouts_folder
from penstock.programs.pva import require_p4p
from penstock.programs.ranks import Ranks
from penstock.programs.record import Recording, placement_of, record, try_out
from penstock.report.layouts import layout_tree
from penstock.report.machine import placement_tables
from penstock.report.tables import plan_table

if TYPE_CHECKING:  # it loads HDF5
    from penstock.files.join import JointFile

_OF_SPACE = (errno.ENOSPC, errno.EDQUOT)
_NAMED = 5  # incomplete series that an error lists


def run_record(given: dict[tuple[str, ...], Any], run: RunOptions) -> None:
    """Records. `given` are the values of options that are fields of the configuration, by path."""
    configuration, options = run.configuration, _options(given, run)
    settings = configuration_from(configuration, options)
    if left_out := sources_left_out(configuration, options):
        info().print(
            f"note: options replace these sources of {configuration}: {', '.join(left_out)}",
            markup=False,
        )
    if settings.names_one_file:
        warn(
            f"warning: file_name {settings.file_name} has no placeholder: the second series is rejected"
            " because the file exists; add {series_unique_id}, or use --series 1"
        )
    require_record_folder(settings.folder)
    storage = storage_facts(settings.folder.absolute())
    chosen = _layout(settings.layout)
    if settings.scan.axes and chosen is not None and chosen.chooses:
        first = chosen.destinations()[0].path
        warn(
            f"layout: the frames of a scan are all in {first}; other datasets for frames are left out"
            " (record without scan, or remove destination from the layout)"
        )
    team = ranks_of(run.ranks, run.mpi)
    folders = folders_of_ranks(settings.folder, team)
    plan = settings.plan(storage=storage, layout=chosen).model_copy(update={"folders": folders})
    if folders and team is not None:
        info().print(f"clients: {ranks_text(folders, team.count)}", markup=False)
    if settings.pva_sources:
        _require_possible(team)
    joint = _together(settings.folder.absolute(), run.join)
    if run.dry_run:
        try_out(plan, _log_line, team)
        _show_plan(plan, run.json, team)
        console = err() if run.json else out()
        if not run.json and chosen is not None:
            console.print(layout_tree(chosen))
        for source in settings.pva_sources:
            console.print(f"pvAccess: {source.channel}", markup=False)
        reason = settle_store(settings.store, storage)[1]
        console.print(f"storage: {describe_facts(storage)}: {reason}", markup=False, soft_wrap=True)
        return
    if run.show_placement:
        _show_placement(plan, run.json)
        return
    recording = _record(plan, run.json, team, settings.pva_sources, joint)
    _require_success(recording, complete=run.require_complete)


def _options(given: dict[tuple[str, ...], Any], run: RunOptions) -> RecordOptions:
    return RecordOptions(
        given=given,
        listen=run.listen or [],
        token_file=run.token_file,
        zmq=run.zmq or [],
        pva=run.pva or [],
        settings=run.set or [],
        pva_settings=pva_given(
            frames=run.pva_frames,
            idle_end_s=run.pva_idle_end,
            name=run.pva_name,
            start=None if run.pva_start is None else read_start(run.pva_start),
        ),
    )


def _layout(choice: str) -> Layout | None:
    """Returns None for the default layout."""
    if choice == DEFAULT:
        return None
    layout = load_layout(choice, layouts_folder())
    for finding in layout.warnings:
        warn(f"layout: {describe(finding)}")
    return layout


def _together(folder: Path, name: str | None) -> "JointFile | None":
    if name is None:
        return None
    from penstock.files.join import JointFile  # it loads HDF5

    if Path(name).name != name or name.startswith("."):
        raise UsageError(
            f'--join: "{name}" is not a plain file name',
            "give a name without a folder; --folder is the folder",
        )
    return JointFile.open(folder / name, add=True)


def _require_possible(team: Ranks | None) -> None:
    """Raises UsageError or PenstockError if a pvAccess source cannot be used."""
    if team is not None:
        raise UsageError(
            "--pva does not support --ranks",
            "leave --pva out, and start `penstock pva CHANNEL --to tcp://HOST:PORT` in another terminal",
        )
    require_p4p()


def _log_line(line: str) -> None:
    err().print(line, markup=False, soft_wrap=True)


def _show_plan(plan: RecorderPlan, json: bool, ranks: Ranks | None) -> None:
    hidden = plan.without_tokens()
    program = find_program("penstock-recorder")
    command = [str(program)] if ranks is None else ranks.command(program)
    if json:
        print_json(hidden)
        return
    out().print(plan_table(hidden))
    out().print(f"program: {' '.join(command)}", markup=False)


def _show_placement(plan: RecorderPlan, json: bool) -> None:
    placement = placement_of(plan)
    if json:
        print_json(placement)
        return
    for table in placement_tables(placement):
        out().print(table)


def _record(
    plan: RecorderPlan,
    json: bool,
    ranks: Ranks | None,
    channels: Sequence[PvaSource],
    joint: "JointFile | None",
) -> Recording:
    with progress() as view:
        shown = event_output(view, json)

        def on_event(event: Event) -> None:
            shown(event)
            if joint is not None and isinstance(event, RecorderSeriesEnd):
                try:
                    joint.add([Path(event.file)])
                except PenstockError as error:  # the series themselves are complete
                    view.say(f"could not add {event.file} to {joint.path}: {error}")

        return record(plan, on_event, view.say, ranks, channels)


def _remedy(recording: Recording) -> str:
    reasons = [*recording.problems, *(each.message for each in recording.refusals)]
    remedies = ["free space on the storage"] if any(map(_is_of_space, reasons)) else []
    if recording.damaged_files:
        remedies.append(f"{_check_command(recording.damaged_files)} reports which frames the file has")
    elif recording.logged and not remedies:
        remedies.append("the log above gives the reason and the remedy")
    return "; ".join(remedies)


def _is_of_space(problem: str) -> bool:
    return any(reason_of(OSError(number, os.strerror(number))) in problem for number in _OF_SPACE)


def _check_command(files: Sequence[str]) -> str:
    """For the first of them."""
    return f"`penstock check {shlex.quote(files[0])}`"


def _require_success(recording: Recording, *, complete: bool) -> None:
    if recording.source_problems and not recording.failed:
        raise PenstockError("; ".join(recording.source_problems), "the log above names the frames and series")
    if recording.failed:
        count = len(recording.ended) + recording.refused
        raise PenstockError(
            f"{recording.failed} of {count} series had problems: {'; '.join(recording.problems)}",
            _remedy(recording),
        )
    if recording.all_refused:
        raise PenstockError(
            "every message was rejected; nothing was recorded",
            "the log above gives the reasons",
        )
    if complete and recording.incomplete:
        lacking = [
            f"{series.series_unique_id} lacks {counted(series.missing, 'frame')}"
            for series in recording.incomplete[:_NAMED]
        ]
        more = len(recording.incomplete) - len(lacking)
        raise PenstockError(
            f"{len(recording.incomplete)} of {len(recording.ended)} series are incomplete:"
            f" {'; '.join(lacking)}" + (f"; {more} more (--json lists them)" if more else ""),
            f"{_check_command([series.file for series in recording.incomplete])} lists the missing frames",
        )
