"""`penstock verdict`"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.bench.folder import BenchFolder, require_room, require_target
from penstock.bench.images import make_template
from penstock.bench.run import Access, frames_request
from penstock.bench.verdict import EXIT_CODES, full_speed_request, measure
from penstock.cli.bench import (
    Buffered,
    BufferSeconds,
    DryRun,
    FormatOption,
    Json,
    LateAfter,
    LayoutOption,
    Output,
    Rename,
    Seed,
    SyncOption,
    Target,
    Writers,
    Yes,
    check_layout,
    check_output,
    image_request,
    may_go_on,
    telling,
)
from penstock.cli.common import err, out, print_json, reports_errors
from penstock.cli.detector_choice import CustomColumns, CustomRows, CustomType, choose_detector
from penstock.files.space import write_document
from penstock.model.errors import UsageError
from penstock.model.runs import Verdict
from penstock.report.progress import ProgressView
from penstock.report.runs import checks_table, frames_plan_view, verdict_view


@reports_errors
def verdict_command(
    detector: Annotated[
        str,
        typer.Argument(help="A name from `penstock detectors`, or `custom` with --rows, --columns, --type."),
    ],
    target: Target,
    seconds: Annotated[float, typer.Option(min=1, help="How long frames become due.")] = 30.0,
    rate: Annotated[
        float | None,
        typer.Option(min=1e-3, max=1e7, metavar="HZ", help="Frames a second. [default: the detector's own]"),
    ] = None,
    ratio: Annotated[
        float,
        typer.Option(min=1, max=1e6, help="Frames are so many times smaller when they are stored."),
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
    output: Output = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Can this storage take this detector? Measures it at the detector's own rate and frame size.

    Frames become due and wait for nobody. Then the same pattern is written as fast as it goes, for the
    margin. Exit code 0: yes; 1: no, or the run failed; 3: cannot tell; 4: the measurement is invalid.
    """
    chosen = choose_detector("verdict", detector, rows, columns, type_)
    rate_hz = chosen.rate_hz if rate is None else rate
    if rate_hz <= 0:
        raise UsageError(f"the rate of {chosen.name} is not known", "give one with --rate")
    check_layout(layout, format_, rename)
    if format_ != "raw" and ratio != 1:
        raise UsageError(f"--ratio {ratio:g} is for plain frames", "leave one of --ratio and --format away")
    access = Access(direct=not buffered, sync=sync, seed=seed)
    image = image_request(f"{chosen.rows}x{chosen.columns}", chosen.type, format_)
    plain_bytes = max(1, round(chosen.frame_bytes / ratio))
    frame_bytes = plain_bytes if image is None else len(make_template(image).data)
    request = frames_request(
        frame_bytes, rate_hz, seconds, writers, buffer_seconds, late_after, layout, access
    ).model_copy(update={"rename": rename, "image": image})
    full = full_speed_request(request)
    require_target(target)
    check_output(output)
    err().print(frames_plan_view(request, str(target), full))
    require_room(target, request.bytes + full.bytes, request.files + full.files)
    if dry_run:
        return
    may_go_on(yes)
    with BenchFolder.make(target) as folder:
        with ProgressView(err()) as view:
            verdict = measure(chosen, request, folder, telling(view))
        _show(verdict, output, json)
    raise typer.Exit(int(EXIT_CODES[verdict.answer]))


def _show(verdict: Verdict, output: Path | None, json: bool) -> None:
    if output is not None:
        write_document(output, verdict.model_dump_json())
    if json:
        print_json(verdict)
    else:
        out().print(checks_table(verdict.runs[0].checks))
        out().print()
        out().print(verdict_view(verdict))
