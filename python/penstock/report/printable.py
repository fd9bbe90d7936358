"""Texts of documents, which may come from anywhere, made fit to be shown."""

import unicodedata

LENGTH_MAX = 2000
_STAND_IN = "\N{REPLACEMENT CHARACTER}"
# Control characters, invisible ones that turn or hide text, halves of pairs, and what nobody has assigned.
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def printable(text: str, length_max: int = LENGTH_MAX) -> str:
    """One line without control characters, cut where it is too long."""
    line = " ".join(text[: 2 * length_max].split())
    shown = "".join(_STAND_IN if unicodedata.category(each) in _HIDDEN else each for each in line)
    return shown if len(shown) <= length_max else f"{shown[: length_max - 1]}…"
