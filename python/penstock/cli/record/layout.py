"""`penstock layout`"""

from typing import Annotated

import typer
from rich.console import Console

from penstock.cli.common import err, out, print_json, reports_errors
from penstock.cli.words import examples
from penstock.model.errors import ExitCode
from penstock.model.layout.find import load_layout, read_layout, ready_layouts
from penstock.model.layout.to_yaml import layout_to_yaml
from penstock.programs.locate import layouts_folder
from penstock.report.layouts import layout_findings, layout_tree, layouts_table

layout_application = typer.Typer(
    help="Layouts of what is in a file: ready ones, your own in YAML, areaDetector's in XML.",
    no_args_is_help=True,
    rich_markup_mode=None,  # its tables cut names where a terminal is narrow
    context_settings={"help_option_names": ["-h", "--help"]},
)
_WIDTH = 120  # lines are better cut by the terminal than by us
Choice = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="A file, or the name of a ready layout; `?NAME=VALUE` behind it sets a parameter.",
    ),
]


@layout_application.command("list", epilog=examples("penstock layout list"))
@reports_errors
def list_command() -> None:
    """List the layouts that come with Penstock."""
    folder = layouts_folder()
    out().print(layouts_table({name: load_layout(name, folder) for name in ready_layouts(folder)}))


@layout_application.command(
    "check", epilog=examples("penstock layout check beamline.xml", "penstock layout check nxtomo --json")
)
@reports_errors
def check_command(
    file: Choice,
    json: Annotated[bool, typer.Option("--json", help="Findings as JSON, for machines.")] = False,
) -> None:
    """Check a layout: what is wrong in which line, what does not apply, and what to do about it.

    The exit code is 1 where nothing can be recorded with it; warnings leave it at 0.
    """
    layout = read_layout(file, layouts_folder())
    if json:
        print_json([finding.model_dump(mode="json") for finding in layout.findings])
    else:
        for line in layout_findings(layout.findings):
            out().print(line, soft_wrap=True)
        count = len(layout.errors)
        said = f"{count} error{'s' * (count != 1)}" if count else "it can be recorded with"
        out().print(f"{layout.name}: {len(layout.nodes)} objects; {said}", markup=False)
    if layout.errors:
        raise typer.Exit(ExitCode.FAILED)


@layout_application.command(
    "show",
    epilog=examples(
        "penstock layout show nxmx",
        "penstock layout show beamline.xml --yaml",
        "penstock layout show 'nxtomo?rotation_angle=theta'",
    ),
)
@reports_errors
def show_command(
    file: Choice,
    yaml: Annotated[bool, typer.Option("--yaml", help="As a layout in YAML, to go on from.")] = False,
) -> None:
    """Draw the tree that a layout makes."""
    layout = load_layout(file, layouts_folder())
    for line in layout_findings(layout.warnings):
        err().print(line, soft_wrap=True)
    if yaml:
        typer.echo(layout_to_yaml(layout), nl=False)
    else:
        Console(highlight=False, width=max(out().width, _WIDTH)).print(layout_tree(layout))
