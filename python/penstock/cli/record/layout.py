"""`penstock layout`"""

from typing import Annotated

import typer

from penstock.cli import completion
from penstock.cli.common import err, out, print_json, reports_errors
from penstock.cli.console import SafeConsole
from penstock.model import panels
from penstock.model.errors import ExitCode
from penstock.model.layout.find import load_layout, read_layout, ready_layouts
from penstock.model.layout.to_yaml import layout_to_yaml
from penstock.model.text import counted
from penstock.programs.locate import layouts_folder
from penstock.report.layouts import layout_findings, layout_tree, layouts_table

_WIDTH = 120  # the terminal cuts longer lines
Choice = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="Layout: a YAML or XML file, or a name from `penstock layout list`. Append `?NAME=VALUE` to set"
        " a"
        " parameter.",
        autocompletion=completion.layouts,
    ),
]


@reports_errors
def list_command() -> None:
    """List the layouts that come with Penstock."""
    folder = layouts_folder()
    out().print(layouts_table({name: load_layout(name, folder) for name in ready_layouts(folder)}))


@reports_errors
def check_command(
    file: Choice,
    json: Annotated[
        bool, typer.Option("--json", help="Print findings as JSON.", rich_help_panel=panels.OUTPUT)
    ] = False,
) -> None:
    """Check a layout: report errors and settings without effect, with line and remedy.

    Exit code 1: the layout has errors and cannot be used; warnings alone leave it at 0.
    """
    layout = read_layout(file, layouts_folder())
    if json:
        print_json([finding.model_dump(mode="json") for finding in layout.findings])
    else:
        for line in layout_findings(layout.findings):
            out().print(line, soft_wrap=True)
        count = len(layout.errors)
        said = f"{count} error{'s' * (count != 1)}" if count else "valid"
        out().print(f"{layout.name}: {counted(len(layout.nodes), 'object')}; {said}", markup=False)
    if layout.errors:
        raise typer.Exit(ExitCode.FAILED)


@reports_errors
def show_command(
    file: Choice,
    yaml: Annotated[
        bool,
        typer.Option(
            "--yaml",
            help="Print the layout as YAML, as a starting point for your own.",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = False,
) -> None:
    """Show the tree of groups and datasets that a layout makes."""
    layout = load_layout(file, layouts_folder())
    for line in layout_findings(layout.warnings):
        err().print(line, soft_wrap=True)
    if yaml:
        typer.echo(layout_to_yaml(layout), nl=False)
    else:
        SafeConsole(highlight=False, width=max(out().width, _WIDTH)).print(layout_tree(layout))
