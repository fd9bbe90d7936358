"""How much data is written, and how much of it is kept at a time: by age, and with growth.

The rate of data is constant within a year and grows from one year to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.model.plan.ages import WEEK_DAYS, YEAR_DAYS

DAY_S = 86400.0


@dataclass(frozen=True)
class Source:
    """What writes data: bytes a second on average over the first year, and how long its data is kept."""

    bytes_per_s: float
    retention_days: float


def written_bytes(bytes_per_s: float, days: float, growth: float = 0.0) -> float:
    """Returns what is written in the first `days` days; `growth` is a share per year, such as 0.2."""
    if days <= 0:
        return 0.0
    years = int(days / YEAR_DAYS)
    whole = sum((1 + growth) ** year for year in range(years)) * YEAR_DAYS
    return bytes_per_s * DAY_S * (whole + (1 + growth) ** years * (days - years * YEAR_DAYS))


def kept_bytes(
    sources: Sequence[Source],
    from_days: float = 0.0,
    to_days: float = float("inf"),
    at_days: float | None = None,
    growth: float = 0.0,
) -> float:
    """Returns the data of an age of at least `from_days` and less than `to_days` that has not expired.

    `at_days` after the first data was written; None: when nothing has to grow any more, at the rates of the
    first year.
    """
    total = 0.0
    for source in sources:
        youngest, oldest = (min(age, source.retention_days) for age in (from_days, to_days))
        if at_days is None:
            total += source.bytes_per_s * DAY_S * (oldest - youngest)
        else:
            until, since = at_days - youngest, at_days - oldest
            total += written_bytes(source.bytes_per_s, until, growth)
            total -= written_bytes(source.bytes_per_s, since, growth)
    return total


def per_day(bytes_per_s: float, days_per_week: float = WEEK_DAYS) -> float:
    """Returns the bytes of a day on which data is taken, of this many days a week."""
    return per_week(bytes_per_s) / days_per_week


def per_week(bytes_per_s: float) -> float:
    return bytes_per_s * DAY_S * WEEK_DAYS


def per_year(bytes_per_s: float) -> float:
    return bytes_per_s * DAY_S * YEAR_DAYS
