"""Writes the lock files anew from the .in files: python requirements/update.py

Everything is resolved at once, so that the locks agree with each other; then each lock gets what its own
.in file leads to. Programs in peers/ have virtual environments of their own (peers.py), and are resolved by
themselves. Run it with the Python that the locks are for (3.11), and the tests afterwards.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAMES = ("run", "science", "test", "dev")


def resolve(*arguments: str) -> dict[str, str]:
    """Name and version of everything that pip would install."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*command, "--report", str(report), *arguments], check=True)
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
    return {item["metadata"]["name"].lower().replace("_", "-"): item["metadata"]["version"] for item in found}


def write_lock(source: Path, pinned: dict[str, str]) -> None:
    lines = [
        f"# Written by requirements/update.py from {source.name}.",
        *(f"{k}=={v}" for k, v in sorted(pinned.items())),
    ]
    source.with_suffix(".lock").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    for peer in sorted((HERE / "peers").glob("*.in")):
        write_lock(peer, resolve(f"--requirement={peer}"))
    everything = resolve(*(f"--requirement={HERE / name}.in" for name in NAMES))
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "constraints.txt"
        constraints.write_text(
            "".join(f"{name}=={version}\n" for name, version in everything.items()), encoding="utf-8"
        )
        for name in NAMES:
            write_lock(
                HERE / f"{name}.in", resolve(f"--requirement={HERE / name}.in", f"--constraint={constraints}")
            )


if __name__ == "__main__":
    main()
