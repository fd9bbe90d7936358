"""Where the events of a running program go."""

from collections.abc import Callable
from functools import partial

from penstock.cli.common import print_json_line
from penstock.model.events import Event
from penstock.report.progress import ProgressView, show


def event_output(view: ProgressView, json: bool) -> Callable[[Event], None]:
    """Returns what prints an event as a line of JSON or, without `json`, shows it in `view`."""
    return print_json_line if json else partial(show, view)
