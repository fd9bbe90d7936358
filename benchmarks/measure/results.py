"""What a row found, as plain data that goes into the JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from measure.statistics import Estimate, median, median_of_ratios, verdict, verdict_within

Sample = Mapping[str, float]


@dataclass(frozen=True)
class Result:
    """One line of the table."""

    name: str  # unique, such as "store-disk/4 KiB/direct"
    what: str
    beside: str
    target: str  # for people, such as "≥ 0.95"
    unit: str
    measured: Estimate  # a ratio where there is a peer, else in `unit`
    is_ratio: bool
    ours: float  # medians in `unit`
    peer: float | None
    verdict: str
    samples: dict[str, list[float]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Result:
        fields = dict(document)
        fields["measured"] = Estimate(**fields["measured"])
        fields["remarks"] = tuple(fields["remarks"])
        return cls(**fields)


def beside_best(
    name: str,
    what: str,
    ours: Sequence[Sample],
    peers: Mapping[str, Sequence[Sample]],
    *,
    at_least: float,
    metric: str = "bytes_per_s",
    scale: float = 1e-9,
    unit: str = "GB/s",
    remarks: tuple[str, ...] = (),
) -> Result:
    """Ours beside that peer whose median is the best; the higher figure is the better one."""
    mine = [sample[metric] for sample in ours]
    figures = {peer: [sample[metric] for sample in samples] for peer, samples in peers.items()}
    best = max(figures, key=lambda peer: median(figures[peer]).value)
    estimate = median_of_ratios(mine, figures[best])
    return Result(
        name=name,
        what=what,
        beside=best,
        target=f"≥ {at_least:g} ×",
        unit=unit,
        measured=estimate,
        is_ratio=True,
        ours=median(mine).value * scale,
        peer=median(figures[best]).value * scale,
        verdict=verdict(estimate, at_least, at_least=True),
        samples={"penstock": mine, **figures},
        remarks=remarks,
    )


def within(
    name: str,
    what: str,
    ours: Sequence[Sample],
    beside: str,
    peer: Sequence[Sample],
    *,
    margin: float,
    metric: str = "bytes_per_s",
    scale: float = 1e-9,
    unit: str = "GB/s",
    remarks: tuple[str, ...] = (),
) -> Result:
    """Ours and the peer's figure are the same but for `margin`, a share: more is as wrong as less."""
    mine, others = [sample[metric] for sample in ours], [sample[metric] for sample in peer]
    estimate = median_of_ratios(mine, others)
    return Result(
        name=name,
        what=what,
        beside=beside,
        target=f"{1 - margin:g} to {1 + margin:g} ×",
        unit=unit,
        measured=estimate,
        is_ratio=True,
        ours=median(mine).value * scale,
        peer=median(others).value * scale,
        verdict=verdict_within(estimate, 1 - margin, 1 + margin),
        samples={"penstock": mine, beside: others},
        remarks=remarks,
    )


def absolute(
    name: str,
    what: str,
    ours: Sequence[float],
    *,
    unit: str,
    at_least: float | None = None,
    at_most: float | None = None,
    beside: str = "",
    peer: Sequence[float] | None = None,
    remarks: tuple[str, ...] = (),
) -> Result:
    """A figure that has to keep a bound by itself; a peer's may stand beside it to compare."""
    bound = at_least if at_least is not None else at_most
    if bound is None:
        raise ValueError(f"{name} has no bound")
    estimate = median(ours)
    return Result(
        name=name,
        what=what,
        beside=beside,
        target=f"{'≥' if at_least is not None else '≤'} {bound:,g} {unit}",
        unit=unit,
        measured=estimate,
        is_ratio=False,
        ours=estimate.value,
        peer=median(peer).value if peer else None,
        verdict=verdict(estimate, bound, at_least=at_least is not None),
        samples={"penstock": list(ours), **({beside: list(peer)} if peer else {})},
        remarks=remarks,
    )
