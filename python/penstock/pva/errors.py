"""A frame that cannot be recorded."""


class BadFrameError(Exception):
    """Names the field of the NTNDArray, its value, and what is wrong with it."""

    def __init__(self, field: str, value: object, why: str, unique_id: int | None = None) -> None:
        super().__init__(f"{field} is {_short(value)}: {why}")
        self.field = field
        self.unique_id = unique_id


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
