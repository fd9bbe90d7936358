"""`penstock rehearse`"""

import contextlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.bench.data.folder import BenchFolder, require_room, require_writable
from penstock.bench.judge.exit_codes import exit_code_of
from penstock.bench.rehearse.course import Told, rehearse, room_advice
from penstock.bench.rehearse.request import Images, RehearsalRequest, notes_of, require_usable
from penstock.bench.rehearse.sources import rehearsal_plan
from penstock.cli.bench.running import DryRun, Json, Target, Yes, may_go_on, warn_of_others
from penstock.cli.bench.search_choice import (
    SearchMax,
    SoakMinutes,
    search_time_option,
    soak_option,
    soak_seconds,
)
from penstock.cli.campaign.report import ReportFile
from penstock.cli.common import answers, out, print_json, require_new, size_option, warn
from penstock.cli.detector_choice import (
    CustomColumns,
    CustomFile,
    CustomRows,
    CustomType,
    DetectorName,
    choose_detector,
    rate_of,
    rate_option,
    title_at,
)
from penstock.cli.documents import StepwiseDocument, write_page, written_first
from penstock.cli.record.chain_choice import RecorderMpi, ReplayMemory, ranks_of
from penstock.cli.verbosity import progress, show_plan, shows_progress
from penstock.files.documents import read_document
from penstock.lab.clients import folders_of_ranks
from penstock.model import panels
from penstock.model.bench.rehearsals import Rehearsal, RehearsalStep
from penstock.model.bench.runs import Verdict
from penstock.model.catalogue import CUSTOM, replayed_custom, replayed_detector
from penstock.model.errors import UsageError
from penstock.model.events import (
    CheckProgress,
    DetectorProgress,
    Event,
    Prepare,
    RecorderProgress,
    Waiting,
)
from penstock.model.overrides import RecordOptions, configuration_from
from penstock.model.plans import RecorderPlan, SentEncoding
from penstock.model.text import counted
from penstock.programs.record import try_out
from penstock.programs.remote import require_same_version
from penstock.report.progress import ProgressView, recorder_line, show
from penstock.report.rehearse.rehearsals import rehearsal_plan_rows, rehearsal_step_line, rehearsal_view

if TYPE_CHECKING:  # it loads HDF5
    from penstock.files.images.replay import Replay

_FRAMES_REPLAYED_MAX = 100_000
_SOAK_S = 30.0


