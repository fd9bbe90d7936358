"""Text for people. That from outside moves no terminal's cursor, and fills no screen."""

import shlex
from pathlib import Path

_LENGTH_MAX = 500


def harmless(text: str) -> str:
    """Returns the text with escapes (`\\x1b`) for characters that cannot be printed; lines and tabs stay.

    Escapes keep two names apart that differ only in such characters.
    """
    return text if text.isprintable() else "".join(map(_printed, text))


def _printed(letter: str) -> str:
    return letter if letter.isprintable() or letter in "\n\t" else _escaped(letter)


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def recover_command(file: str | Path) -> str:
    """Returns the command that recovers this file, for a shell."""
    return f"penstock recover {shlex.quote(str(file))}"


def how_to_complete(file: str | Path, can_resume: bool) -> str:
    """Returns the remedy for a file that a recorder did not close.

    A recovery completes the file, so the series cannot resume in it. `can_resume`: the series has one file.
    """
    if not can_resume:
        return recover_command(file)
    return f"if the sender still runs, restart the recorder with --resume; otherwise: {recover_command(file)}"


def how_to_complete_cut(file: str | Path, only_salvage: bool) -> str:
    """Returns the remedy for an unfinished series a file of which is cut off: to resume would lose more.

    `only_salvage`: the file that is cut off is finished, and a recovery rejects it otherwise.
    """
    command = recover_command(file) + (" --salvage" if only_salvage else "")
    return f"copy the file that is cut off again from its source; if this is the only copy: {command}"


def counted(count: int, what: str, several: str = "") -> str:
    """ "1 stream", "2 streams"; `several`: the plural if it is irregular."""
    return f"{count} {what}" if count == 1 else f"{count} {several or what + 's'}"


def missing_words(missing: int, reasons: dict[str, int]) -> str:
    """ "270 missing (200 lost, 3 damaged)": every missing frame, with the reason if it is known."""
    why = ", ".join(f"{count} {name}" for name, count in reasons.items() if count)
    return f"{missing} missing" + (f" ({why})" if why else "")


def one_short_line(text: str) -> str:
    """Harmless, in one line, and cut where it is long."""
    shown = "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)
    return shown if len(shown) <= _LENGTH_MAX else shown[: _LENGTH_MAX - 1] + "…"
