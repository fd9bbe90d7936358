"""How much data is written, and how much of it is kept at a time: by age, and with growth.

The average rate of data is constant within a year and grows from one year to the next. Within a week, data is
written on consecutive days, so a short window may contain more than the average: storage is sized for the
busiest one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.model.plan.ages import WEEK_DAYS, YEAR_DAYS

DAY_S = 86400.0
DAY_HOURS = 24.0


@dataclass(frozen=True)
class Source:
    """What writes data: bytes per second on average over the first year, how long data is kept, and when.

    `duty` is the share of the time in which it writes: on `days_per_week` consecutive days, equal hours.
    """

    bytes_per_s: float
    retention_days: float
    duty: float = 1.0
    days_per_week: float = WEEK_DAYS

    def busiest_bytes(self, window_days: float) -> float:
        """Returns the most that is written in any window of this length, at the rate of the first year."""
        return per_day(self.bytes_per_s, self.days_per_week) * busiest_days(
            window_days, self.duty, self.days_per_week
        )


def busiest_days(window_days: float, duty: float, days_per_week: float) -> float:
    """Returns the largest number of days with acquisition in any window of A = `window_days` days.

    With D consecutive days per week of h = 24 * 7 * duty / D hours each, it is

        floor(A / 7) * D + min(floor(r) + min(24 * (r - floor(r)) / h, 1), D),   r = A mod 7

    because any seven days contain D of them, and the rest of the window is placed to start with the first
    hour of the first day. With less than one day per week, there is one day in every 7 / D.
    """
    period, days = (WEEK_DAYS, days_per_week) if days_per_week >= 1 else (WEEK_DAYS / days_per_week, 1.0)
    hours = DAY_HOURS * WEEK_DAYS * duty / days_per_week
    periods, rest = divmod(window_days, period)
    whole = math.floor(rest)
    return periods * days + min(whole + min(DAY_HOURS * (rest - whole) / hours, 1.0), days)


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
    """Returns the most data of an age of at least `from_days` and less than `to_days` that has not expired.

    Each source has its busiest window between the two ages (`busiest_days`). `at_days` after the first data
    was written, with growth; None: when nothing has to grow any more, at the rates of the first year.
    """
    total = 0.0
    for source in sources:
        youngest, oldest = (min(age, source.retention_days) for age in (from_days, to_days))
        if at_days is None:
            total += source.busiest_bytes(oldest - youngest)
        elif at_days > youngest:
            total += _kept_at(source, max(at_days - oldest, 0.0), at_days - youngest, growth)
    return total


def _kept_at(source: Source, since: float, until: float, growth: float) -> float:
    """Returns the average data of these days, and what the busiest window adds, at the rate of its end."""
    average = written_bytes(source.bytes_per_s, until, growth)
    average -= written_bytes(source.bytes_per_s, since, growth)
    more = source.busiest_bytes(until - since) - written_bytes(source.bytes_per_s, until - since)
    return average + more * (1 + growth) ** (math.ceil(until / YEAR_DAYS) - 1)


def per_day(bytes_per_s: float, days_per_week: float = WEEK_DAYS) -> float:
    """Returns the bytes of a day on which data is taken, of this many days a week."""
    return per_week(bytes_per_s) / days_per_week


def per_week(bytes_per_s: float) -> float:
    return bytes_per_s * DAY_S * WEEK_DAYS


def per_year(bytes_per_s: float) -> float:
    return bytes_per_s * DAY_S * YEAR_DAYS
