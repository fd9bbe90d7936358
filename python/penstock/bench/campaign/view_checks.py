"""Tables and plots that a campaign could never show are refused before its first run."""

from collections.abc import Sequence

from penstock.bench.campaign.views import shown_cases
from penstock.bench.run.parameters import WorkloadParameters
from penstock.bench.statistics.profile import KINDS
from penstock.bench.statistics.values import FAULT_VALUES, FRAMES_FAULT_VALUES, PROCESSOR_TIME
from penstock.model.bench.campaign_files import CampaignFile
from penstock.model.bench.campaigns import OF_TARGETS, Campaign, Case, Parameter, View
from penstock.model.errors import UsageError


def require_known(file: CampaignFile, points: Sequence[dict[str, Parameter]]) -> None:
    """Raises UsageError if a view names an unknown parameter of cases."""
    known = set(OF_TARGETS).union(*points)
    for view in file.views:
        for name in view.named:
            if name not in known:
                raise UsageError(
                    f"the view {view.name} shows `{name}`, in which no cases differ",
                    f"one of {', '.join(sorted(known))}",
                )


def require_yielded(file: CampaignFile, planned: Sequence[WorkloadParameters]) -> None:
    """A UsageError where a view shows a value that runs of no case have."""
    names = [name for parameters in planned for name in (*parameters.values(), *parameters.derived())]
    there = dict.fromkeys(names)
    if file.profile and PROCESSOR_TIME in there:
        there |= dict.fromkeys(f"{PROCESSOR_TIME}: {kind}" for kind in KINDS)
    if file.schedules:
        of_frames = file.workload == "frames"
        there |= dict.fromkeys(FRAMES_FAULT_VALUES if of_frames else FAULT_VALUES)
    for view in file.views:
        for value in view.shown_values:
            if value not in there:
                raise UsageError(
                    f"the view {view.name} shows the value `{value}`, which no run of {file.workload} has",
                    f"one of {', '.join(there)}",
                )


def require_told_apart(campaign: Campaign) -> None:
    """A UsageError where several cases would fall into one cell of a view, which shows one of them."""
    for view in campaign.views:
        names = [*([view.rows] if view.rows else []), *view.columns]
        cells: dict[tuple[Parameter | None, ...], Case] = {}
        for case in shown_cases(campaign, view):
            other = cells.setdefault(tuple(campaign.value_of(case, name) for name in names), case)
            if other is not case:
                raise _one_cell(campaign, view, other, case)


def _one_cell(campaign: Campaign, view: View, one: Case, other: Case) -> UsageError:
    parameters = dict.fromkeys((*one.parameters, *other.parameters, "target"))
    apart = [name for name in parameters if campaign.value_of(one, name) != campaign.value_of(other, name)]
    return UsageError(
        f"the view {view.name} has one cell for several cases: {one.name}, and {other.name}",
        f"add to its columns: {' or '.join(apart)}; or leave the others out with `leave_out`",
    )
