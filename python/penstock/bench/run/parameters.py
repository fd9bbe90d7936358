"""The parameters of a workload: the keys of campaigns, and the options of its command."""

import math
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict

from penstock.bench.run.jobs import Job, NetworkJob
from penstock.model.bench.campaigns import Parameter
from penstock.model.units import format_size

_MIB, _PAGE = 1 << 20, 4096


class WorkloadParameters(BaseModel):
    """Of one workload. SCALED names those that make a run larger, and leave its pattern as it is."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)
    SCALED: ClassVar[tuple[str, ...]] = ()

    def job(self) -> Job | NetworkJob:
        """A UsageError names a value that is not possible."""
        raise NotImplementedError

    def values(self) -> list[str]:
        """What runs of it yield, as `values_of` names it: what tables and plots may show."""
        raise NotImplementedError

    def derived(self) -> list[str]:
        """What they may show beside that, as `derived_of` names it; some of it a run may lack."""
        return []

    def scaled(self, factor: float) -> Self:
        """Sizes are whole MiB, or whole pages where they are small; counts are whole, and at least one."""
        return self.model_copy(
            update={
                name: _scaled(name, getattr(self, name), factor)
                for name in self.SCALED
                if getattr(self, name) is not None and factor != 1
            }
        )

    def shown(self, name: str) -> Parameter:
        """As a description has it."""
        value: Parameter = getattr(self, name)
        return format_size(int(value)) if name in self.SCALED and _is_size(name) else value


def _is_size(name: str) -> bool:
    return name.endswith(("size", "memory"))


def whole(size: int, unit: int) -> int:
    """`size`, or the next larger one that has whole units."""
    return -(-size // unit) * unit


def _scaled(name: str, value: float, factor: float) -> float:
    if not isinstance(value, int):
        return round(value * factor, 6)
    if name == "segments":  # rounded up as sizes are: what is in each of them stays
        return max(1, math.ceil(round(value * factor, 6))) if value > 1 else value
    scaled = round(value * factor)
    unit = 1
    if _is_size(name):
        unit = _MIB if scaled >= _MIB else _PAGE if value >= _PAGE else 1
    return max(unit, whole(scaled, unit))
