"""Programs of the system, run to their end, with errors that say which one failed and why."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from penstock.model.errors import PenstockError
from penstock.model.text import one_short_line

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Users' paths often lack the folders of programs for root."""


def run(
    command: Sequence[str | Path], *, text: str | None = None, timeout_s: float = 60.0, check: bool = True
) -> str:
    """Returns the output. Raises PenstockError where the command fails, is missing or takes too long."""
    words = [str(each) for each in command]
    try:
        done = subprocess.run(
            words,
            input=text,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            errors="replace",
            env={**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"},
        )
    except FileNotFoundError as error:
        raise PenstockError(f"{words[0]} is not installed", "see `penstock lab doctor`") from error
    except subprocess.TimeoutExpired as error:
        raise PenstockError(f"`{' '.join(words)}` has not ended after {timeout_s:g} s") from error
    if check and done.returncode != 0:
        said = one_short_line(done.stderr.strip() or done.stdout.strip() or "it said nothing")
        raise PenstockError(f"`{' '.join(words)}` failed with exit code {done.returncode}: {said}")
    return done.stdout
