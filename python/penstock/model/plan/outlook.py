"""What a plan's data amounts to: per day, week and year, on each tier, and in the years to come."""

from collections.abc import Callable, Sequence

from pydantic import BaseModel, ConfigDict, Field

from penstock.model.plan.ages import YEAR_DAYS
from penstock.model.plan.blocks import BlockFigures, Need, blocks_and_media
from penstock.model.plan.tiers import Tier, TierNeed
from penstock.model.plan.volume import Source, kept_bytes, per_day, per_week, per_year, written_bytes

_INFINITE = float("inf")
_ROUNDING = 1e-9


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)


class Volumes(_Part):
    """Bytes that are written, on average."""

    per_day_bytes: float = Field(description="on a day with acquisition")
    per_week_bytes: float
    per_year_bytes: float = Field(description="365.25 days")


class YearNeed(_Part):
    """One year of operation. The first one starts with empty storage."""

    year: int = Field(ge=1)
    written_bytes: float = Field(description="in this year")
    kept_bytes: float = Field(description="at its end: data that has not expired, of the busiest days")
    capacity_bytes: float = Field(description="to hold that, with the fill level and the additional capacity")
    added_bytes: float = Field(description="capacity in addition to that of the year before")
    tier_bytes: list[float] = Field(description="capacity of each tier, with the fill level")
    tier_blocks: list[int | None] = Field(
        description="building blocks of each tier, for its capacity and its bandwidth; null: it names none"
    )
    tier_media: list[int] = Field(
        [], description="removable media of each tier, such as cartridges; 0: its drives hold the data"
    )


def volumes(rates: Sequence[tuple[float, float]]) -> Volumes:
    """`rates`: average bytes per second, and days per week with acquisition, of each source."""
    total = sum(rate for rate, _ in rates)
    return Volumes(
        per_day_bytes=sum(per_day(rate, days) for rate, days in rates),
        per_week_bytes=per_week(total),
        per_year_bytes=per_year(total),
    )


def years(
    sources: Sequence[Source],
    count: int,
    growth: float,
    fill: float,
    other_bytes: float,
    tiers: Sequence[Tier],
    needs: Sequence[TierNeed],
) -> list[YearNeed]:
    """`growth` of all rates per year, as a share; `other_bytes` are stored in addition, from the start.

    `needs`: those of the tiers in the first year.
    """
    found: list[YearNeed] = []
    for year in range(1, count + 1):
        end = year * YEAR_DAYS
        kept = kept_bytes(sources, at_days=end, growth=growth)
        capacity = (kept + other_bytes) / fill
        on_tiers = _on_tiers(sources, tiers, fill, other_bytes, end, growth)
        grown = (1 + growth) ** (year - 1)
        counts = [_blocks(*each, grown) for each in zip(needs, on_tiers, strict=True)]
        added = capacity - (found[-1].capacity_bytes if found else 0.0)
        found.append(
            YearNeed(
                year=year,
                written_bytes=sum(
                    written_bytes(each.bytes_per_s, end, growth)
                    - written_bytes(each.bytes_per_s, end - YEAR_DAYS, growth)
                    for each in sources
                ),
                kept_bytes=kept,
                capacity_bytes=capacity,
                added_bytes=added if abs(added) > _ROUNDING * capacity else 0.0,
                tier_bytes=on_tiers,
                tier_blocks=[blocks for blocks, _ in counts],
                tier_media=[media for _, media in counts],
            )
        )
    return found


def _blocks(need: TierNeed, capacity_bytes: float, grown: float) -> tuple[int | None, int]:
    """Returns blocks and media of a tier in a year whose rates are `grown` times those of the first one."""
    return (None, 0) if need.block is None else blocks_and_media(need.block, capacity_bytes, grown)


def _on_tiers(
    sources: Sequence[Source],
    tiers: Sequence[Tier],
    fill: float,
    other_bytes: float,
    at_days: float | None,
    growth: float,
) -> list[float]:
    """Returns the capacity of each tier. Other data is on the first one."""
    found: list[float] = []
    start = 0.0
    for tier in tiers:
        end = _INFINITE if tier.until_days is None else tier.until_days
        kept = kept_bytes(sources, start, end, at_days, growth)
        found.append((kept + (0.0 if found else other_bytes)) / fill)
        start = end
    return found


def tier_needs(
    tiers: Sequence[Tier],
    sources: Sequence[Source],
    whole: Need,
    headroom: float,
    fill: float,
    other_bytes: float,
    figures: Callable[[str, Need], BlockFigures],
) -> list[TierNeed]:
    """Returns what each tier needs at the rates of the first year.

    The first tier takes what the recorders write, at the peak, and serves concurrent readers. The others take
    what reaches them, on average; each tier reads what moves on. `whole` is the need without tiers, `figures`
    sizes the building block of a name.
    """
    capacities = _on_tiers(sources, tiers, fill, other_bytes, None, 0.0)
    found: list[TierNeed] = []
    start = 0.0
    for tier, capacity in zip(tiers, capacities, strict=True):
        end = _INFINITE if tier.until_days is None else tier.until_days
        arriving, leaving = (
            sum(each.bytes_per_s for each in sources if each.retention_days > age) * (1 + headroom)
            for age in (start, end)
        )
        is_first = not found
        need = Need(
            write_bytes_per_s=whole.write_bytes_per_s if is_first else arriving,
            read_bytes_per_s=leaving + (whole.read_bytes_per_s if is_first else 0.0),
            capacity_bytes=capacity,
        )
        block = None if tier.block is None else figures(tier.block, need)
        found.append(
            TierNeed(name=tier.name, from_days=start, until_days=tier.until_days, need=need, block=block)
        )
        start = end
    return found
