"""Single values for people."""

from penstock.model.units import human_number, human_percent, human_rate, human_seconds


def value_text(value: float, unit: str) -> str:
    """Rounded, with its unit: one of `penstock.bench.values`; an unknown one stands as it is."""
    match unit:
        case "B/s":
            return human_rate(value)
        case "ms":
            return human_seconds(value * 1e-3)
        case "s":
            return human_seconds(value)
        case "share":
            return human_percent(value)
        case _:
            return f"{human_number(value, 4)} {unit}"
