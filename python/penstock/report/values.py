"""Single values for people."""

from collections.abc import Callable

from penstock.model.units import human_bytes, human_number, human_percent, human_rate, human_seconds

_TEXTS: dict[str, Callable[[float], str]] = {
    "ms": lambda value: human_seconds(value * 1e-3),
    "s": human_seconds,
    "share": human_percent,
    "1/s": lambda value: f"{human_number(value, 4)}/s",
    "1/min": lambda value: f"{human_number(value, 4)}/min",
    "B": lambda value: human_bytes(round(value)),
    "factor": lambda value: f"{human_number(value, 3)} times",
    "count": lambda value: human_number(value, 6),
}


def value_text(value: float, unit: str, like: float | None = None) -> str:
    """Rounded, with its unit: one of `penstock.bench.statistics.values`; an unknown one stands as it is.

    `like`: another one, whose unit of bandwidth is taken, so that rates that stand together have one.
    """
    if unit == "B/s":
        return human_rate(value, like)
    text = _TEXTS.get(unit)
    return text(value) if text is not None else f"{human_number(value, 4)} {unit}"
