"""What comes from files and from the network moves no terminal's cursor."""

import io

from rich.text import Text

from penstock.cli.console import SafeConsole
from penstock.model.text import harmless
from penstock.report.tables import fact_table

HOSTILE = "x\x1b[2J\x01\u202ey"
SHOWN = r"x\x1b[2J\x01\u202ey"


def test_whatever_is_printed_has_escapes_instead_of_control_characters() -> None:
    stream = io.StringIO()
    console = SafeConsole(file=stream, width=80, highlight=False)
    console.print(f"line {HOSTILE}", markup=False, soft_wrap=True)
    console.print(Text(f"text {HOSTILE}"))
    console.print(fact_table({"series": HOSTILE}))
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    assert lines == [f"line {SHOWN}", f"text {SHOWN}", f"series  {SHOWN}"]


def test_colours_stay() -> None:
    stream = io.StringIO()
    SafeConsole(file=stream, force_terminal=True, color_system="standard").print("[red]error:[/] why")
    assert "\x1b[31merror:\x1b[0m" in stream.getvalue()


def test_names_that_differ_in_unprintable_characters_only_look_different() -> None:
    assert len({harmless("a\x01"), harmless("a\x02"), harmless("a\udcdf"), harmless("a")}) == 4
    assert harmless("Meßreihe\t1\n") == "Meßreihe\t1\n"
