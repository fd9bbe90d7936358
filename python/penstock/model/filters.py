"""HDF5 filter plug-ins by name, with parameters that people write: all of it as hdf5plugin knows it."""

import contextlib
import functools
import inspect
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from penstock.model.plans import FilterPlan, Plan

FILTERS_MAX = 65535
VALUE_MAX = 2**32 - 1
Parameters = Mapping[str, Any] | Sequence[int]


@functools.cache
def _plugins() -> Any:
    """hdf5plugin. Loading it takes a while, for it loads HDF5."""
    import hdf5plugin  # noqa: PLC0415

    return hdf5plugin


class FoundFilter(Plan):
    """A plug-in that the recorder can load."""

    id: int
    name: str = Field(description="as the plug-in calls itself")
    path: str
    keeps_all_values: bool

    @property
    def short_name(self) -> str:
        """The name that a configuration may give; empty where only the number works."""
        found = _class_of(self.id)
        return "" if found is None else str(found.filter_name)

    @property
    def parameters(self) -> str:
        """What a configuration may set, with the defaults: "clevel=5, cname=lz4"."""
        found = _class_of(self.id)
        return "a list of numbers" if found is None else describe_parameters(found)


def plugin_folder() -> str:
    """hdf5plugin's own."""
    return str(_plugins().PLUGIN_PATH)


def filter_plan(
    name: str | int,
    parameters: Parameters,
    folders: Sequence[Path] = (),
    exclusive: bool = False,
    channel: str = "",
) -> FilterPlan:
    """The filter as the recorder's plan has it. A ValueError names what is wrong and what is possible."""
    number, short = _identify(name)
    values: list[int] = []
    if parameters and not isinstance(parameters, Mapping):
        values = [_value(value) for value in parameters]
    elif parameters or _class_of(number) is not None:
        # What is left out is as hdf5plugin has it.
        values = _values_of(number, parameters if isinstance(parameters, Mapping) else {})
    return FilterPlan(
        channel=channel,
        id=number,
        name=short,
        values=values,
        folders=[*(str(folder.absolute()) for folder in folders), plugin_folder()],
        exclusive=exclusive,
    )


def describe_parameters(filter_class: Any) -> str:
    signature = inspect.signature(filter_class.__init__)
    shown = [
        name if parameter.default is None else f"{name}={parameter.default}"
        for name, parameter in signature.parameters.items()
        if name != "self"
    ]
    return ", ".join(shown) or "none"


def _class_of(number: int) -> Any:
    return next((each for each in _plugins().get_filters() if each.filter_id == number), None)


def _identify(name: str | int) -> tuple[int, str]:
    if isinstance(name, int) or name.isdecimal():
        number = int(name)
        if not 1 <= number <= FILTERS_MAX:
            raise ValueError(f"{number} is not the number of a filter; it must be from 1 to {FILTERS_MAX}")
        found = _class_of(number)
        return number, "" if found is None else str(found.filter_name)
    if name.lower() not in _plugins().FILTERS:
        known = ", ".join(_plugins().FILTERS)
        raise ValueError(f'"{name}" is unknown; write {known}, or the number of any other filter')
    return int(_plugins().FILTERS[name.lower()]), name.lower()


def _values_of(number: int, parameters: Mapping[str, Any]) -> list[int]:
    filter_class = _class_of(number)
    if filter_class is None:
        raise ValueError(
            f"the names of filter {number}'s parameters are unknown; give them as a list of numbers"
        )
    named = {name: _number(value) for name, value in parameters.items()}
    try:
        return [int(value) for value in filter_class(**named).filter_options]
    except (TypeError, ValueError, KeyError, AssertionError, NotImplementedError, struct.error) as error:
        given = ", ".join(f"{name}: {value}" for name, value in parameters.items())
        raise ValueError(
            f"{filter_class.filter_name} does not take the parameters {{{given}}}"
            f"{f' ({error})' if str(error) else ''}; it has {describe_parameters(filter_class)}"
        ) from error


def _number(value: Any) -> Any:
    """YAML takes 1e-3, without a point, for text."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return float(value)
    return value


def _value(value: int) -> int:
    if not 0 <= value <= VALUE_MAX:
        raise ValueError(f"the parameter {value} is not a number from 0 to {VALUE_MAX}")
    return value
