"""The document of a campaign that grows, as text, without writing runs of before as JSON once more."""

from penstock.model.bench.campaigns import Campaign


class CampaignText:
    """For one campaign whose runs are only ever added to."""

    def __init__(self) -> None:
        self._runs: list[str] = []

    def of(self, campaign: Campaign) -> str:
        """As `campaign.model_dump_json()`, which takes seconds where there are millions of frames."""
        self._runs += [each.model_dump_json() for each in campaign.runs[len(self._runs) :]]
        rest = campaign.model_copy(update={"runs": []}).model_dump_json()
        # Within a text the quotation marks have backslashes, and no other field has this name and a list.
        return rest.replace('"runs":[]', f'"runs":[{",".join(self._runs)}]', 1)
