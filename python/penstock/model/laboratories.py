"""Where laboratories of root are, which data sheets tell from other storage."""

from pathlib import Path

FOLDER_OF_ROOT = Path("/run/penstock-lab")
