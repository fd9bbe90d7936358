"""What the helps of all commands say."""

EXIT_CODES = "Exit code: 0 fine, 1 failed or damage found, 2 wrong usage."


def examples(*lines: str) -> str:
    """Shown below a command's help, a line each: the mark in front keeps the help from filling lines."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines), "", EXIT_CODES])
