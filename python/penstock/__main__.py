"""The `penstock` command, also as `python -m penstock`."""

from penstock.programs.signals import hold_signals
from penstock.programs.standard_streams import open_closed_streams


def main() -> None:
    """The entry point. It loads the command only when a signal no longer interrupts that."""
    hold_signals()
    open_closed_streams()
    from penstock.cli import main as run  # noqa: PLC0415  (it takes a third of a second)

    run()


if __name__ == "__main__":
    main()
