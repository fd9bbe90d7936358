"""Single values for people."""

from penstock.model.units import human_number, human_percent, human_rate, human_seconds


def value_text(value: float, unit: str, like: float | None = None) -> str:
    """Rounded, with its unit: one of `penstock.bench.statistics.values`; an unknown one stands as it is.

    `like`: another one, whose unit of bandwidth is taken, so that rates that stand together have one.
    """
    match unit:
        case "B/s":
            return human_rate(value, like)
        case "ms":
            return human_seconds(value * 1e-3)
        case "s":
            return human_seconds(value)
        case "share":
            return human_percent(value)
        case "1/s":
            return f"{human_number(value, 4)}/s"
        case _:
            return f"{human_number(value, 4)} {unit}"