@answers
@shows_progress
def rehearse_command(
    detector: DetectorName,
    target: Target,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Configuration of `penstock record` to rehearse. Its folder, file name and addresses are"
            " replaced. [default: the defaults of `penstock record`]",
            rich_help_panel=panels.RUN,
        ),
    ] = None,
    ranks: Annotated[
        int,
        typer.Option(
            min=1,
            max=256,
            help="Number of MPI processes of the recorder, as for `penstock record`.",
            rich_help_panel=panels.RESOURCES,
        ),
    ] = 1,
    mpi: RecorderMpi = "openmpi",
    rate: Annotated[float | None, rate_option(1e6)] = None,
    seconds: Annotated[
        float,
        typer.Option(
            min=1,
            max=3600,
            help="Duration in seconds of the first run, at the detector's rate.",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = 20.0,
    soak: Annotated[float | None, soak_option(" [default: 30]")] = None,
    minutes: SoakMinutes = None,
    search_time: Annotated[float, search_time_option()] = 120.0,
    search_max: SearchMax = 10.0,
    step_seconds: Annotated[
        float,
        typer.Option(
            min=2,
            max=3600,
            metavar="SECONDS",
            help="Duration in seconds of each step of the search.",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = 10.0,
    buffer_seconds: Annotated[
        float,
        typer.Option(
            min=0.01,
            max=3600,
            metavar="SECONDS",
            help="Seconds of frames that the detector's own buffer holds; frames that arrive later are lost.",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = 1.0,
    encoding: Annotated[
        str,
        typer.Option(
            help="Encoding in which the detector sends frames: none, bslz4, bszstd or lz4.",
            rich_help_panel=panels.DETECTOR,
        ),
    ] = "none",
    ratio: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=1e6,
            help="Compression ratio of simulated frames with bslz4, approximately.",
            rich_help_panel=panels.DETECTOR,
        ),
    ] = None,
    replay: Annotated[
        list[Path] | None,
        typer.Option(
            help="Images to send instead of simulated ones, as for `penstock simulate`. Repeatable. With"
            " --from they are read on both machines.",
            rich_help_panel=panels.DETECTOR,
        ),
    ] = None,
    replay_memory: ReplayMemory = "2GiB",
    file: CustomFile = None,
    rows: CustomRows = None,
    columns: CustomColumns = None,
    type_: CustomType = None,
    sender: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="HOST",
            help="Simulate the detector on this host, over ssh, so that the network takes part. ~/.ssh/config"
            " sets its port, user and key. The variable PENSTOCK_SSH replaces the command `ssh`. [default: on"
            " this machine]",
            rich_help_panel=panels.SOURCES,
        ),
    ] = "",
    listen: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="With --from over TCP: address of this machine as HOST reaches it. A token is made for the"
            " rehearsal. [default: the first tcp source of --config]",
            rich_help_panel=panels.SOURCES,
        ),
    ] = "",
    space: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="Space for one series. Series of a longer run follow one another; each is checked and"
            " removed before the next one.",
            rich_help_panel=panels.FILES,
        ),
    ] = "8GiB",
    verdict: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Verdict of the same storage, whose throughput is shown beside the chain's.",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the document of the rehearsal (JSON) into this new file, after each step, and add it"
            " to the run index (`penstock runs list`).",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = None,
    report: ReportFile = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Rehearse a recording: simulated detector, network, recorder, storage; every frame is checked.

    The chain runs at the detector's rate, unpaced, at the highest rate that it sustains, and in a soak. The
    answer names the stage that gives out first. Exit code 0: yes or likely yes; 1: no or likely no;
    3: cannot tell; 4: invalid; 5: it was interrupted or a step failed,
    and the answer is not a no.
    """
    of_images = bool(replay) and detector == CUSTOM and (rows, columns, type_, file) == (None,) * 4
    chosen = (
        replayed_custom() if of_images else choose_detector("rehearse", detector, rows, columns, type_, file)
    )
    rate_hz = rate_of(chosen, rate)
    if listen and not sender:
        raise UsageError(
            "--listen requires --from: the simulated detector is on this machine",
            "add --from HOST, or remove --listen",
        )
    require_writable(target)
    warn_of_others(target)
    require_new(output)
    require_new(report, "--report")
    configuration = configuration_from(config, RecordOptions())
    memory = size_option(replay_memory, "--replay-memory")
    with contextlib.ExitStack() as stack:
        images = Images(chosen, encoding=_encoding(encoding), ratio=ratio)
        if replay:
            images = _replayed(stack, images, replay, memory)
        request = RehearsalRequest(
            name=title_at(images.detector, rate_hz),
            images=images,
            rate_hz=rate_hz,
            seconds=seconds,
            search_s=search_time,
            times_max=search_max,
            soak_s=soak_seconds(soak, minutes, _SOAK_S),
            buffer_s=buffer_seconds,
            series_bytes=size_option(space, "--space"),
            configuration=configuration,
            configuration_file="" if config is None else config.name,
            ranks=ranks_of(ranks, mpi),
            sender=sender,
            listen=listen,
            step_s=step_seconds,
            storage_alone_bytes_per_s=_storage_alone(verdict),
        )
        _run(request, target, _Outputs(output, report, json), yes=yes, dry_run=dry_run)


@dataclass(frozen=True)
class _Outputs:
    document: Path | None
    report: Path | None
    json: bool


def _run(request: RehearsalRequest, target: Path, outputs: _Outputs, *, yes: bool, dry_run: bool) -> None:
    require_usable(request)
    require_room(target, request.bytes_at_once, 1, room_advice(request))
    plan = rehearsal_plan(request, target.absolute(), os.environ)
    if request.sender:
        request = replace(request, sender_ahead_s=require_same_version(request.sender))
    try_out(plan, ranks=request.ranks)
    rows = rehearsal_plan_rows(request, plan, str(target))
    for number, note in enumerate(notes_of(request), 1):
        rows["note" if number == 1 else f"note ({number})"] = note
    show_plan(rows, dry_run=dry_run, json=outputs.json)
    if dry_run:
        return
    may_go_on(yes)
    with (
        BenchFolder.make(target, needed_bytes=request.bytes_at_once) as folder,
        StepwiseDocument(outputs.document) as document,
    ):
        where = {"folder": folder.path, "folders": folders_of_ranks(folder.path, request.ranks)}
        answered = _rehearse(request, plan.model_copy(update=where), folder, document)
        with (
            written_first(lambda: document.finish(answered)),
            written_first(lambda: write_page(outputs.report, answered, document.kept_at, "rehearsal")),
        ):
            if outputs.json:
                print_json(answered)
            else:
                out().print(rehearsal_view(answered))
    raise typer.Exit(int(exit_code_of(answered.answer, answered.problem)))


def _rehearse(
    request: RehearsalRequest, plan: RecorderPlan, folder: BenchFolder, document: StepwiseDocument
) -> Rehearsal:
    with progress() as view:
        view.expect(request.seconds_expected)

        def on_step(step: RehearsalStep, so_far: Rehearsal) -> None:
            view.end_all()
            view.info(rehearsal_step_line(step))
            document.write(so_far)

        told = Told(lambda event: _show(view, event), view.say, on_step, document.write)
        return rehearse(request, plan, folder, told)


def _show(view: ProgressView, event: Event) -> None:
    """Bars that all series share, and no line for each of them."""
    match event:
        case RecorderProgress():
            view.update("recording", event.frames_written, event.frames_announced, recorder_line(event))
        case DetectorProgress() | Prepare() | Waiting() | CheckProgress():
            show(view, event)
        case _:
            pass


def _encoding(text: str) -> SentEncoding:
    match text:
        case "none" | "bslz4" | "bszstd" | "lz4":
            return text
        case _:
            raise UsageError(f'--encoding: "{text}" is unknown', "write none, bslz4, bszstd or lz4")


def _replayed(stack: contextlib.ExitStack, images: Images, paths: list[Path], memory: int) -> Images:
    from penstock.files.images.replay import replay_file  # it loads HDF5

    with progress() as view:
        reading = "reading images"
        found: Replay = stack.enter_context(
            replay_file(
                paths,
                memory,
                _FRAMES_REPLAYED_MAX,
                lambda n, of: view.update(reading, n, of, f"{n} of {of}"),
            )
        )
        view.finish(
            reading, f"{counted(found.frames, 'image')} of {found.rows} x {found.columns} {found.type}"
        )
    shape = replayed_detector(images.detector, found.rows, found.columns, found.type)
    return Images(shape, found.path, tuple(path.absolute() for path in paths), images.encoding)


def _storage_alone(path: Path | None) -> float | None:
    if path is None:
        return None
    document = read_document(path)
    if not isinstance(document, Verdict):
        raise UsageError(
            f"--verdict {path} is not a verdict", "name a document that `penstock verdict` wrote"
        )
    if document.measured_bytes_per_s is None:
        warn(f"warning: {path} has no measured throughput")
    return document.measured_bytes_per_s
