"""What the damage of a recorded file means for a copy of its frames."""

import re
from collections.abc import Sequence

from penstock.files.export.plan import Export
from penstock.model.findings import Finding

_FRAME = re.compile(r"\bframes? [0-9]")
_OWN_FRAME = re.compile(r"(?:/\S* )?frame (?P<number>[0-9]+)\b")
_LACKING = (
    "a chunk in a segment is missing from the index",
    "a frame is marked as received but missing",
    "a file with a part of the frames is not there",
)


def damage_of_copy(export: Export, errors: Sequence[Finding]) -> str | None:
    """Returns what is wrong with the copy, and what to do; None if the errors do not concern it."""
    of_frames = {each.what for each in errors if _FRAME.search(each.where)} - set(_LACKING)
    there = [each for each in errors if _is_copied(export, each)]
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


def _is_copied(export: Export, error: Finding) -> bool:
    """Whether the error may concern what was copied; that of further places is not known."""
    if found := _OWN_FRAME.match(error.where):
        number = int(found["number"])
        return export.first_frame <= number < export.first_frame + export.frames
    return not (export.absent and error.what in _LACKING)
