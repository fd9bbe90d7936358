"""`penstock verdict`"""

import math
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from penstock.bench.data.folder import (
    ROOM_SHARE,
    BenchFolder,
    RoomAdvice,
    require_writable,
    room_for_frames,
)
from penstock.bench.data.frame_choice import check_layout, image_request
from penstock.bench.data.images import make_template
from penstock.bench.judge.conditions import conditions_of
from penstock.bench.judge.exit_codes import exit_code_of
from penstock.bench.run.run import Access, FramesRequest, frames_request
from penstock.bench.run.second import Second
from penstock.bench.run.stages import (
    BesidePlace,
    FolderPlace,
    Place,
    VerdictRequest,
    late_limit_s,
    measure,
)
from penstock.cli.bench.beside import BesideTarget, parse_second, require_room_for_both
from penstock.cli.bench.frame_choice import FormatOption, Rename
from penstock.cli.bench.frames import (
    Buffered,
    BufferSeconds,
    LateAfter,
    LayoutOption,
    Seed,
    SyncOption,
    Writers,
)
from penstock.cli.bench.running import DryRun, Json, Output, Target, Yes, may_go_on, telling, warn_of_others
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
from penstock.cli.verbosity import progress, show_plan, shows_progress
from penstock.model import panels
from penstock.model.bench.runs import Step, Verdict
from penstock.model.errors import PenstockError, UsageError
from penstock.report.verdicts import step_line, verdict_plan_rows, verdict_view

_SEARCH_S, _SOAK_S, _WITHIN_S = 120.0, 60.0, 300.0
# Options with a value that a repetition does not have: their files are there by then.
_NOT_REPEATED = ("--output", "-o", "--report")
_FLAGS_NOT_REPEATED = ("--quiet", "-q", "--json", "--dry-run")


