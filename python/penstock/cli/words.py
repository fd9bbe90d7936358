"""What the helps of all commands say."""

EXIT_CODES = "Exit code: 0 fine, 1 failed or damage found, 2 wrong usage."
EXIT_CODES_OF_RUNS = "Exit code: 0 sound, 1 failed or interrupted, 2 wrong usage, 4 invalid."
EXIT_CODES_OF_VERDICTS = (
    "Exit code: 0 yes, 1 no, 2 wrong usage, 3 cannot tell, 4 invalid, 5 no answer: it could not be measured."
)
EXIT_CODES_OF_COMPARISONS = (
    "Exit code: 0 nothing is worse, 1 worse, 2 wrong usage, 3 cannot tell, 4 invalid, 5 no answer: it failed."
)
EXIT_CODES_OF_SHEETS = (
    "Exit code: 0 fine, 1 failed, 2 wrong usage, 5 no answer: a figure of --measure is invalid."
)


def examples(*lines: str, exit_codes: str = EXIT_CODES) -> str:
    """Shown below a command's help, a line each: the mark in front keeps the help from filling lines."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines), "", exit_codes])
