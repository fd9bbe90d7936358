"""The `penstock` command, also as `python -m penstock`."""

import gc

from penstock.programs.signals import hold_signals
from penstock.programs.standard_streams import open_closed_streams

# Loading makes some hundred thousand objects that live as long as the process. By default, the collector
# searches them for garbage each time 700 more have come.
_NEW_OBJECTS_BETWEEN_COLLECTIONS = 50_000


def main() -> None:
    """The entry point. It loads the command only when a signal no longer interrupts that."""
    gc.set_threshold(_NEW_OBJECTS_BETWEEN_COLLECTIONS)
    hold_signals()
    open_closed_streams()
    from penstock.cli import main as run  # noqa: PLC0415  (it takes a tenth of a second)

    run()


if __name__ == "__main__":
    main()
