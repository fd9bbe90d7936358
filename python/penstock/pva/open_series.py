"""One series at the recorder, and what its start message says."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.client import ClientTimeoutError, FrameError, Series
from penstock.model.pva import PvaPlan
from penstock.pva.errors import BadFrameError
from penstock.pva.frames import Frame
from penstock.pva.order import Order

_SEND_LOOK_S = 0.5
# Of one series; the counts have all.
_NOTES_MAX = 20
# With which the recorder answers a frame that is not an image (docs/reference/tcp.md).
_CODES_OF_DAMAGE = ("malformed", "truncated", "too_large", "unsupported", "mismatch", "corrupt")


@dataclass(frozen=True)
class Damage:
    """In the place of a frame that cannot be recorded."""

    unique_id: int
    why: str


@dataclass
class Counts:
    """Of one series."""

    received: int = 0
    damaged: int = 0  # frames that are not images, according to the source or the recorder
    refused: int = 0  # others that the recorder would not have
    repeated: int = 0
    late: int = 0
    beyond: int = 0


class OpenSeries:
    """One series at the recorder. One thread at a time."""

    def __init__(self, plan: PvaPlan, first: Frame, first_unique_id: int, name: str) -> None:
        self.kind, self.tag = first.kind, tag_of(plan, first)
        self.counts = Counts()
        self.first_unique_id = first_unique_id
        self.order: Order[Frame | Damage] = Order(
            first_unique_id, plan.reorder_frames, plan.gap_frames_max, plan.frames
        )
        self.last_frame = time.monotonic()
        self.problems: list[str] = []
        self._refusals_seen = 0
        start, self.start_problems = start_of(plan.start, first)
        self._reported: set[str] = set()
        self.series = Series(
            plan.to,
            dtype=first.dtype,
            shape=first.shape,
            frames=plan.frames or None,
            name=name,
            metadata=start,
            user_data=user_data_of(plan, first, first_unique_id),
            sole=True,
            token=plan.token or "",
            program="penstock.pva",
            resend_bytes=plan.buffer_bytes,
            reconnect_timeout=plan.reconnect_recorder_s,
        )

    @property
    def name(self) -> str:
        return self.series.name

    def send(self, frame: Frame, give_up: Callable[[], bool]) -> None:
        """Waits for room in the window. Raises BadFrameError if the recorder's client rejects the frame."""
        for text in frame.left_out:
            self._note(f"attribute {text}; it is left out")
        number = frame.unique_id - self.first_unique_id
        metadata = frame.metadata
        while True:
            try:
                self.series.send(frame.image, number=number, metadata=metadata, timeout=_SEND_LOOK_S)
                return
            except ClientTimeoutError:
                if give_up():
                    raise
            except FrameError as problem:
                if metadata is frame.bare_metadata:
                    raise BadFrameError(
                        "uniqueId", frame.unique_id, str(problem), frame.unique_id
                    ) from problem
                self._note(f"frame {number} is recorded without its attributes: {problem}")
                metadata = frame.bare_metadata

    def send_damage(self, damage: Damage) -> None:
        """So that the file knows more of it than that it is missing."""
        number = damage.unique_id - self.first_unique_id
        with contextlib.suppress(FrameError):  # a frame with a higher number has gone before
            self.series.send_damaged(f"uniqueId {damage.unique_id}: {damage.why}", number=number)

    def new_refusals(self) -> list[tuple[int | None, bool, str]]:
        """Frames that the recorder would not have since the last call: uniqueId where it is known, whether
        they are damaged, and why.
        """
        found = self.series.refused[self._refusals_seen :]
        self._refusals_seen += len(found)
        return [
            (
                each.number + self.first_unique_id if each.number >= 0 else None,
                each.code in _CODES_OF_DAMAGE,
                f"the recorder rejects it: {each.text} ({each.code})",
            )
            for each in found
        ]

    @property
    def refusals_untold(self) -> int:
        """Of more than the client keeps."""
        return self.series.refused_count - len(self.series.refused)

    def _note(self, text: str) -> None:
        """Once each, and not without end."""
        if text not in self._reported and len(self._reported) < _NOTES_MAX:
            self._reported.add(text)
            self.problems.append(text)


def tag_of(plan: PvaPlan, frame: Frame) -> str:
    """The value of the attribute that names series."""
    return str(frame.attributes.get(plan.name_attribute, "")) if plan.name_attribute else ""


def start_of(fields: dict[str, Any], first: Frame) -> tuple[dict[str, Any], dict[str, str]]:
    """The fields of the start message, and why others are left out.

    Those that refer to an attribute have its value of the first frame.
    """
    found, problems = {}, {}
    for name, value in fields.items():
        if name == "user_data":
            continue
        if name != "goniometer" and isinstance(value, dict):
            content = first.attributes.get(value["attribute"])
            if isinstance(content, int | float) and not isinstance(content, bool):
                found[name] = content * value["scale"] if "scale" in value else content
            elif isinstance(content, str) and "scale" not in value:
                found[name] = content
            else:
                problems[name] = _left_out(name, value["attribute"], content)
        else:
            found[name] = value
    return found, problems


def _left_out(name: str, attribute: str, content: Any) -> str:
    what = (
        "which the first frame lacks" if content is None else f"which is {content!r:.80} in the first frame"
    )
    return f"start.{name} is to be the attribute {attribute!r}, {what}: the file lacks {name}"


def user_data_of(plan: PvaPlan, first: Frame, first_unique_id: int) -> dict[str, Any]:
    """What is known of where the frames come from, beside what the user says."""
    source = {
        "channel": plan.channel,
        "first_unique_id": first_unique_id,
        "codec": first.codec,
        "dimension": first.geometry(),
    } | ({} if first.colour_mode is None else {"ColorMode": first.colour_mode})
    return {"epics": source, **plan.start.get("user_data", {})}


def plain_name(text: str) -> str:
    """As a file's name may be."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:150] or "series"
