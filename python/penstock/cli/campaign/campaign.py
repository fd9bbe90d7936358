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
from penstock.bench.campaign.faults import require_faults
from penstock.bench.data.folder import find_left
from penstock.bench.run.jobs import Job
from penstock.bench.science.data.clean import is_complete
from penstock.cli import completion
from penstock.cli.bench.running import may_go_on, telling
from penstock.cli.campaign.running import run_into
from penstock.cli.campaign.targets import targets_of
from penstock.cli.common import out, print_json, reports_errors, require_new, warn
from penstock.cli.verbosity import info, shows_progress
from penstock.files.documents import parse_document, read_bytes
from penstock.files.growing_document import GrowingDocument
from penstock.lab.storage import storage_at
from penstock.model import panels
from penstock.model.bench.campaign_files import BLOCKS_MAX, CampaignFile, read_campaign_file
from penstock.model.bench.campaigns import Campaign
from penstock.model.errors import UsageError
from penstock.model.problems import did_you_mean
from penstock.programs.locate import campaigns_folder
from penstock.report.campaigns import campaign_plan_rows, shipped_table
from penstock.report.tables import fact_table

_SHIPPED = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@reports_errors
@shows_progress
def campaign_command(
    description: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="Campaign: a YAML file, or a name from `penstock campaign --list`.",
            autocompletion=completion.campaigns,
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]PATH[,servers=N[,local=NAME]]",
            help="Folder on a storage, or lab:SYSTEM[,servers=N..M,clients=N..M,...] to bring up for the"
            " runs; for a network campaign HOST[:PORT] or `local`. Repeatable: every block measures all"
            " targets. `servers=N` under one NAME makes a scaling curve; `local=NAME` names the target that"
            " is the local disk of one server.",
            rich_help_panel=panels.RUN,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the document (JSON) into this new file after each run. Required unless --dry-run.",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = None,
    blocks: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=BLOCKS_MAX,
            help="Number of blocks; each block runs every case once. [default: from the campaign file]",
            rich_help_panel=panels.RUN,
        ),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(
            min=1e-6,
            max=1000,
            metavar="FACTOR",
            help="Factor for the sizes and durations of runs. [default: from the campaign file]",
            rich_help_panel=panels.RUN,
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0, max=2**63 - 1, help="Seed of the random order of cases.", rich_help_panel=panels.RUN
        ),
    ] = 1,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Resume an interrupted campaign from its --output document.",
            rich_help_panel=panels.RUN,
        ),
    ] = False,
    list_: Annotated[
        bool,
        typer.Option(
            "--list",
            help="List the campaigns that come with Penstock, and exit.",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Write without asking.", rich_help_panel=panels.RUN)
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would be written, and exit.", rich_help_panel=panels.RUN),
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print the document (JSON) on standard output.", rich_help_panel=panels.OUTPUT
        ),
    ] = False,
) -> None:
    """Run the cases of a campaign in interleaved blocks, on one or more storages.

    Exit code 1: a run failed, or the campaign was interrupted; 4: a run is invalid, do not use its metrics.
    """
    if list_:
        _show_list(json)
        return
    if description is None:
        raise UsageError("no campaign given", "name a YAML file, or one of `penstock campaign --list`")
    name, file = _read(description)
    targets = targets_of(target or [], of_network=file.workload == "network")
    plan = plan_campaign(name, file, targets, seed, blocks, scale)
    require_faults(
        plan.campaign, {name: job.due_s for name, job in plan.jobs.items() if isinstance(job, Job)}
    )
    if dry_run:
        _dry_run(plan, output, resume, json)
        return
    if output is None:
        raise UsageError("--output is missing", "name a new file, which is written after each run")
    if resume:
        with GrowingDocument.open(output) as document:
            plan = resumed(plan, _campaign(document.read(), output), str(output))
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
            raise UsageError("--resume requires --output", "name the document of the interrupted campaign")
        plan = resumed(plan, _campaign(read_bytes(output), output), str(output))
    (info() if json else out()).print(fact_table(campaign_plan_rows(plan)))
    require_targets(plan)
    if json:
        print_json(plan.campaign)


def _agree(plan: CampaignPlan, yes: bool) -> None:
    info().print(fact_table(campaign_plan_rows(plan)))
    require_targets(plan)
    for sentence in strange_conditions(plan.campaign):
        warn(f"warning: {sentence}")
    for target in plan.campaign.folders:
        folder = storage_at(target.path)
        if isinstance(folder, Path) and any(not is_complete(each) for each in find_left(folder)):
            place = shlex.quote(target.path)
            warn(
                f"{target.path} has directories of another run, active or killed; remove killed ones:"
                f" penstock bench clean {place}"
            )
    may_go_on(yes or not any(left_of(plan.campaign)))


def _run(plan: CampaignPlan, document: GrowingDocument, output: Path, json: bool) -> None:
    run_into(
        plan,
        document,
        output,
        json,
        telling,
        f"resume it with the same command and --resume; the document is {output}",
    )


def _campaign(text: bytes, path: Path) -> Campaign:
    document = parse_document(text, str(path))
    if not isinstance(document, Campaign):
        raise UsageError(f"{path} is not the document of a campaign", "name the file that --output wrote")
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
    """Returns name and content of a file, or of a campaign that comes with Penstock."""
    path = Path(description)
    if _SHIPPED.fullmatch(description) and not path.exists():
        shipped = _shipped()
        if description not in shipped:
            raise UsageError(
                f'"{description}" is neither a campaign nor a file{did_you_mean(description, shipped)}',
                f"`penstock campaign --list` lists the campaigns: {', '.join(shipped)}",
            )
        path = shipped[description]
    return path.stem, read_campaign_file(path)
