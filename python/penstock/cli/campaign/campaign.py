"""`penstock campaign`"""

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from penstock.bench.campaign.campaigns import (
    CampaignPlan,
    left_of,
    plan_campaign,
    require_targets,
    resumed,
    strange_conditions,
)
from penstock.bench.data.folder import find_left
from penstock.cli.bench.running import may_go_on, telling
from penstock.cli.campaign.running import run_into
from penstock.cli.campaign.targets import targets_of
from penstock.cli.common import err, out, print_json, reports_errors, require_new, warn
from penstock.files.documents import parse_document, read_bytes
from penstock.files.growing_document import GrowingDocument
from penstock.model.bench.campaign_files import BLOCKS_MAX, CampaignFile, read_campaign_file
from penstock.model.bench.campaigns import Campaign
from penstock.model.errors import UsageError
from penstock.programs.locate import campaigns_folder
from penstock.report.campaigns import campaign_plan_view, shipped_table

_SHIPPED = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@reports_errors
def campaign_command(
    description: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="A YAML file, or a name of `penstock campaign --list`."),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]PATH[,servers=N[,local=NAME]]",
            help="A folder on a storage; for a campaign of the network HOST[:PORT], or local. Several are"
            " measured in each block; one NAME with several numbers of servers is a curve. local: the target"
            " that is the disk of one server.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="The document, a new file, written after each run. Needed.")
    ] = None,
    blocks: Annotated[
        int | None,
        typer.Option(min=1, max=BLOCKS_MAX, help="Each has every case once. [default: the description's]"),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(
            min=1e-6,
            max=1000,
            metavar="FACTOR",
            help="Sizes and times of runs times this. [default: the description's]",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of the order of cases.")] = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the document that an interrupted campaign left.")
    ] = False,
    list_: Annotated[
        bool, typer.Option("--list", help="Show the campaigns that come with Penstock.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before anything is written.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and end.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="The document on standard output, for machines.")
    ] = False,
) -> None:
    """Run the cases of a campaign in interleaved blocks, on one storage or several.

    Exit code 1: it was interrupted, or a run failed; 4: a run is invalid, and its figures are not to be used.
    """
    if list_:
        _show_list(json)
        return
    if description is None:
        raise UsageError("a campaign is missing", "name a YAML file, or one of `penstock campaign --list`")
    name, file = _read(description)
    targets = targets_of(target or [], of_network=file.workload == "network")
    plan = plan_campaign(name, file, targets, seed, blocks, scale)
    if dry_run:
        _dry_run(plan, output, resume, json)
        return
    if output is None:
        raise UsageError("a campaign needs --output", "name a new file: it is written after each run")
    if resume:
        with GrowingDocument.open(output) as document:
            plan = resumed(plan, _campaign(document.read(), output))
            _agree(plan, yes)
            _run(plan, document, output, json)
        return
    require_new(output)
    _agree(plan, yes)
    with GrowingDocument.create(output, plan.campaign.model_dump_json()) as document:
        _run(plan, document, output, json)


def _dry_run(plan: CampaignPlan, output: Path | None, resume: bool, json: bool) -> None:
    if resume:
        if output is None:
            raise UsageError("--resume needs --output", "name the document that the campaign left")
        plan = resumed(plan, _campaign(read_bytes(output), output))
    err().print(campaign_plan_view(plan))
    require_targets(plan)
    if json:
        print_json(plan.campaign)


def _agree(plan: CampaignPlan, yes: bool) -> None:
    err().print(campaign_plan_view(plan))
    require_targets(plan)
    for sentence in strange_conditions(plan.campaign):
        warn(f"warning: {sentence}")
    for target in plan.campaign.folders:
        if any(find_left(Path(target.path))):
            place = shlex.quote(target.path)
            warn(f"another run works there, or one was killed: penstock bench clean {place}")
    may_go_on(yes or not any(left_of(plan.campaign)))


def _run(plan: CampaignPlan, document: GrowingDocument, output: Path, json: bool) -> None:
    run_into(plan, document, output, json, telling, f"the same command with --resume goes on with {output}")


def _campaign(text: bytes, path: Path) -> Campaign:
    document = parse_document(text, str(path))
    if not isinstance(document, Campaign):
        raise UsageError(f"{path} is not the document of a campaign", "name the --output of before")
    return document


def _shipped() -> dict[str, Path]:
    return {path.stem: path for path in sorted(campaigns_folder().glob("*.yaml"))}


def _show_list(json: bool) -> None:
    files = {name: read_campaign_file(path) for name, path in _shipped().items()}
    if json:
        print_json({name: file.model_dump(mode="json") for name, file in files.items()})
    else:
        out().print(shipped_table(files))


def _read(description: str) -> tuple[str, CampaignFile]:
    """Its name, and what it says: of a file that is there, or of one that comes with Penstock."""
    path = Path(description)
    if _SHIPPED.fullmatch(description) and not path.exists():
        shipped = _shipped()
        if description not in shipped:
            raise UsageError(
                f'there is no campaign "{description}", and no such file',
                f"`penstock campaign --list` has {', '.join(shipped)}",
            )
        path = shipped[description]
    return path.stem, read_campaign_file(path)
