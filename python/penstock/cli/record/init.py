"""`penstock init`"""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.common import out, reports_errors, require_new
from penstock.files.space import write_document
from penstock.model.starter import starter_text
from penstock.model.text import harmless


@reports_errors
def init_command(
    file: Annotated[Path, typer.Argument(help="New YAML file.")] = Path("penstock.yaml"),
) -> None:
    """Write a new configuration for `penstock record`, with comments and defaults.

    Existing files are not overwritten.
    """
    require_new(file, "")
    write_document(file, starter_text(str(file)).rstrip("\n"))
    shown = harmless(shlex.quote(str(file)))
    out().print(
        f"wrote {shown}: edit it, then check it with `penstock record {shown} --dry-run`",
        markup=False,
        soft_wrap=True,
    )
