"""Ages of data as people write them: how long it is kept, and when it moves to another tier."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from penstock.model.units import human_number

YEAR_DAYS = 365.25
WEEK_DAYS = 7.0
AGE_DAYS_MAX = 36525.0
_DAYS = {"d": 1.0, "w": WEEK_DAYS, "mo": YEAR_DAYS / 12, "y": YEAR_DAYS}
_AGE = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*(?P<unit>[A-Za-z]*)")
_WORDS = {"day": "d", "week": "w", "month": "mo", "year": "y"}
_LONGEST_FIRST = (("year", YEAR_DAYS), ("month", YEAR_DAYS / 12), ("week", WEEK_DAYS))


def parse_age(text: str) -> float:
    """Returns the days of "90" or "90d", "2w", "6mo" (a twelfth of a year) or "2y" (365.25 days each).

    Raises ValueError with what is allowed.
    """
    match = _AGE.fullmatch(text.strip())
    unit = "" if match is None else match["unit"].lower()
    unit = _WORDS.get(unit.removesuffix("s"), unit) or "d"
    if match is None or unit not in _DAYS:
        raise ValueError(f'"{text}" is not an age; write for example 90d, 2w, 6mo or 2y')
    days = float(match["number"]) * _DAYS[unit]
    if days > AGE_DAYS_MAX:
        raise ValueError(f'"{text}" exceeds the maximum of 100 years')
    return days


def human_age(days: float) -> str:
    """Returns "2 years", "6 months", "2 weeks" or "90 days": the largest unit that divides the age."""
    for word, size in _LONGEST_FIRST:
        count = days / size
        if count >= 1 and abs(count - round(count)) < 1e-6:
            return f"{round(count)} {word}{'s' if round(count) > 1 else ''}"
    return f"{human_number(days)} {'day' if days == 1 else 'days'}"


def _age(value: Any) -> Any:
    return parse_age(value) if isinstance(value, str) else value


Age = Annotated[
    float,
    BeforeValidator(_age),
    Field(ge=0, le=AGE_DAYS_MAX, allow_inf_nan=False),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": AGE_DAYS_MAX, "description": "days"}),
]
"""A number of days, or text with a unit."""
