"""`penstock check`"""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.common import inspects, out, print_json, size_option
from penstock.cli.verbosity import progress, shows_progress
from penstock.files.aside import require_file
from penstock.model import panels
from penstock.model.errors import ExitCode, PenstockError, UsageError
from penstock.model.findings import lacks_checksums, lacks_comparison
from penstock.model.text import counted

if TYPE_CHECKING:
    from penstock.model.events import CheckReport


@inspects
@shows_progress
def check_command(
    file: Annotated[Path, typer.Argument(readable=False, help="File to check.")],
    against: Annotated[
        str | None,
        typer.Option(
            metavar="recorded|PATH",
            help="Compare pixels: `recorded` regenerates the frames of a simulated series; a path names the"
            " replayed images (folder, image file or .npy). [default: pixels are not compared]",
            rich_help_panel=panels.COMPARISON,
        ),
    ] = None,
    replay_memory: Annotated[
        str,
        typer.Option(
            metavar="SIZE", help="Memory for the images of --against.", rich_help_panel=panels.COMPARISON
        ),
    ] = "2GiB",
    threads: Annotated[
        int, typer.Option(min=1, max=1024, help="Number of threads.", rich_help_panel=panels.RESOURCES)
    ] = 2,
    no_plugins: Annotated[
        bool,
        typer.Option(
            "--no-plugins",
            help="Do not decompress chunks with HDF5 filter plug-ins: a malicious file could exploit them.",
            rich_help_panel=panels.RUN,
        ),
    ] = False,
    require_complete: Annotated[
        bool,
        typer.Option(
            "--require-complete",
            help="Exit with code 1 also if frames are missing or the file is unfinished.",
            rich_help_panel=panels.RUN,
        ),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON.", rich_help_panel=panels.OUTPUT)
    ] = False,
) -> None:
    """Check a file: the checksum of every chunk, the accounting of every frame, and the NeXus structure.

    If interrupted, it reports its progress and findings, with exit code 130 (Ctrl-C) or 143 (SIGTERM). Exit
    code 3: the file has no checksums, because another program wrote or copied it; its frames cannot be
    verified. `--against` still compares its pixels.
    """
    memory = size_option(replay_memory, "--replay-memory")
    require_file(file)
    from penstock.programs.check import check, check_plan
    from penstock.report.progress import show
    from penstock.report.tables import completion, conclusion, findings_text, missing_line, report_line

    with progress() as view:

        def run(source: dict[str, Any] | None) -> "CheckReport":
            return check(
                check_plan(file, source, threads, plugins=not no_plugins),
                lambda event: show(view, event),
                view.say,
            )

        if against is None or against == "recorded":
            report = run({"recorded": True} if against else None)
        else:
            if not any(Path(name).exists() for name in (against, against.partition("::")[0])):
                raise UsageError(
                    f"--against {against} does not exist",
                    "name the replayed images, or `recorded` for a simulated series",
                )
            reading = "reading images"
            from penstock.files.images.replay import replay_file

            with replay_file(
                [Path(against)], memory, 1 << 31, lambda n, of: view.update(reading, n, of, f"{n} of {of}")
            ) as replay:
                view.finish(reading, counted(replay.frames, "image"))
                report = run({"npy": str(replay.path)})
    if json:
        print_json(report)
    else:
        if report.findings:
            out().print(findings_text(report.findings), soft_wrap=True, end="")
        out().print(report_line(report), markup=False, soft_wrap=True)
        if report.missing_ranges:
            out().print(missing_line(report), markup=False, soft_wrap=True)
        out().print(conclusion(report))
        if remedy := completion(report, file, lambda: _can_resume(file)):
            out().print(f"what to do: {remedy}", markup=False, soft_wrap=True)
    if not report.complete:
        raise typer.Exit(int(ExitCode.of_signal(report.stopped_by or "SIGINT")))
    if report.ok and lacks_comparison(report.findings):
        raise typer.Exit(int(ExitCode.USAGE))
    if report.ok and lacks_checksums(report.findings) and not report.compared_frames:
        raise typer.Exit(int(ExitCode.CANNOT_TELL))
    if not report.ok or (require_complete and (report.missing or report.unfinished)):
        raise typer.Exit(int(ExitCode.FAILED))


def _can_resume(file: Path) -> bool:
    from penstock.files.inspect import series_can_resume  # it loads HDF5

    with contextlib.suppress(PenstockError):
        return series_can_resume(file)
    return True
