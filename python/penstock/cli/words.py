"""Texts that the helps of several commands share."""

from collections.abc import Mapping
from dataclasses import dataclass

_USAGE = {2: "wrong usage"}
_STOPPED = {130: "interrupted by Ctrl-C", 143: "interrupted by SIGTERM"}


@dataclass(frozen=True)
class ExitCodes:
    """The exit codes of some commands, with their meanings: of a help, and a column of the reference page."""

    commands: str
    meanings: Mapping[int, str]

    @property
    def line(self) -> str:
        """Returns the last line of a help."""
        return f"Exit code: {', '.join(f'{code} {what}' for code, what in self.meanings.items())}."


OF_RUNS = ExitCodes(
    "`bench`, `campaign`", {0: "valid or warned", 1: "failed or interrupted", **_USAGE, 4: "invalid"}
)
OF_VERDICTS = ExitCodes(
    "`verdict`, `rehearse`",
    {
        0: "yes or likely yes",
        1: "no or likely no",
        **_USAGE,
        3: "cannot tell",
        4: "invalid",
        5: "interrupted, or a step failed, and the answer is not a no",
    },
)
OF_COMPARISONS = ExitCodes(
    "`compare`",
    {
        0: "nothing is worse",
        1: "something is worse",
        **_USAGE,
        3: "cannot tell",
        4: "invalid",
        5: "failed or interrupted",
    },
)
OF_DOCTOR = ExitCodes("`doctor`", {0: "ready", 1: "problems found", **_USAGE, 5: "failed or interrupted"})
OF_SHEETS = ExitCodes(
    "`describe`",
    {
        0: "success",
        1: "failure or interrupted",
        **_USAGE,
        5: "no answer because a measurement is invalid",
    },
)
OF_PLANS = ExitCodes(
    "`plan`",
    {0: "success", 1: "failure or interrupted", **_USAGE, 4: "a document of `--measured` is invalid"},
)
OF_CHECKS = ExitCodes(
    "`check`",
    {
        0: "no damage",
        1: "damage found, or failure",
        **_USAGE,
        3: "cannot verify the frames because the file has no checksums",
        **_STOPPED,
    },
)
OF_FILES = ExitCodes(
    "`info`, `view`, `recover`, `export`, `join`, `attach`",
    {0: "success", 1: "failure or damage found", **_USAGE, **_STOPPED},
)
OF_OTHERS = ExitCodes("all others", {0: "success", 1: "failure or interrupted", **_USAGE})
ALL = (OF_RUNS, OF_VERDICTS, OF_COMPARISONS, OF_DOCTOR, OF_SHEETS, OF_PLANS, OF_CHECKS, OF_FILES, OF_OTHERS)

EXIT_CODES = OF_OTHERS.line
EXIT_CODES_OF_RUNS = OF_RUNS.line
EXIT_CODES_OF_VERDICTS = OF_VERDICTS.line
EXIT_CODES_OF_COMPARISONS = OF_COMPARISONS.line
EXIT_CODES_OF_DOCTOR = OF_DOCTOR.line
EXIT_CODES_OF_SHEETS = OF_SHEETS.line
EXIT_CODES_OF_PLANS = OF_PLANS.line
EXIT_CODES_OF_CHECKS = OF_CHECKS.line
EXIT_CODES_OF_FILES = OF_FILES.line


def examples(*lines: str, exit_codes: str = EXIT_CODES) -> str:
    """Returns the text below a command's help: one line each, which the leading mark keeps unwrapped."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines), "", exit_codes])
