"""Compiles the tests of folders, a share in each processor.

pytest compiles a test when it collects it, with its own assertions. Processes that start together would each
compile all of them.
"""

import subprocess
import sys
from pathlib import Path

import budget


def main() -> int:
    files = sorted(str(path) for folder in sys.argv[1:] for path in Path(folder).rglob("test_*.py"))
    count = budget.jobs()
    collect = (sys.executable, "-m", "pytest", "-qq", "--collect-only")
    shares = [files[first::count] for first in range(count)]
    running = [subprocess.Popen((*collect, *share)) for share in shares if share]
    return 1 if [process for process in running if process.wait() != 0] else 0


if __name__ == "__main__":
    sys.exit(main())
