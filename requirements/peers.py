"""Installs the programs of peers/ that the tests talk to: python requirements/peers.py

Each gets a virtual environment of its own, .venv/peers/NAME, with exactly what its lock file names. Takes
well under a second when nothing changed.
"""

import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent / ".venv" / "peers"


def install(lock: Path) -> None:
    folder = FOLDER / lock.stem
    stamp = folder / "penstock-stamp"
    state = f"{folder}\n{sys.version}\n{lock.read_text(encoding='utf-8')}"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == state:
        return
    print(f"setup: making {folder} with the packages of {lock}", file=sys.stderr)
    venv.create(folder, clear=True, with_pip=True)
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--no-input", "--no-compile"]
    subprocess.run([*command, "-r", str(lock)], check=True)
    stamp.write_text(state, encoding="utf-8")


def main() -> None:
    for lock in sorted((HERE / "peers").glob("*.lock")):
        install(lock)


if __name__ == "__main__":
    main()
