"""`penstock plan`"""

import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from penstock import __version__
from penstock.bench.judge.measured import measured_bandwidth
from penstock.bench.run.codec_speed import compressions
from penstock.cli.common import bandwidth_option, out, print_json, reports_errors, require_new, size_option
from penstock.cli.option_table import DataclassTable, command_of
from penstock.cli.plan.options import PlanOptions
from penstock.cli.plan.ordered import Ordered, ordered
from penstock.cli.plan.suitable import require_suitable
from penstock.cli.verbosity import progress, shows_progress
from penstock.files.space import write_document
from penstock.model.errors import UsageError
from penstock.model.plan.ages import YEAR_DAYS, parse_age
from penstock.model.plan.beamlines import DAYS_MAX, HOURS_MAX, Schedule, read_facility
from penstock.model.plan.blocks import Block, Redundancy, find_block, whole
from penstock.model.plan.ratios import catalogue_compression
from penstock.model.plan.sizing import Assumptions, Compression, Sizing, Wanted, size
from penstock.model.plan.tiers import Tier, check_tiers
from penstock.model.problems import words_of
from penstock.model.units import parse_share
from penstock.programs.locate import blocks_folder
from penstock.report.plan.sizing import sizing_markdown, sizing_view

_YEARS, _YEARS_MAX = 5, 30


def _run(options: PlanOptions) -> None:
    """Compute what detectors need: bandwidth, cores, links, servers, capacity and building blocks.

    Lists the volume per day, week and year, the capacity of each tier of storage, and its growth. Only
    --measure and --images measure anything, for some seconds, in a temporary folder.
    """
    chosen = ordered(options)
    assumptions = _all_assumptions(options, chosen)
    measured, block_names = options.measured or [], options.block or []
    if (
        not options.detectors
        and options.beamlines is None
        and not assumptions.write_bytes_per_s
        and not assumptions.capacity_bytes
    ):
        raise UsageError(
            "no detector, --beamlines, --write or --capacity given",
            "name a detector from `penstock detectors`",
        )
    blocks = [find_block(name, blocks_folder()) for name in block_names]
    tier_blocks = {
        tier.block: find_block(tier.block, blocks_folder()) for tier in assumptions.tiers if tier.block
    }
    if measured:
        _require_one_measured(blocks, tier_blocks)
    warnings = require_suitable(measured) if measured else []
    bandwidth = measured_bandwidth(measured) if measured else None
    require_new(options.markdown, "--markdown")
    require_new(options.report, "--report")
    sizing = size(_wanted(chosen, options), assumptions, blocks, bandwidth, tier_blocks)
    notes = [*_assumed_duty(options, chosen), *sizing.notes, *warnings]
    origin = {
        "facility": read_facility(options.beamlines).name if options.beamlines is not None else "",
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": __version__,
        "command": shlex.join(["penstock", *sys.argv[1:]]),
    }
    _show(sizing.model_copy(update={"notes": notes} | origin), options)


plan_command = reports_errors(shows_progress(command_of(_run, DataclassTable(PlanOptions))))


def _require_one_measured(blocks: Sequence[Block], tier_blocks: Mapping[str, Block]) -> None:
    """Raises UsageError unless one block was measured: that of --block, otherwise that of the tiers."""
    if len(blocks) == 1:
        return
    if blocks:
        raise UsageError(
            f"--measured applies to one --block, {len(blocks)} given", "give the --block that was measured"
        )
    if not tier_blocks:
        raise UsageError(
            "--measured requires the block that was measured",
            "give it with --block, or as block=NAME of a --tier",
        )
    if any(block != next(iter(tier_blocks.values())) for block in tier_blocks.values()):
        raise UsageError(
            f"--measured applies to one block, but tiers have {', '.join(tier_blocks)}",
            "give the one that was measured with --block, too",
        )


def _wanted(chosen: list[Ordered], options: PlanOptions) -> list[Wanted]:
    """Returns the detectors with their compression: stated, measured, or that of the catalogue."""
    encoding = options.encoding
    speed = (
        bandwidth_option(options.codec_speed, "--codec-speed") if options.codec_speed is not None else None
    )
    images = options.images or []
    with progress() as view:
        found = compressions(
            [each.detector for each in chosen],
            encoding,
            options.ratio,
            speed,
            options.measure,
            images,
            view.say,
        )
    if options.ratio is None and not options.measure and not images:
        found = [
            catalogue_compression(each.detector, encoding, options.compression, speed) for each in chosen
        ]
    return [_one_wanted(*each) for each in zip(chosen, map(_own_ratio, chosen, found), strict=True)]


def _assumed_duty(options: PlanOptions, chosen: list[Ordered]) -> list[str]:
    """Returns a warning if nobody stated how much of the time there are frames."""
    stated = (options.duty, options.hours_per_day, options.days_per_week)
    if stated != (None, None, None) or all(each.schedule is not None for each in chosen):
        return []
    return [
        "no duty cycle given: the capacity is for frames at the full rate at all times (100 %); state the"
        " real one with --duty, or with --hours-per-day and --days-per-week"
    ]


def _one_wanted(each: Ordered, compression: Compression) -> Wanted:
    schedule, beamline = each.schedule, each.beamline
    return Wanted(
        detector=each.detector,
        beamline="" if beamline is None else beamline.name,
        count=each.order.count,
        rate_hz=each.rate_hz,
        duty=None if schedule is None else schedule.share,
        days_per_week=None if schedule is None else schedule.days,
        retention_days=None if beamline is None else beamline.retention,
        compression=compression,
    )


