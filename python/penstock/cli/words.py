"""Texts that the helps of several commands share."""

EXIT_CODES = "Exit code: 0 success, 1 failure or damage found, 2 wrong usage."
EXIT_CODES_OF_RUNS = "Exit code: 0 valid or warned, 1 failed or interrupted, 2 wrong usage, 4 invalid."
EXIT_CODES_OF_VERDICTS = (
    "Exit code: 0 yes, 1 no, 2 wrong usage, 3 cannot tell, 4 invalid, 5 no answer because a step failed."
)
EXIT_CODES_OF_COMPARISONS = (
    "Exit code: 0 nothing is worse, 1 something is worse, 2 wrong usage, 3 cannot tell, 4 invalid, 5 failed."
)
EXIT_CODES_OF_SHEETS = (
    "Exit code: 0 success, 1 failure, 2 wrong usage, 5 no answer because a measurement is invalid."
)


def examples(*lines: str, exit_codes: str = EXIT_CODES) -> str:
    """Returns the text below a command's help: one line each, which the leading mark keeps unwrapped."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines), "", exit_codes])
