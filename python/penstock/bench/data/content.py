"""What bytes a workload writes, and how far storage can compress them."""

import zlib
from pathlib import Path
from typing import Any

from penstock.bench.data.images import ImageRequest, make_template
from penstock.model.bench.load import CONTENT_RATIO_MAX, ContentKind, FramesWorkload, LoadPlan
from penstock.model.errors import UsageError
from penstock.model.problems import reason_of
from penstock.model.units import human_number

# As file systems compress: records of their own, of what a run writes of a file at most.
_RECORD_BYTES, _SAMPLE_BYTES = 128 << 10, 16 << 20


def chosen_content(
    content: ContentKind, ratio: float | None, file: Path | None, image: ImageRequest | None = None
) -> dict[str, Any]:
    """The fields of an Access. `image`: what frames are.

    A UsageError where options do not go together, or a ratio is not possible.
    """
    if ratio is not None and not 1 <= ratio <= CONTENT_RATIO_MAX:
        raise UsageError(
            f"--ratio {ratio:g} is not possible: it is from 1 to {CONTENT_RATIO_MAX:g}",
            "a ratio in that range with --content compressible; --content zeros compresses further",
        )
    if content == "compressible" and ratio is None:
        raise UsageError(
            "--content compressible requires --ratio", "give the compression ratio, for example --ratio 4"
        )
    if content == "file" and file is None:
        raise UsageError(
            "--content file requires --content-file", "name a file, for example one of your images"
        )
    if content != "compressible" and ratio is not None:
        raise UsageError(f"--ratio with --content {content}", "add --content compressible")
    if content != "file" and file is not None:
        raise UsageError(f"--content-file with --content {content}", "add --content file")
    if file is None:
        return {"content": content, "content_ratio": ratio or 1.0}
    smaller = (
        _deflated(make_template(image).data[:_SAMPLE_BYTES])
        if image is not None and image.source
        else _ratio_of(file)
    )
    return {"content": content, "content_ratio": smaller, "content_file": str(file.resolve())}


def images_in_turn(plan: LoadPlan) -> int:
    """Returns how many different images are written in turn; 0 if each frame has other pixels."""
    image = plan.workload.image if isinstance(plan.workload, FramesWorkload) else None
    return image.images if image is not None and image.pixels_bytes == 0 else 0


def content_text(plan: LoadPlan) -> str:
    """ "compressible 4:1", "file images.raw, 2.3:1 by deflate", "3 in turn of the images of DATA, …"."""
    images = images_in_turn(plan)
    if plan.content == "compressible":
        return f"compressible {plan.content_ratio:g}:1"
    if plan.content == "file":
        what = f"{images} in turn of the images of" if images else "file"
        return f"{what} {plan.content_file}, {human_number(plan.content_ratio)}:1 by deflate"
    return f"{images} generated images in turn" if images else plan.content


def _ratio_of(file: Path) -> float:
    """By deflate at its fastest, a record at a time; of a file that can be read to an end."""
    if not file.is_file():
        raise UsageError(f"--content-file {file}is not a file", "name an existing regular file")
    try:
        with file.open("rb") as opened:
            sample = opened.read(_SAMPLE_BYTES)
    except OSError as error:
        raise UsageError(f"--content-file {file}: {reason_of(error)}", "name a readable file") from error
    if not sample:
        raise UsageError(f"--content-file {file} is empty", "name a non-empty file")
    return _deflated(sample)


def _deflated(sample: bytes) -> float:
    """How many times smaller."""
    records = (sample[at : at + _RECORD_BYTES] for at in range(0, len(sample), _RECORD_BYTES))
    return max(1.0, len(sample) / sum(len(zlib.compress(record, 1)) for record in records))
