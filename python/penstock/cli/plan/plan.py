"""`penstock plan`"""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import ValidationError

from penstock.bench.judge.measured import measured_bandwidth
from penstock.bench.run.codec_speed import compressions
from penstock.cli import completion
from penstock.cli.common import (
    bandwidth_option,
    out,
    print_json,
    reports_errors,
    require_new,
    size_option,
)
from penstock.cli.detector_choice import CustomColumns, CustomRows, CustomType, choose_detector
from penstock.cli.plan.suitable import require_suitable
from penstock.cli.verbosity import progress, shows_progress
from penstock.files.space import write_document
from penstock.model import panels
from penstock.model.catalogue import Detector
from penstock.model.errors import UsageError
from penstock.model.plan.blocks import Redundancy, find_block
from penstock.model.plan.sizing import Assumptions, Compression, Order, Sizing, Wanted, size
from penstock.model.plans import Encoding
from penstock.model.problems import words_of
from penstock.model.units import parse_share
from penstock.programs.locate import blocks_folder
from penstock.report.sizing import sizing_markdown, sizing_view


@reports_errors
@shows_progress
def plan_command(
    detectors: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DETECTOR",
            help="Detector as NAME, COUNTxNAME or COUNTxNAME@HZ, such as 2xeiger2-16m@100. Its compression"
            " ratio and duty cycle may follow: eiger2-16m,ratio=8,duty=0.3. NAME is from `penstock"
            " detectors`, or custom with --rows, --columns, --type.",
            autocompletion=completion.detectors,
        ),
    ] = None,
    duty: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Duty cycle: share of the time with frames, above 0 to 1, or in percent, such as 30%."
            " [default: 1]",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None,
    hours_per_day: Annotated[
        float | None,
        typer.Option(
            metavar="HOURS",
            help="Hours with frames per day, above 0 to 24; sets the duty cycle instead of --duty.",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None,
    days_per_week: Annotated[
        float | None,
        typer.Option(
            metavar="DAYS",
            help="Days with frames per week, above 0 to 7; sets the duty cycle instead of --duty.",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None,
    headroom: Annotated[
        float,
        typer.Option(
            help="Headroom above the peak bandwidth, as a share of it, 0 to 100; 0.2 is 20 %.",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = 0.2,
    retention: Annotated[
        float,
        typer.Option(metavar="DAYS", help="Retention of data in days.", rich_help_panel=panels.ASSUMPTIONS),
    ] = 30.0,
    fill: Annotated[
        float,
        typer.Option(
            help="Maximum fill level of the storage, as a share of its capacity, 0 to 1.",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = 0.9,
    ratio: Annotated[
        float | None,
        typer.Option(
            help="Compression ratio of stored frames, 1 to 1000000, such as 8. [default: measured, or 1]",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None,
    encoding: Annotated[
        Encoding, typer.Option(help="Codec that compresses frames.", rich_help_panel=panels.ASSUMPTIONS)
    ] = "bslz4",
    codec_speed: Annotated[
        str | None,
        typer.Option(
            metavar="BANDWIDTH",
            help="Uncompressed bytes per second that one core compresses, such as 1.5GB/s. [default:"
            " measured]",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Measure compression ratio and speed: the recorder compresses simulated frames on this"
            " machine.",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = False,
    images: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="Image file or folder to measure compression with, instead of simulated frames. Repeatable.",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None,
    compressed_by: Annotated[
        Literal["recorder", "detector"],
        typer.Option(
            help="Where frames are compressed: recorder (requires cores) or detector (reduces network load).",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = "recorder",
    write: Annotated[
        str | None,
        typer.Option(
            metavar="BANDWIDTH",
            help="Additional write bandwidth, such as 1GB/s. [default: 0]",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None,
    read_factor: Annotated[
        float,
        typer.Option(
            help="Concurrent read bandwidth as a multiple of the write bandwidth, 0 to 1000.",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = 0.0,
    capacity: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Additional capacity, such as 100TB. [default: 0]",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BANDWIDTH",
            help="Speed of a network port. Repeatable. [default: 10, 25 and 100 Gb/s]",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None,
    link_efficiency: Annotated[
        float,
        typer.Option(help="Usable share of a port's speed, 0 to 1.", rich_help_panel=panels.ASSUMPTIONS),
    ] = 0.9,
    server_cores: Annotated[
        int,
        typer.Option(
            help="Number of cores of a recorder's server that compress.", rich_help_panel=panels.ASSUMPTIONS
        ),
    ] = 32,
    server_bandwidth: Annotated[
        str,
        typer.Option(
            metavar="BANDWIDTH",
            help="Network bandwidth of a recorder's server, in each direction.",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = "100Gb/s",
    redundancy: Annotated[
        str | None,
        typer.Option(
            metavar="DATA+PARITY",
            help="Redundancy as drives for data and parity: 8+2; 1+1 for two copies; none. [default: from"
            " --block]",
            rich_help_panel=panels.ASSUMPTIONS,
        ),
    ] = None,
    block: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Building block of the storage: a name that Tab completes, or a YAML file. Repeatable.",
            rich_help_panel=panels.BLOCKS,
            autocompletion=completion.blocks,
        ),
    ] = None,
    measured: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Document of a run on one block, whose measured bandwidth replaces the computed one."
            " Repeatable.",
            rich_help_panel=panels.BLOCKS,
        ),
    ] = None,
    rows: CustomRows = None,
    columns: CustomColumns = None,
    type_: CustomType = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the capacity plan as Markdown into this new file.",
            rich_help_panel=panels.OUTPUT,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=panels.OUTPUT)] = False,
) -> None:
    """Compute what detectors need: bandwidth, cores, links, servers, capacity and building blocks.

    Only --measure and --images measure anything, for some seconds, in a temporary folder.
    """
    assumptions = _assumptions(
        duty=_duty(duty, hours_per_day, days_per_week),
        headroom=headroom,
        retention_days=retention,
        fill=fill,
        write_bytes_per_s=bandwidth_option(write, "--write") if write is not None else 0.0,
        read_factor=read_factor,
        capacity_bytes=size_option(capacity, "--capacity") if capacity is not None else 0,
        compresses=compressed_by,
        link_efficiency=link_efficiency,
        server_cores=server_cores,
        server_bandwidth=bandwidth_option(server_bandwidth, "--server-bandwidth"),
        redundancy=_redundancy(redundancy),
        **({"link_speeds": [bandwidth_option(text, "--link") for text in link]} if link else {}),
    )
    if not detectors and not assumptions.write_bytes_per_s and not assumptions.capacity_bytes:
        raise UsageError(
            "no detector, --write or --capacity given", "name a detector from `penstock detectors`"
        )
    if measured and len(block or []) != 1:
        raise UsageError(
            f"--measured requires exactly one --block, {len(block or [])} given",
            "give the --block that was measured",
        )
    orders = [Order.parse(text) for text in detectors or []]
    chosen = _chosen(orders, rows, columns, type_)
    blocks = [find_block(name, blocks_folder()) for name in block or []]
    warnings = require_suitable(measured) if measured else []
    bandwidth = measured_bandwidth(measured) if measured else None
    require_new(markdown, "--markdown")
    speed = bandwidth_option(codec_speed, "--codec-speed") if codec_speed is not None else None
    with progress() as view:
        found = compressions(
            [detector for detector, _ in chosen], encoding, ratio, speed, measure, images or [], view.say
        )
    wanted = [
        Wanted(
            detector=detector,
            count=order.count,
            rate_hz=rate,
            duty=order.duty,
            compression=_own_ratio(order, compression, encoding, speed),
        )
        for order, (detector, rate), compression in zip(orders, chosen, found, strict=True)
    ]
    sizing = size(wanted, assumptions, blocks, bandwidth)
    _show(sizing.model_copy(update={"notes": [*sizing.notes, *warnings]}), markdown, json)


def _own_ratio(order: Order, common: Compression, encoding: Encoding, speed: float | None) -> Compression:
    """Returns the compression of a detector, with the ratio that its argument states."""
    if order.ratio is None:
        return common
    if encoding == "none":
        raise UsageError(
            f"{order.name}: ratio={order.ratio:g} requires compression, but --encoding is none",
            "leave out one of them",
        )
    if common.encoding == "none":
        common = Compression(encoding=encoding, speed_bytes_per_s=speed, speed_from="stated" if speed else "")
    return common.model_copy(update={"ratio": order.ratio, "ratio_from": "stated", "simulated": False})


def _show(sizing: Sizing, markdown: Path | None, json: bool) -> None:
    if markdown is not None:
        write_document(markdown, sizing_markdown(sizing))
    if json:
        print_json(sizing)
    else:
        out().print(sizing_view(sizing))


def _chosen(
    orders: list[Order], rows: int | None, columns: int | None, kind: str | None
) -> list[tuple[Detector, float]]:
    """Returns each detector with its rate. The shape is that of the custom one."""
    sized = (rows, columns, kind)
    if sized != (None, None, None) and not any(order.name == "custom" for order in orders):
        raise UsageError(
            "--rows, --columns and --type require the detector `custom`",
            "write `penstock plan 2xcustom@100 --rows …`",
        )
    found = []
    for order in orders:
        detector = choose_detector("plan", order.name, *(sized if order.name == "custom" else (None,) * 3))
        rate = order.rate_hz or detector.rate_hz
        if rate <= 0:
            raise UsageError(f"the rate of {detector.name} is unknown", f"give it: {order.name}@HZ")
        found.append((detector, rate))
    return found


def _duty(text: str | None, hours: float | None, days: float | None) -> float:
    """Returns the duty cycle that --duty states, or that follows from hours and days."""
    if text is None:
        return _part("--hours-per-day", hours, 24) * _part("--days-per-week", days, 7)
    if hours is not None or days is not None:
        other = "--hours-per-day" if hours is not None else "--days-per-week"
        raise UsageError(f"--duty and {other} exclude each other", "give one of them")
    try:
        return parse_share(text)
    except ValueError as error:
        raise UsageError(
            f"--duty: {error}",
            "give a share greater than 0, up to 1; or use --hours-per-day, --days-per-week",
        ) from error


def _part(option: str, value: float | None, whole: int) -> float:
    if value is None:
        return 1.0
    if not 0 < value <= whole:
        raise UsageError(f"{option}: {value:g} is out of range", f"give more than 0, at most {whole}")
    return value / whole


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
