"""What every row needs to know about this run of the benchmarks."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from measure.machine import free_bytes
from measure.process import BenchmarkError

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class Context:
    checkout: Path
    build: Path  # the native programs' build folder
    disk: Path  # folders of this run alone; removed at its end
    tmpfs: Path
    cores: list[int]
    repetitions: int
    quick: bool
    images: Path | None  # folder of real images
    before: Path | None = None  # the build folder of an earlier commit
    before_name: str = "before"

    def program(self, name: str) -> str:
        places = (
            "native/programs",
            "benchmarks/client",
            "benchmarks/store",
            "benchmarks/codec",
            "benchmarks/load",
            "benchmarks/ranks",
            "benchmarks/stream",
        )
        for folder in places:
            candidate = self.build / folder / name
            if candidate.is_file():
                return str(candidate)
        raise BenchmarkError(f"{name} is not built in {self.build}; run `make build`")

    def peer(self, script: str) -> list[str]:
        return [sys.executable, str(self.checkout / "benchmarks" / "peers" / script)]

    def bytes_of(self, usual: int) -> int:
        """A quick run moves an eighth of what says something."""
        return usual // 8 if self.quick else usual

    def need(self, folder: Path, wanted: int) -> None:
        """Refuses before anything is written, and leaves a twentieth of the file system free."""
        free = free_bytes(folder)
        if free < wanted * 1.05 + GIB:
            raise BenchmarkError(
                f"{folder} has {free / GIB:.1f} GiB free, {wanted / GIB:.1f} GiB and a reserve of 1 GiB"
                " are needed; name another place with --folder or --tmpfs"
            )


def size_name(size: int) -> str:
    return f"{size // MIB} MiB" if size >= MIB else f"{size // 1024} KiB"
