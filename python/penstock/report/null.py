"""The null back end, for people."""

from penstock.model.bench.load import NullBackend
from penstock.model.units import human_seconds


def null_text(backend: NullBackend) -> str:
    """ "none: 1 ms per call, 500 ms more every 100th call, frozen after 2 s for 3 s"."""
    parts = []
    if backend.delay_s:
        parts.append(f"{human_seconds(backend.delay_s)} per call")
    if backend.straggler_every and backend.straggler_s:
        parts.append(f"{human_seconds(backend.straggler_s)} more every {backend.straggler_every}th call")
    if backend.freeze_s:
        at, long = human_seconds(backend.freeze_at_s), human_seconds(backend.freeze_s)
        parts.append(f"frozen after {at} for {long}")
    return ": ".join(["none", *([", ".join(parts)] if parts else [])])