def _own_ratio(each: Ordered, common: Compression) -> Compression:
    """Returns the compression of a detector, with the ratio that its argument states."""
    order = each.order
    if order.ratio is None:
        return common
    if common.encoding == "none":
        raise UsageError(
            f"{order.name}: ratio={order.ratio:g} requires compression, but --encoding is none",
            "leave out one of them",
        )
    stated = {"ratio": order.ratio, "ratio_from": "stated"}
    unknown = {"simulated": False, "catalogue": None, "is_ratio_unknown": False}
    return common.model_copy(update=stated | unknown)


def _show(sizing: Sizing, options: PlanOptions) -> None:
    if options.markdown is not None:
        write_document(options.markdown, sizing_markdown(sizing))
    if options.report is not None:
        from penstock.report.pages.html import html_of  # it loads Jinja
        from penstock.report.pages.sizing import sizing_page  # it loads Matplotlib

        write_document(options.report, html_of([sizing_page(sizing)]))
    if options.json:
        print_json(sizing)
    else:
        out().print(sizing_view(sizing))


def _all_assumptions(options: PlanOptions, chosen: list[Ordered]) -> Assumptions:
    schedule = _schedule(options)
    retention = _age(options.retention)
    tiers = [Tier.parse(text) for text in options.tier or []]
    check_tiers(tiers)
    links = [bandwidth_option(text, "--link") for text in options.link or []]
    return _assumptions(
        duty=schedule.share,
        days_per_week=schedule.days,
        headroom=_share(options.headroom, "--headroom", "the share above the peak, such as 20%"),
        retention_days=retention,
        growth=_share(options.growth, "--growth", "the growth per year, such as 20%"),
        years=_years(retention, chosen) if options.years is None else options.years,
        tiers=tiers,
        fill=_share(options.fill, "--fill", "the share of the capacity, such as 90%"),
        write_bytes_per_s=bandwidth_option(options.write, "--write") if options.write is not None else 0.0,
        read_factor=options.read_factor,
        capacity_bytes=size_option(options.capacity, "--capacity") if options.capacity is not None else 0,
        compresses=options.compressed_by,
        link_efficiency=options.link_efficiency,
        server_cores=options.server_cores,
        server_bandwidth=bandwidth_option(options.server_bandwidth, "--server-bandwidth"),
        redundancy=_redundancy(options.redundancy),
        **({"link_speeds": links} if links else {}),
    )


def _age(text: str) -> float:
    try:
        return parse_age(text)
    except ValueError as error:
        raise UsageError(f"--retention: {error}") from error


def _years(retention_days: float, chosen: list[Ordered]) -> int:
    """Returns the years until the capacity no longer rises, within the limits of --years; five at least."""
    own = [each.beamline.retention for each in chosen if each.beamline and each.beamline.retention]
    return max(_YEARS, min(_YEARS_MAX, whole(max([retention_days, *own]) / YEAR_DAYS)))


def _share(text: str, option: str, what: str) -> float:
    try:
        return parse_share(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}", f"give {what}") from error


def _schedule(options: PlanOptions) -> Schedule:
    """Returns the duty cycle that --duty states, or that follows from hours and days."""
    text, hours, days = options.duty, options.hours_per_day, options.days_per_week
    if text is None:
        for option, value, limit in (
            ("--hours-per-day", hours, HOURS_MAX),
            ("--days-per-week", days, DAYS_MAX),
        ):
            if value is not None and not 0 < value <= limit:
                raise UsageError(
                    f"{option}: {value:g} is out of range", f"give more than 0, at most {limit:g}"
                )
        return Schedule(hours_per_day=hours, days_per_week=days)
    if hours is not None or days is not None:
        other = "--hours-per-day" if hours is not None else "--days-per-week"
        raise UsageError(f"--duty and {other} exclude each other", "give one of them")
    try:
        return Schedule(duty=parse_share(text))
    except ValidationError as error:
        raise _wrong_duty(words_of(error.errors()[0])) from error
    except ValueError as error:
        raise _wrong_duty(str(error)) from error


def _wrong_duty(words: str) -> UsageError:
    return UsageError(
        f"--duty: {words}", "give a share greater than 0, up to 1; or use --hours-per-day, --days-per-week"
    )


def _redundancy(text: str | None) -> Redundancy | None:
    try:
        return None if text is None else Redundancy.parse(text)
    except ValueError as error:
        raise UsageError(
            f"--redundancy: {error}", "8+2 means two parity drives for eight data drives"
        ) from error


_OPTIONS = {"retention_days": "retention", "link_speeds": "link", "compresses": "compressed_by"}


def _assumptions(**values: object) -> Assumptions:
    try:
        return Assumptions.model_validate(values)
    except ValidationError as error:
        raise UsageError(
            "\n".join(f"{_option_of(each)}: {words_of(each)}" for each in error.errors()),
            "`penstock plan --help` lists the ranges",
        ) from error


def _option_of(problem: Any) -> str:
    name = str(problem["loc"][0]) if problem["loc"] else ""
    name = _OPTIONS.get(name, name).removesuffix("_bytes_per_s").removesuffix("_bytes")
    return "--" + name.replace("_", "-")