@answers
@shows_progress
def verdict_command(
    detector: DetectorName,
    target: Target,
    seconds: Annotated[
        float,
        typer.Option(
            min=1,
            help="Duration in seconds of the run at the detector's rate.",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = 30.0,
    soak: Annotated[float | None, soak_option(" [default: 60; with --quick 0]")] = None,
    minutes: SoakMinutes = None,
    search_time: Annotated[float | None, search_time_option(" [default: 120; with --quick 0]")] = None,
    search_max: SearchMax = 10.0,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Skip the search and the soak. The other two runs take about 45 s by default; --seconds sets"
            " their duration.",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = False,
    space: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="Space on the storage for the files of a step; its older files are removed while it runs.",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = "20GB",
    within: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=60 * 86400,
            metavar="SECONDS",
            help="Duration in seconds of all steps together. Repetitions are left out and the search is"
            " shortened to keep it; each step is made once in any case. [default: 300, or what the steps take"
            " if that is longer]",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = None,
    rate: Annotated[float | None, rate_option(1e7)] = None,
    ratio: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=1e6,
            help="Compression ratio by which stored frames are smaller. For a detector that sends compressed"
            " frames, the plan names the typical ratio of the catalogue. [default: 1]",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = None,
    writers: Writers = 4,
    buffer_seconds: BufferSeconds = 1.0,
    late_after: LateAfter = None,
    layout: LayoutOption = "file_a_frame",
    format_: FormatOption = "raw",
    rename: Rename = False,
    buffered: Buffered = False,
    sync: SyncOption = "each",
    seed: Seed = 1,
    file: CustomFile = None,
    rows: CustomRows = None,
    columns: CustomColumns = None,
    type_: CustomType = None,
    background: Annotated[
        str | None,
        typer.Option(
            metavar="WORKLOAD",
            help="Make every step with this background load, which is repeated meanwhile: 'read PATH…"
            " --threads 4' for existing files, 'stream …', 'frames …', 'metadata …' or"
            " 'command -- …'."
            " [default: no background load]",
            rich_help_panel=panels.BACKGROUND,
        ),
    ] = None,
    background_target: BesideTarget = None,
    output: Output = None,
    report: ReportFile = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Measure whether a storage sustains a detector, at the detector's own rate and frame size.

    Four steps: an unpaced run at maximum rate, an open-loop run at the detector's rate, a search for the
    highest sustained rate, and a soak at the detector's rate that confirms the answer. Exit code 0: yes or
    likely yes; 1: no or likely no; 3: cannot tell; 4: the measurement is invalid; 5: it was
    interrupted or a step failed, for example for lack of space, and the answer is not a no.
    """
    chosen = choose_detector("verdict", detector, rows, columns, type_, file)
    rate_hz = rate_of(chosen, rate)
    check_layout(layout, format_, rename)
    if format_ != "raw" and ratio not in (None, 1):
        raise UsageError(
            f"--ratio {ratio:g} requires --format raw, not {format_}", "leave out --ratio or --format"
        )
    access = Access(direct=not buffered, sync=sync, seed=seed)
    image = image_request(f"{chosen.rows}x{chosen.columns}", chosen.type, format_)
    plain_bytes = max(1, round(chosen.frame_bytes / (ratio or 1)))
    frame_bytes = plain_bytes if image is None else make_template(image).frame_bytes
    at_rate = frames_request(
        frame_bytes, rate_hz, seconds, writers, buffer_seconds, late_after, layout, access
    ).model_copy(update={"rename": rename, "image": image, "longer": "--seconds"})
    space_bytes = size_option(space, "--space")
    at_rate = at_rate.within(space_bytes)
    request = VerdictRequest(
        detector=title_at(chosen, rate_hz),
        at_rate=at_rate,
        late_limit_s=late_limit_s(at_rate, late_after),
        search_s=(0.0 if quick else _SEARCH_S) if search_time is None else search_time,
        times_max=search_max,
        soak_s=soak_seconds(soak, minutes, 0.0 if quick else _SOAK_S),
        space_bytes=space_bytes,
        beside=background or "",
        command=_command(),
        typical_ratio=chosen.sent_ratio if ratio is None and format_ == "raw" else None,
    )
    request = replace(request, within_s=within or max(_WITHIN_S, request.seconds_expected))
    require_writable(target)
    second = _second(background, background_target, target)
    request = replace(request, room_bytes=_room_bytes(at_rate, target, second))
    warn_of_others(target)
    require_new(output)
    require_new(report, "--report")
    if report is not None and output is not None and report.absolute() == output.absolute():
        raise UsageError(f"--report and --output name the same file {report}", "name different files")
    _require_room(request, target, second)
    plan = verdict_plan_rows(request, conditions_of(target), str(target), second)
    show_plan(plan, dry_run=dry_run, json=json)
    if dry_run:
        return
    may_go_on(yes)
    request = replace(request, hints=_hints(target))
    answered: Verdict | None = None
    try:
        with BenchFolder.make(target, needed_bytes=max(step.bytes for step in request.always)) as folder:
            with StepwiseDocument(output) as document:
                verdict = _measure(request, folder, document, second)
                with (
                    written_first(lambda: document.finish(verdict)),
                    written_first(lambda: write_page(report, verdict, document.kept_at, "verdict")),
                ):
                    _show(verdict, json)
            answered = verdict
    except PenstockError as error:
        # A directory that could not be removed does not invalidate a complete answer.
        if answered is None or answered.problem is not None:
            raise
        warn(f"warning: {error.message}; {error.remedy}")
    raise typer.Exit(int(exit_code_of(verdict.answer, verdict.problem)))


def _room_bytes(step: FramesRequest, target: Path, second: Second | None) -> int:
    """Returns what is free for a step's files; a part stays for what others write meanwhile."""
    frames = room_for_frames(target, step.stored_bytes_each, step.layout == "file_a_frame")
    is_shared = second is not None and second.target is not None
    beside = second.bytes if second is not None and is_shared else 0
    return max(0, math.floor(ROOM_SHARE * (frames * step.stored_bytes_each - beside)))


def _require_room(request: VerdictRequest, target: Path, second: Second | None) -> None:
    """Raises PenstockError with every step that lacks space, the search at its highest rate included."""
    what = {
        "the run at the detector's rate": (request.at_rate, ""),
        "the unpaced run": (request.largest_unpaced, ""),
    }
    if request.soak is not None:
        what["the soak"] = (request.soak, "")
    if (largest := request.largest_search_step) is not None:
        what["the search"] = (largest, "reduce --search-max")
    missing: list[PenstockError] = []
    for name, (step, fewer_bytes) in what.items():
        advice = RoomAdvice(name, fewer_bytes, space="--space", space_min=request.at_rate.ring_bytes_min)
        try:
            require_room_for_both(target, step.bytes, step.files, second, advice)
        except UsageError:
            raise
        except PenstockError as error:
            missing.append(error)
    if missing:
        # The search needs most, and comes last: what makes another step fit comes before it.
        raise PenstockError("\n".join(error.message for error in missing), missing[0].remedy)


def _hints(target: Path) -> tuple[str, ...]:
    """What costs speed on this storage, as `penstock describe` finds it."""
    # Loading it takes as long as the rest of a command.
    from penstock.files.sheet.hints import storage_hints
    from penstock.files.sheet.sheet import data_sheet

    try:
        hints = storage_hints(data_sheet(target))
    except (OSError, PenstockError):  # the measurement will say more
        return ()
    return tuple(f"{hint.remedy}: {hint.what}; {hint.why}" for hint in hints)


def _command() -> str:
    """The user's own, as it can be repeated."""
    words = ["penstock"]
    skip = False
    for word in sys.argv[1:]:
        if not skip and word.split("=")[0] not in (*_NOT_REPEATED, *_FLAGS_NOT_REPEATED):
            words.append(word)
        skip = not skip and word in _NOT_REPEATED
    return shlex.join(words)


def _second(background: str | None, background_target: Path | None, target: Path) -> Second | None:
    if background is None:
        if background_target is not None:
            raise UsageError("--background-target requires --background", "add --background, or leave it out")
        return None
    return parse_second(background, background_target or target)


def _measure(
    request: VerdictRequest, folder: BenchFolder, document: StepwiseDocument, second: Second | None
) -> Verdict:
    """Measures, and writes the document after each step."""
    with progress() as view:
        view.expect(request.seconds_expected)

        def on_step(step: Step, so_far: Verdict) -> None:
            view.info(step_line(step))
            document.write(so_far)

        place: Place = FolderPlace(folder, telling(view))
        if second is not None:
            place = BesidePlace(place, second.start)
        return measure(request, place, on_step)


def _show(verdict: Verdict, json: bool) -> None:
    """Shows the verdict before the directory is removed, so that a failing removal loses nothing."""
    if json:
        print_json(verdict)
    else:
        out().print(verdict_view(verdict))
