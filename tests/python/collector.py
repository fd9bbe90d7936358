"""`penstock collect` as a process, and what is in its journal."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from penstock.files.journal import JournalState, read_journal


class Collector:
    """`penstock collect` as a process."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "penstock", "collect", "--folder", str(folder), *options],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert line.startswith("listening on "), line
        self.address = line.split()[2].rstrip(",")
        self.journal = Path(line.split("journal ")[1].strip())

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        self.process.communicate(timeout=30)
        return self.process.returncode


def batches_of(path: Path) -> list[Any]:
    return list(read_journal(JournalState(path)))
