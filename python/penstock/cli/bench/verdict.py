"""`penstock verdict`"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from penstock.bench.data.folder import BenchFolder, RoomAdvice, require_writable
from penstock.bench.data.frame_choice import check_layout, image_request
from penstock.bench.data.images import make_template
from penstock.bench.judge.conditions import conditions_of
from penstock.bench.judge.reasons import STEP_NAMES
from penstock.bench.judge.verdict import exit_code_of
from penstock.bench.run.run import Access, frames_request
from penstock.bench.run.second import Second
from penstock.bench.run.stages import (
    BesidePlace,
    FolderPlace,
    Place,
    VerdictRequest,
    fits_hz,
    late_limit_s,
    measure,
)
from penstock.cli import completion
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
from penstock.cli.campaign.report import ReportFile
from penstock.cli.common import answers, out, print_json, require_new, warn
from penstock.cli.detector_choice import CustomColumns, CustomRows, CustomType, choose_detector
from penstock.cli.documents import enter
from penstock.cli.verbosity import info, progress, shows_progress
from penstock.files.growing_document import GrowingDocument
from penstock.files.space import write_document
from penstock.model import panels
from penstock.model.bench.runs import Step, Verdict
from penstock.model.catalogue import CUSTOM, Detector
from penstock.model.errors import PenstockError, UsageError
from penstock.report.runs import checks_table
from penstock.report.verdicts import step_line, verdict_plan_view, verdict_view


@answers
@shows_progress
def verdict_command(
    detector: Annotated[
        str,
        typer.Argument(
            help="Detector: a name from `penstock detectors`, or `custom` with --rows, --columns, --type.",
            autocompletion=completion.detectors,
        ),
    ],
    target: Target,
    seconds: Annotated[
        float,
        typer.Option(
            min=1,
            help="Duration in seconds of the first run, at the detector's rate.",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = 30.0,
    soak: Annotated[
        float,
        typer.Option(
            min=0,
            max=30 * 86400,
            metavar="SECONDS",
            help="Duration in seconds of the soak, the last run, which confirms the detector's rate; 0: no"
            " soak.",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = 60.0,
    search_time: Annotated[
        float,
        typer.Option(
            min=0,
            max=86400,
            metavar="SECONDS",
            help="Duration in seconds of the search for the highest sustained rate; 0: no search.",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = 180.0,
    search_max: Annotated[
        float,
        typer.Option(
            min=1.1,
            max=1e4,
            metavar="FACTOR",
            help="Upper limit of the search, as a multiple of the detector's rate.",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = 10.0,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Skip the search and the soak. The other two runs take about 50 s by default; --seconds sets"
            " their duration.",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = False,
    rate: Annotated[
        float | None,
        typer.Option(
            min=1e-3,
            max=1e7,
            metavar="HZ",
            help="Frame rate in Hz. [default: the detector's own]",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = None,
    ratio: Annotated[
        float,
        typer.Option(
            min=1,
            max=1e6,
            help="Compression ratio by which stored frames are smaller.",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = 1.0,
    writers: Writers = 4,
    buffer_seconds: BufferSeconds = 1.0,
    late_after: LateAfter = None,
    layout: LayoutOption = "file_a_frame",
    format_: FormatOption = "raw",
    rename: Rename = False,
    buffered: Buffered = False,
    sync: SyncOption = "each",
    seed: Seed = 1,
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

    Four steps: an open-loop run at the detector's rate, an unpaced run at maximum rate, a search for the
    highest sustained rate, and a soak at the detector's rate that confirms the answer. Exit code 0: yes;
    1: no; 3: cannot tell; 4: the measurement is invalid; 5: a step failed, for example for lack of space.
    """
    chosen = choose_detector("verdict", detector, rows, columns, type_)
    rate_hz = chosen.rate_hz if rate is None else rate
    if rate_hz <= 0:
        raise UsageError(f"the rate of {chosen.name} is unknown", "give it with --rate")
    check_layout(layout, format_, rename)
    if format_ != "raw" and ratio != 1:
        raise UsageError(
            f"--ratio {ratio:g} requires --format raw, not {format_}", "leave out --ratio or --format"
        )
    access = Access(direct=not buffered, sync=sync, seed=seed)
    image = image_request(f"{chosen.rows}x{chosen.columns}", chosen.type, format_)
    plain_bytes = max(1, round(chosen.frame_bytes / ratio))
    frame_bytes = plain_bytes if image is None else make_template(image).frame_bytes
    at_rate = frames_request(
        frame_bytes, rate_hz, seconds, writers, buffer_seconds, late_after, layout, access
    ).model_copy(update={"rename": rename, "image": image, "longer": "--seconds"})
    request = VerdictRequest(
        detector=_name_of(chosen),
        at_rate=at_rate,
        late_limit_s=late_limit_s(at_rate, late_after),
        search_s=0.0 if quick else search_time,
        times_max=search_max,
        soak_s=0.0 if quick else soak,
        beside=background or "",
    )
    require_writable(target)
    second = _second(background, background_target, target)
    warn_of_others(target)
    require_new(output)
    require_new(report, "--report")
    if report is not None and output is not None and report.absolute() == output.absolute():
        raise UsageError(f"--report and --output name the same file {report}", "name different files")
    room_hz = fits_hz(request, target)
    info().print(verdict_plan_view(request, conditions_of(target), str(target), room_hz, second))
    _require_room(request, target, second)
    if dry_run:
        return
    may_go_on(yes)
    answered: Verdict | None = None
    try:
        with BenchFolder.make(target, needed_bytes=max(step.bytes for step in request.always)) as folder:
            document = _Growing(output)
            verdict = _measure(request, folder, document, second)
            with document.finished(verdict) as kept_at:
                _show(verdict, json)
                if report is not None:
                    _write_report(report, verdict, kept_at)
            answered = verdict
    except PenstockError as error:
        # A directory that could not be removed does not invalidate a complete answer.
        if answered is None or answered.problem is not None:
            raise
        warn(f"warning: {error.message}; {error.remedy}")
    raise typer.Exit(int(exit_code_of(verdict)))


