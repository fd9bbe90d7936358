"""Compiles the tests of folders, a share in each processor.

pytest compiles a test when it collects it, with its own assertions. Processes that start together would each
compile all of them.
"""

import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    files = sorted(str(path) for folder in sys.argv[1:] for path in Path(folder).rglob("test_*.py"))
    count = int(os.environ.get("PENSTOCK_JOBS") or os.cpu_count() or 2)
    collect = (sys.executable, "-m", "pytest", "-qq", "--collect-only")
    shares = [files[first::count] for first in range(count)]
    running = [subprocess.Popen((*collect, *share)) for share in shares if share]
    return max(process.wait() for process in running)


if __name__ == "__main__":
    sys.exit(main())
