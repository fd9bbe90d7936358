"""The recorder's pool that a machine is checked for."""

from dataclasses import dataclass

from penstock.model.plans import RecorderFields
from penstock.model.units import format_size

POOL_BYTES = int(RecorderFields.model_fields["pool_bytes"].default)


@dataclass(frozen=True)
class Pool:
    """`file`: name of the configuration that sets it; empty: the default."""

    bytes: int = POOL_BYTES
    file: str = ""

    @property
    def words(self) -> str:
        """Returns "the default pool of 1 GiB", or "the pool of 2 GiB (beamline.yaml)"."""
        size = format_size(self.bytes)
        return f"the pool of {size} ({self.file})" if self.file else f"the default pool of {size}"

    def remedy(self, count: int) -> str:
        """Returns how to have one of `count` bytes."""
        size = format_size(count).replace(" ", "")
        if self.file:
            return f"set pool_bytes: {size} in {self.file}, or penstock record --pool {size}"
        return f"penstock record --pool {size}, or pool_bytes: {size} in a configuration file"
