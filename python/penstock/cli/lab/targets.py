"""Laboratories as paths: `lab:NAME/FOLDER` is that folder below the mount point of the first client."""

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress

from penstock.lab.control import state_of
from penstock.lab.place import place_of
from penstock.lab.request import LabState
from penstock.lab.storage import inside_of, mount_of, name_of_laboratory, storage_of
from penstock.model.errors import PenstockError, UsageError
from penstock.model.storage_url import Place

_WORD = re.compile(r"(?P<before>(--?[A-Za-z-]+=|[\w.-]+=)?)lab:(?P<name>[^/,]+)(?P<rest>[/,].*)?", re.DOTALL)


def with_mount_points(words: Sequence[str], takes_urls: bool = False) -> list[str]:
    """Raises UsageError for a laboratory that is not up, or that only clients of its protocol reach.

    With `takes_urls` the word for such a laboratory stays.
    """
    return [_with_mount_point(word, takes_urls) for word in words]


def laboratory_storage(word: str) -> Place | None:
    """Returns the storage that `lab:NAME` and `lab:NAME/FOLDER` name; None for any other word."""
    found = _WORD.fullmatch(word)
    if found is None or found["before"]:
        return None
    place = storage_of(_state(word, found["name"]))
    for name in filter(None, (found["rest"] or "").split("/")):
        place = place / name
    return place


def _state(word: str, name: str) -> LabState:
    try:
        return state_of(place_of(name))
    except UsageError as error:
        raise UsageError(
            f"{word}: {error.message}", "`penstock lab list` shows names; `penstock lab up` brings one up"
        ) from error


def _with_mount_point(word: str, takes_urls: bool) -> str:
    found = _WORD.fullmatch(word)
    if found is None:
        _enter_for_path(word.rpartition("=")[2])
        return word
    state = _state(word, found["name"])
    if not state.mount and takes_urls:
        return word
    if not state.mount:
        raise UsageError(
            f"{word}: {state.title} has no mount point here",
            "this command requires a mount point, which moosefs has; other programs reach"
            f" {state.url} by `penstock lab exec {state.name} -- COMMAND`",
        )
    enter_for(state)
    return f"{found['before']}{mount_of(state)}{found['rest'] or ''}"


def _enter_for_path(path: str) -> None:
    """Does the same for the path of a mount point, as `penstock lab up` prints it."""
    if name := name_of_laboratory(path):
        with suppress(PenstockError):  # it may be any folder below that of laboratories
            enter_for(state_of(place_of(name)))


def enter_for(state: LabState) -> None:
    """Starts this command again inside a laboratory whose mount points are visible only there."""
    if inside := inside_of(state):
        os.execv(inside[0], [*inside, sys.executable, "-m", "penstock", *sys.argv[1:]])
