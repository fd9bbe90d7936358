"""`penstock check`"""

from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.common import err, inspects, out, print_json, size_option
from penstock.files.aside import require_file
from penstock.model.errors import ExitCode, UsageError
from penstock.model.events import CheckReport
from penstock.model.findings import lacks_checksums
from penstock.model.text import counted
from penstock.programs.check import check, check_plan
from penstock.report.progress import ProgressView, show
from penstock.report.tables import conclusion, findings_text, report_line


@inspects
def check_command(
    file: Annotated[Path, typer.Argument(help="The file to check.")],
    against: Annotated[
        str | None,
        typer.Option(
            metavar="recorded|PATH",
            help="Compare pixels: `recorded` makes the frames of a simulated series again; a path names"
            " the images (a folder, image files, .npy) that were replayed.",
        ),
    ] = None,
    replay_memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Of images read for --against.")
    ] = "2GiB",
    threads: Annotated[int, typer.Option(min=1, max=1024, help="Threads that check.")] = 2,
    no_plugins: Annotated[
        bool,
        typer.Option(
            "--no-plugins",
            help="Expand no chunk with an HDF5 filter plug-in: they run in the check's process, and a file"
            " may be made to crash them.",
        ),
    ] = False,
    require_complete: Annotated[
        bool,
        typer.Option(
            "--require-complete", help="Exit code 1 also when frames are missing, or the file is unfinished."
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="The report as JSON, for machines.")] = False,
) -> None:
    """Check a file: every chunk's checksum, every frame accounted for, the NeXus structure.

    Interrupted, it reports how far it came and what it found until then, with exit code 130 (Ctrl-C) or 143
    (SIGTERM). Exit code 3 means that the file has no checksums, so that nothing proves its frames:
    Penstock did not write it, or another program copied it. `--against` still compares its pixels.
    """
    require_file(file)
    with ProgressView(err()) as view:

        def run(source: dict[str, Any] | None) -> CheckReport:
            return check(
                check_plan(file, source, threads, plugins=not no_plugins),
                lambda event: show(view, event),
                view.say,
            )

        if against is None or against == "recorded":
            report = run({"recorded": True} if against else None)
        else:
            memory = size_option(replay_memory, "--replay-memory")
            if not any(Path(name).exists() for name in (against, against.partition("::")[0])):
                raise UsageError(
                    f"--against {against} is not there",
                    "name the images, or `recorded` for a simulated series",
                )
            reading = "reading images"
            from penstock.files.images.replay import replay_file  # noqa: PLC0415  (it loads fabio)

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
        out().print(conclusion(report))
        if report.recoverable is not None:
            out().print(f"run `penstock recover {file}`", markup=False, soft_wrap=True)
    if not report.complete:
        raise typer.Exit(int(ExitCode.of_signal(report.stopped_by or "SIGINT")))
    if report.ok and lacks_checksums(report.findings) and not report.compared_frames:
        raise typer.Exit(int(ExitCode.CANNOT_TELL))
    if not report.ok or (require_complete and (report.missing or report.unfinished)):
        raise typer.Exit(int(ExitCode.FAILED))
