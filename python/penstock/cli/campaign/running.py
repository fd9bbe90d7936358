"""Runs a campaign for a command: progress, the document after each run, the tables and the exit code."""

from collections.abc import Callable
from pathlib import Path

import typer

from penstock.bench.campaign.campaigns import (
    CampaignPlan,
    CampaignTelling,
    Standing,
    plan_repetitions,
    run_campaign,
)
from penstock.bench.campaign.text import CampaignText
from penstock.bench.run.jobs import Job
from penstock.bench.run.run import Telling
from penstock.cli.common import out, print_json
from penstock.cli.documents import Entering
from penstock.cli.verbosity import progress
from penstock.files.growing_document import GrowingDocument
from penstock.model.bench.campaigns import Campaign
from penstock.model.errors import ExitCode, InterruptedRunError, PenstockError
from penstock.model.storage_url import Place
from penstock.programs.locate import find_program
from penstock.report.campaigns import campaign_view, standing_line
from penstock.report.progress import ProgressView

MakeTelling = Callable[[ProgressView], Telling]


def repeat(
    job: Job, target: Place, repetitions: int, output: Path | None, json: bool, telling: MakeTelling
) -> None:
    """Runs the campaign with one case of `penstock bench --repetitions`, after the user has agreed."""
    plan = plan_repetitions(job, target, repetitions)
    if output is None:
        show(_run(plan, lambda _: None, telling, ""), json)
        return
    with GrowingDocument.create(output, plan.campaign.model_dump_json()) as document:
        run_into(plan, document, output, json, telling, f"the completed runs are in {output}")


def run_into(
    plan: CampaignPlan,
    document: GrowingDocument,
    path: Path,
    json: bool,
    telling: MakeTelling,
    after_interruption: str,
) -> None:
    """Makes the runs that the document lacks, and shows all."""
    text = CampaignText()
    with Entering(path) as catalogue:

        def save(campaign: Campaign) -> None:
            document.write(text.of(campaign))
            catalogue.enter(campaign)

        campaign = _run(plan, save, telling, after_interruption)
    show(campaign, json)


def _run(
    plan: CampaignPlan, save: Callable[[Campaign], None], telling: MakeTelling, after_interruption: str
) -> Campaign:
    find_program("penstock-load")  # else every case would fail, one by one
    with progress() as view:

        def standing(now: Standing) -> None:
            view.say(standing_line(now))
            view.expect(now.seconds_left)

        try:
            return run_campaign(plan, CampaignTelling(standing, view.say, save, telling(view)))
        except (InterruptedRunError, KeyboardInterrupt) as error:
            raise PenstockError("the campaign was interrupted", after_interruption) from error


def show(campaign: Campaign, json: bool) -> None:
    """Shows the campaign. Raises typer.Exit if a run failed or is invalid."""
    if json:
        print_json(campaign)
    else:
        out().print(campaign_view(campaign))
    ended_early = any(each.run.document.problem is not None for each in campaign.runs)
    if campaign.failures or ended_early or not campaign.complete:
        raise typer.Exit(int(ExitCode.FAILED))
    if any(each.run.validity == "invalid" for each in campaign.runs):
        raise typer.Exit(int(ExitCode.INVALID))
