"""What the damage of a recorded file means for a copy of its frames."""

from collections.abc import Sequence
from pathlib import Path

from penstock.files.export.plan import Export
from penstock.model.findings import Finding

_LACKING = (
    "a chunk in a segment is missing from the index",
    "a frame is marked as received but missing",
    "a file with a part of the frames is not there",
)


def damage_of_copy(export: Export, errors: Sequence[Finding]) -> str | None:
    """Returns what is wrong with the copy, and what to do; None if the errors do not concern it."""
    of_frames = {each.what for each in errors if each.frames} - set(_LACKING)
    outside = [each for each in errors if _is_outside(export, each)]
    ignored = set(_LACKING) if outside or export.absent else set()  # further places are of these files
    there = [each for each in errors if each not in outside and _is_copied(export, each, ignored)]
    if any(each.what in of_frames for each in there):
        return (
            f"{export.source} is damaged, and the copy has the same bytes: restore it, or leave the damaged"
            " frames out (--frames)"
        )
    if any(each.what in _LACKING for each in there):
        return (
            f"{export.source} lacks frames that it should have, and the copy has the fill value there:"
            " restore it, or leave these frames out (--frames)"
        )
    if there:
        return f"{export.source} is damaged, but no frame is: restore it, as values in the copy may be wrong"
    return None


def _is_outside(export: Export, error: Finding) -> bool:
    """Whether the error concerns a source file that has none of the copied frames."""
    folder = Path(export.source).absolute().parent
    return error.source_file in export.outside or any(
        error.where in (name, str(folder / name)) for name in export.outside
    )


def _is_copied(export: Export, error: Finding, ignored: set[str]) -> bool:
    """Whether the error may concern what was copied; that of further places is not known."""
    if error.frames:
        first, last = error.frames
        return first < export.first_frame + export.frames and export.first_frame <= last
    return error.what not in ignored
