"""The detectors of a plan: from arguments, or from a file of beamlines."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.cli.detector_choice import choose_detector
from penstock.cli.plan.options import PlanOptions
from penstock.model.catalogue import CUSTOM, Detector
from penstock.model.errors import UsageError
from penstock.model.plan.beamlines import Beamline, Schedule, read_facility
from penstock.model.plan.orders import Order


@dataclass(frozen=True)
class Ordered:
    """A detector with its rate, and where it is."""

    order: Order
    detector: Detector
    rate_hz: float
    beamline: Beamline | None = None

    @property
    def schedule(self) -> Schedule | None:
        """Returns when it takes frames; None if that is as for the whole plan."""
        if self.order.duty is not None:
            return Schedule(duty=self.order.duty)
        return self.beamline if self.beamline is not None and self.beamline.is_stated else None


def ordered(options: PlanOptions) -> list[Ordered]:
    """Raises UsageError with the argument, or with the file and the beamline."""
    if options.beamlines is not None and options.detectors:
        raise UsageError(
            f"--beamlines excludes the detector {options.detectors[0]}",
            f"add it to a beamline in {options.beamlines}, or leave out --beamlines",
        )
    found = list(_arguments(options) if options.beamlines is None else _of_file(options, options.beamlines))
    sized = (options.rows, options.columns, options.type_, options.file)
    if sized != (None, None, None, None) and not any(each.order.name == CUSTOM for each in found):
        raise UsageError(
            "--file, --rows, --columns and --type require the detector `custom`",
            "write `penstock plan 2xcustom@100 --rows …`",
        )
    return found


def _arguments(options: PlanOptions) -> Iterator[Ordered]:
    for text in options.detectors or []:
        yield _chosen(Order.parse(text), options)


def _of_file(options: PlanOptions, path: Path) -> Iterator[Ordered]:
    for beamline in read_facility(path).beamlines:
        for text in beamline.detectors:
            try:
                found = _chosen(Order.parse(text), options)
            except UsageError as error:
                where = f"{path}: beamline {beamline.name}: {error.message}"
                raise UsageError(where, error.remedy) from error
            yield Ordered(found.order, found.detector, found.rate_hz, beamline)


def _chosen(order: Order, options: PlanOptions) -> Ordered:
    """Returns the detector with its rate. Shape and file are those of the custom one."""
    own = (options.rows, options.columns, options.type_, options.file) if order.name == CUSTOM else ()
    try:
        detector = choose_detector("plan", order.name, *own)
    except UsageError as error:
        raise _with_count(order, error) from error
    rate = order.rate_hz or detector.rate_hz
    if rate <= 0:
        raise UsageError(f"the rate of {detector.name} is unknown", f"give it: {order.name}@HZ")
    return Ordered(order, detector, rate)


_NUMBER_FIRST = re.compile(r"(?P<count>[0-9]{1,6})[ _-]*(?P<name>.+)")


def _with_count(order: Order, error: UsageError) -> UsageError:
    """Returns the error with the form of a count, if the name is one of the catalogue behind a number."""
    match = _NUMBER_FIRST.fullmatch(order.name)
    if match is None or order.count != 1:
        return error
    try:
        choose_detector("plan", match["name"])
    except UsageError:
        return error
    meant = order.model_copy(update={"name": match["name"], "count": int(match["count"])})
    return UsageError(error.message, f"write {meant.text} for {meant.count} detectors")
