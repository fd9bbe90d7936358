"""Tiers of storage: data moves from one to the next at an age, and is in one at a time."""

from collections.abc import Sequence
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penstock.model.errors import UsageError
from penstock.model.plan.ages import AGE_DAYS_MAX, Age, human_age
from penstock.model.plan.blocks import BlockFigures, Need
from penstock.model.problems import words_of

TIERS_MAX = 8
_FORM = "write NAME=AGE for each but the last, such as --tier fast=2w --tier disk=6mo --tier tape"


class Tier(BaseModel):
    """One tier, with the age at which its data moves to the next one."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    name: str = Field(pattern=r"^\S(.{0,38}\S)?$")
    until_days: Age | None = Field(None, description="null: takes what is older than in the tiers before")
    block: str | None = Field(None, description="name or file of its building block")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of "fast=2w", "disk=6mo,block=NAME" or, for the last one, "tape". Raises UsageError."""
        first, *settings = (part.strip() for part in text.split(","))
        name, _, age = (part.strip() for part in first.partition("="))
        own = dict(setting.partition("=")[::2] for setting in settings)
        if unknown := own.keys() - {"block"}:
            raise UsageError(f'--tier "{text}": unknown setting "{min(unknown)}"', f"block is known; {_FORM}")
        try:
            return cls.model_validate({"name": name, "until_days": age or None, **own})
        except ValidationError as error:
            raise UsageError(f'--tier "{text}": {words_of(error.errors()[0])}', _FORM) from error


class TierNeed(BaseModel):
    """What a tier holds and sustains."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    name: str
    from_days: float
    until_days: float | None = Field(description="null: until data expires")
    need: Need = Field(description="capacity with the fill level, bandwidth with headroom")
    block: BlockFigures | None


def check_tiers(tiers: Sequence[Tier]) -> None:
    """Raises UsageError unless ages rise, and all tiers but the last have one."""
    if len(tiers) > TIERS_MAX:
        raise UsageError(f"--tier: {len(tiers)} tiers exceed the maximum of {TIERS_MAX}", "merge some")
    names = [tier.name for tier in tiers]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"--tier: two tiers are called {double}", "give each its own name")
    before = 0.0
    for number, tier in enumerate(tiers, 1):
        is_last = number == len(tiers)
        if tier.until_days is None and not is_last:
            raise UsageError(f"--tier {tier.name}: the age at which data leaves it is missing", _FORM)
        if tier.until_days is not None and is_last:
            raise UsageError(
                f"--tier {tier.name}: the last tier has no age; it keeps data until --retention", _FORM
            )
        if tier.until_days is not None and tier.until_days <= before:
            raise UsageError(
                f"--tier {tier.name}: its age of {human_age(tier.until_days)} does not exceed"
                f" {human_age(before)}, the age at which data reaches it",
                "order tiers from young to old data",
            )
        before = AGE_DAYS_MAX if tier.until_days is None else tier.until_days
