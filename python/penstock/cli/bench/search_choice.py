"""Options that `penstock verdict` and `penstock rehearse` have in common."""

from typing import Annotated, Any

import typer

from penstock.model import panels
from penstock.model.errors import UsageError

_SOAK_S_MAX = 30 * 86400

SearchMax = Annotated[
    float,
    typer.Option(
        min=1.1,
        max=1e4,
        metavar="FACTOR",
        help="Upper limit of the search, as a multiple of the detector's rate.",
        rich_help_panel=panels.WORKLOAD,
    ),
]


def search_time_option(default: str = "") -> Any:
    """Returns --search-time. `default`: what its help says, if the value depends on other options."""
    return typer.Option(
        min=0,
        max=86400,
        metavar="SECONDS",
        help=f"Duration in seconds of the search for the highest sustained rate; 0: no search.{default}",
        rich_help_panel=panels.WORKLOAD,
    )


def soak_option(default: str = "") -> Any:
    """Returns --soak. As above."""
    return typer.Option(
        min=0,
        max=_SOAK_S_MAX,
        metavar="SECONDS",
        help="Duration in seconds of the soak, the last run, which confirms the detector's rate; 0: no"
        f" soak.{default}",
        rich_help_panel=panels.WORKLOAD,
    )


SoakMinutes = Annotated[
    float | None,
    typer.Option(
        "--minutes",
        min=0,
        max=_SOAK_S_MAX // 60,
        metavar="MINUTES",
        help="Duration of the soak in minutes, instead of --soak.",
        rich_help_panel=panels.WORKLOAD,
    ),
]


def soak_seconds(soak: float | None, minutes: float | None, default: float) -> float:
    """Returns the duration of the soak. Raises UsageError if it was given twice."""
    if minutes is None:
        return default if soak is None else soak
    if soak is not None:
        raise UsageError(
            f"--minutes {minutes:g} and --soak {soak:g} both set the duration of the soak",
            "leave out --minutes",
        )
    return 60 * minutes
