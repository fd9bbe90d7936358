"""`--background` of `penstock bench`: the same workload alone, and with a background load."""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.bench.data.folder import ROOM_ADVICE, RoomAdvice, require_room, require_target, require_writable
from penstock.bench.run.interference import effects, interfere, load_beside
from penstock.bench.run.second import READER, Second, reader_of, words_in
from penstock.bench.run.workloads import WORKLOADS, FramesParameters, StoredParameters
from penstock.cli.common import out, print_json, warn
from penstock.cli.documents import written_whatever_happens
from penstock.cli.option_table import ModelTable
from penstock.cli.verbosity import info
from penstock.cli.wrong_values import WrongOptions
from penstock.model import panels
from penstock.model.bench.campaigns import CaseRun
from penstock.model.bench.runs import Run
from penstock.model.errors import ExitCode, UsageError
from penstock.programs.beside import RepeatedCommand
from penstock.report.remaining import left_text

Beside = Annotated[
    str | None,
    typer.Option(
        metavar="WORKLOAD",
        help="Measure alone and with this background load, which is repeated meanwhile: 'stream --threads 2"
        " --size 1GiB', 'frames …', 'metadata …', 'read PATH… --threads 4' for existing files, or"
        " 'command -- …' for any program. [default: no background load]",
        rich_help_panel=panels.BACKGROUND,
    ),
]
BesideTarget = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder for the background load. [default: the same target]",
        rich_help_panel=panels.BACKGROUND,
    ),
]
Blocks = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1000,
        help="With --background: number of A/B repetitions, in random order. [default: 6]",
        rich_help_panel=panels.BACKGROUND,
    ),
]
BLOCKS = 6  # the fewest that have an interval with 95 % confidence

_REPEATABLE = ("frames", "stream", "metadata")
# Options of a command that a background load does not have.
_ELSEWHERE = (
    "output", "yes", "dry_run", "json", "keep", "profile", "repetitions", "background", "background_target",
    "quiet", "verbose",
    "ranks", "mpi", "format", "rename", "backend", "mpi_io", "collective", "block", "hint", "chunk",
    "deflate", "blocks", "null_delay", "null_straggler", "null_freeze",
)  # fmt: skip


def parse_second(text: str, target: Path) -> Second:
    """Returns the background load that the text describes. Raises UsageError."""
    words = words_in(text)
    if words[:2] == ["command", "--"] and len(words) > 2:
        if shutil.which(words[2]) is None:
            raise UsageError(
                f"--background '{text}': the program {words[2]} was not found",
                "check its name, or give its path",
            )
        return Second(text, None, 0, 0, lambda: RepeatedCommand(words[2:]))
    if not words or words[0] not in (*_REPEATABLE, READER):
        known = ", ".join([*_REPEATABLE, READER, "command -- …"])
        raise UsageError(f"--background '{text}' is not a workload", f"start it with one of: {known}")
    if words[0] == READER:
        require_target(target)
        return reader_of(text, words[1:], target)
    require_writable(target)
    made = ModelTable(WORKLOADS[words[0]]).made(dict(_options(text, words, target)))
    job = made.alone() if isinstance(made, StoredParameters) else None
    if job is None or job.plan is None:
        raise UsageError(
            f"--background '{text}' cannot be repeated",
            "use one process and plain frames, a plain stream, or metadata",
        )
    plan = job.plan
    return Second(text, target, job.bytes, job.files, lambda: load_beside(target, plan))


def _options(text: str, words: list[str], target: Path) -> Mapping[str, Any]:
    from penstock.cli.application import BENCH  # it knows this module's commands

    try:
        context = BENCH[words[0]].load(words[0]).make_context(words[0], [str(target), *words[1:]])
    except WrongOptions as error:
        said = getattr(error, "format_message", error.__str__)()
        raise UsageError(
            f"--background '{text}': {said}",
            f"`penstock bench {words[0]} --help` lists its options",
        ) from error
    # Names of files that are measured are renamed in this workload, and hidden until then in others.
    for name in (name for name in _ELSEWHERE if (words[0], name) != ("metadata", "rename")):
        if context.params.get(name) not in (None, False, (), [], "raw", "posix"):
            option = name.rstrip("_").replace("_", "-")
            raise UsageError(
                f"--background '{text}': --{option} is not allowed in a background load", "leave it out"
            )
    return dict(context.params)


def require_shape(parameters: FramesParameters) -> None:
    """Raises UsageError if an image format lacks its shape."""
    if parameters.format != "raw" and parameters.shape is None and parameters.content != "file":
        raise UsageError(f"--format {parameters.format} requires --shape", "for example --shape 2527x2463")


def require_room_for_both(
    target: Path, needed_bytes: int, files: int, second: Second | None, advice: RoomAdvice = ROOM_ADVICE
) -> None:
    """Raises PenstockError unless both loads fit at the same time, perhaps on one file system."""
    if second is None or second.target is None:
        require_room(target, needed_bytes, files, advice)
    elif second.target.stat().st_dev == target.stat().st_dev:
        bytes_of_both, files_of_both = needed_bytes + second.bytes, files + second.files
        require_room(target, bytes_of_both, files_of_both, advice, others_bytes=second.bytes)
    else:
        require_room(target, needed_bytes, files, advice)
        require_room(second.target, second.bytes, second.files)


def beside_rows(second: Second | None, blocks: int | None) -> dict[str, str]:
    """What a plan says of the background load, if there is one."""
    if second is None:
        return {}
    from penstock.report.interference import second_plan_rows

    return second_plan_rows(second, blocks or BLOCKS)


def interference(
    first: Callable[[], Run], second: Second, blocks: int, seed: int, output: Path | None, json: bool
) -> None:
    """Measures, shows and writes the campaign. Raises typer.Exit if it ended early or is invalid."""
    from penstock.report.interference import effects_view, run_line

    console, begun, runs = info(), time.monotonic(), 0

    def report(done: CaseRun) -> None:
        nonlocal runs
        runs += 1
        left_s = (time.monotonic() - begun) / runs * (2 * blocks - runs)
        left = f"; about {left_text(left_s)}" if left_s else ""
        console.print(run_line(done) + left, markup=False, soft_wrap=True)

    what: dict[str, str | int | float] = {"beside": second.text, "beside_target": str(second.target or "")}

    def report_trouble(trouble: BaseException) -> None:
        warn(f"ended early: {str(trouble) or 'interrupted'}")

    campaign = interfere(first, second.start, what, blocks, seed, report, report_trouble)
    with written_whatever_happens(output, campaign):
        if json:
            print_json(campaign)
        else:
            out().print(effects_view(campaign, effects(campaign)))
    if not campaign.complete or campaign.runs[-1].run.document.problem:
        raise typer.Exit(int(ExitCode.FAILED))
    if any(each.run.validity == "invalid" for each in campaign.runs):
        raise typer.Exit(int(ExitCode.INVALID))
