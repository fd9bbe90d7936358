"""`penstock collect` as a process, and what is in its journal."""

import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

from warm_command import popen

from penstock.files.values.journal import JournalState, read_journal


class Collector:
    """`penstock collect` as a process."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.process = popen("collect", "--folder", str(folder), *options, stdout=subprocess.DEVNULL)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert line.startswith("listening on "), line
        self.address = line.split()[2].rstrip(",")
        self.journal = Path(line.split("journal ")[1].strip())

    def next_line(self) -> str:
        """What it says next, but for progress."""
        assert self.process.stderr is not None
        silent = threading.Timer(30, self.process.kill)
        silent.start()
        try:
            while (line := self.process.stderr.readline()).startswith("collecting: "):
                pass
        finally:
            silent.cancel()
        return line

    def stop_and_listen(self) -> str:
        """What it had to say until its end."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.communicate(timeout=30)[1]

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        self.process.communicate(timeout=30)
        return self.process.returncode


def batches_of(path: Path) -> list[Any]:
    return list(read_journal(JournalState(path)))