def _require_room(request: VerdictRequest, target: Path, second: Second | None) -> None:
    """Raises PenstockError with every step that is always made and lacks space; the remedy names options."""
    shorter = "reduce --seconds"
    what = {
        "the first run": (request.at_rate, shorter),
        "the unpaced run": (request.full_speed, shorter),
    }
    if request.soak is not None:
        what["the soak"] = (request.soak, "reduce --soak (0: no soak)")
    missing: list[PenstockError] = []
    for name, (step, fewer_bytes) in what.items():
        advice = RoomAdvice(name, fewer_bytes)
        try:
            require_room_for_both(target, step.bytes, step.files, second, advice)
        except UsageError:
            raise
        except PenstockError as error:
            missing.append(error)
    if missing:
        remedies = dict.fromkeys(error.remedy for error in missing)
        raise PenstockError("\n".join(error.message for error in missing), "; ".join(remedies))


def _name_of(detector: Detector) -> str:
    if detector.name != CUSTOM:
        return detector.name
    return f"custom detector of {detector.rows} x {detector.columns} {detector.type}"


def _second(background: str | None, background_target: Path | None, target: Path) -> Second | None:
    if background is None:
        if background_target is not None:
            raise UsageError("--background-target requires --background", "add --background, or leave it out")
        return None
    return parse_second(background, background_target or target)


class _Growing:
    """Writes the document of a verdict after each step, with --output."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._document: GrowingDocument | None = None

    def write(self, verdict: Verdict) -> None:
        if self._path is None:
            return
        text = verdict.model_dump_json()
        if self._document is None:
            self._document = GrowingDocument.create(self._path, text)
        else:
            self._document.write(text)

    @contextmanager
    def finished(self, verdict: Verdict) -> Iterator[Path | None]:
        """Yields the path of the document; adds it to the run index. Raises write errors after the body."""
        trouble: PenstockError | None = None
        try:
            self.write(verdict)
        except PenstockError as error:
            trouble = error
        if self._path is not None and self._document is not None:
            self._document.close()
            if trouble is None:
                enter(self._path, verdict)
        yield self._path if trouble is None else None
        if trouble is not None:
            raise trouble


def _measure(
    request: VerdictRequest, folder: BenchFolder, document: _Growing, second: Second | None
) -> Verdict:
    """Measures, and writes the document after each step."""
    with progress() as view:

        def on_step(step: Step, so_far: Verdict) -> None:
            view.info(step_line(step))
            document.write(so_far)

        place: Place = FolderPlace(folder, telling(view))
        if second is not None:
            place = BesidePlace(place, second.start, second.bytes)
        return measure(request, place, on_step)


def _write_report(path: Path, verdict: Verdict, output: Path | None) -> None:
    # Loading the plotting library takes as long as the rest of a command.
    from penstock.report.write import report_texts  # noqa: PLC0415

    source = str(output) if output is not None else "a verdict that was not saved"
    for file, text in report_texts({source: verdict}, path, None, None):
        write_document(file, text.rstrip("\n"))


def _show(verdict: Verdict, json: bool) -> None:
    """Shows the verdict before the directory is removed, so that a failing removal loses nothing."""
    if json:
        print_json(verdict)
    else:
        last = verdict.steps[-1]
        out().print(verdict_view(verdict))
        out().print()
        out().print(f"Checks of the last run ({STEP_NAMES[last.kind]}):", soft_wrap=True)
        out().print(checks_table(last.run.checks))
