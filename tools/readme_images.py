"""Makes the pictures of the README: python tools/readme_images.py DEMO_FOLDER REPORT.html

DEMO_FOLDER is what `penstock demo` wrote, of simulated frames; REPORT.html a report of `penstock verdict`.
Needs Debian's chromium. Writes docs/images/demo.png and docs/images/report.png, of at most 300 kB each.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageChops

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
BYTES_MAX = 300_000
HEIGHT, MARGIN = 560, 15  # pixels
REPORT_SIZE = (1100, 820)


def trimmed(path: Path) -> Image.Image:
    """The picture at `path` without its white border, HEIGHT pixels high."""
    picture = Image.open(path).convert("RGB")
    border = ImageChops.difference(picture, Image.new("RGB", picture.size, "white"))
    picture = picture.crop(border.getbbox())
    return picture.resize((round(picture.width * HEIGHT / picture.height), HEIGHT), Image.Resampling.LANCZOS)


def beside(left: Image.Image, right: Image.Image) -> Image.Image:
    both = Image.new("RGB", (left.width + right.width + 4 * MARGIN, HEIGHT + 2 * MARGIN), "white")
    both.paste(left, (MARGIN, MARGIN))
    both.paste(right, (left.width + 3 * MARGIN, MARGIN))
    return both


def screenshot(page: Path) -> Image.Image:
    """The first screen of an HTML page."""
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "page.png"
        size = f"--window-size={REPORT_SIZE[0]},{REPORT_SIZE[1]}"
        command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", size]
        subprocess.run([*command, f"--screenshot={picture}", page.resolve().as_uri()], check=True)
        return Image.open(picture).convert("RGB")


def save(picture: Image.Image, name: str) -> None:
    """With as few colours as it takes to stay below BYTES_MAX."""
    path = IMAGES / name
    for colours in (256, 128, 96, 64, 32):
        picture.quantize(colours, dither=Image.Dither.NONE).save(path, optimize=True)
        if path.stat().st_size <= BYTES_MAX:
            return
    raise SystemExit(f"{path} exceeds {BYTES_MAX} bytes even with 32 colours")


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    demo, report = Path(sys.argv[1]), Path(sys.argv[2])
    save(beside(trimmed(demo / "frame.png"), trimmed(demo / "throughput.png")), "demo.png")
    save(screenshot(report), "report.png")


if __name__ == "__main__":
    main()
