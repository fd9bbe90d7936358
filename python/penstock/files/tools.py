"""Asks the tools of file systems and of the machine. Never fails, and never hangs for long."""

import shutil
import subprocess
from dataclasses import dataclass

from penstock.model.problems import reason_of

TOOL_SECONDS = 5.0
_GPFS_TOOLS = "/usr/lpp/mmfs/bin"
_ADMINISTRATOR_TOOLS = "/usr/sbin:/sbin"


@dataclass(frozen=True)
class Seen:
    """What a file or a tool said; or None, and why it said nothing."""

    text: str | None
    source: str
    why: str = ""

    def unless(self, text: str, why: str) -> "Seen":
        """Returns itself, or no text and `why` if the text is `text`, by which a source reports nothing."""
        return Seen(None, self.source, why) if (self.text or "").strip() == text else self


def ask(tool: str, *arguments: str) -> Seen:
    """The tool's standard output, if it succeeds in time."""
    source = " ".join([tool, *arguments])
    program = next(
        filter(None, (shutil.which(tool, path=path) for path in (None, _ADMINISTRATOR_TOOLS, _GPFS_TOOLS))),
        None,
    )
    if program is None:
        return Seen(None, source, f"{tool} is not installed")
    try:
        finished = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=TOOL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Seen(None, source, f"no answer within {TOOL_SECONDS:g} s")
    except OSError as error:
        return Seen(None, source, reason_of(error))
    if finished.returncode != 0:
        said = " ".join((finished.stderr or finished.stdout).split())[:200]
        return Seen(None, source, f"exit code {finished.returncode}" + (f": {said}" if said else ""))
    return Seen(finished.stdout, source)
