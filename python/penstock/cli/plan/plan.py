"""`penstock plan`"""

from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import ValidationError

from penstock.bench.judge.measured import measured_bandwidth
from penstock.bench.run.codec_speed import compressions
from penstock.cli.common import (
    bandwidth_option,
    err,
    out,
    print_json,
    reports_errors,
    require_new,
    size_option,
)
from penstock.cli.detector_choice import CustomColumns, CustomRows, CustomType, choose_detector
from penstock.files.space import write_document
from penstock.model.catalogue import Detector
from penstock.model.errors import UsageError
from penstock.model.plan.blocks import Redundancy, find_block
from penstock.model.plan.sizing import Assumptions, Order, Sizing, Wanted, size
from penstock.model.plans import Encoding
from penstock.model.problems import words_of
from penstock.programs.locate import blocks_folder
from penstock.report.progress import ProgressView
from penstock.report.sizing import sizing_markdown, sizing_view


@reports_errors
def plan_command(
    detectors: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DETECTOR",
            help="NAME, COUNTxNAME or COUNTxNAME@HZ: names from `penstock detectors`, or custom with --rows,"
            " --columns, --type.",
        ),
    ] = None,
    duty: Annotated[float, typer.Option(help="Share of the time in which frames come, 0 to 1.")] = 1.0,
    headroom: Annotated[float, typer.Option(help="Beyond the peak, as a share of it.")] = 0.2,
    retention: Annotated[float, typer.Option(metavar="DAYS", help="How long data stays.")] = 30.0,
    fill: Annotated[float, typer.Option(help="Share of the capacity that is ever used, 0 to 1.")] = 0.9,
    ratio: Annotated[
        float | None, typer.Option(help="Frames are so many times smaller when they are stored.")
    ] = None,
    encoding: Annotated[Encoding, typer.Option(help="That compresses.")] = "bslz4",
    codec_speed: Annotated[
        str | None, typer.Option(metavar="BANDWIDTH", help="Raw bytes that a core compresses, as 1.5GB/s.")
    ] = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure", help="Find out ratio and speed: the recorder compresses simulated frames here."
        ),
    ] = False,
    images: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="As --measure, with these images, or a folder's; repeatable."),
    ] = None,
    compressed_by: Annotated[
        Literal["recorder", "detector"], typer.Option(help="Whose cores, and what links carry.")
    ] = "recorder",
    write: Annotated[
        str | None, typer.Option(metavar="BANDWIDTH", help="Stored besides what the detectors give.")
    ] = None,
    read_factor: Annotated[float, typer.Option(help="Read at the same time, times what is written.")] = 0.0,
    capacity: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Held besides what comes in and stays.")
    ] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(metavar="BANDWIDTH", help="Of a port, repeatable. [default: 10, 25 and 100 Gb/s]"),
    ] = None,
    link_efficiency: Annotated[float, typer.Option(help="Share of a port's speed that is to be had.")] = 0.9,
    server_cores: Annotated[int, typer.Option(help="Of a recorder's server, that compress.")] = 32,
    server_bandwidth: Annotated[
        str, typer.Option(metavar="BANDWIDTH", help="Of a recorder's server, each way.")
    ] = "100Gb/s",
    redundancy: Annotated[
        str | None,
        typer.Option(metavar="DATA+PARITY", help="8+2; 1+1 for two copies; none. [default: the block's]"),
    ] = None,
    block: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A building block: of blocks/, or a YAML file; repeatable."),
    ] = None,
    measured: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Documents of runs on one block: measured instead of computed; repeatable."
        ),
    ] = None,
    rows: CustomRows = None,
    columns: CustomColumns = None,
    type_: CustomType = None,
    markdown: Annotated[Path | None, typer.Option(help="Write it into this file, as Markdown.")] = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON, for machines.")] = False,
) -> None:
    """What detectors need before storage is bought: bandwidth, cores, links, servers, capacity, blocks.

    It computes; only --measure and --images measure, for some seconds, in a temporary folder.
    """
    assumptions = _assumptions(
        duty=duty,
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
            "nothing is asked for", "name a detector (`penstock detectors`), or give --write or --capacity"
        )
    if measured and len(block or []) != 1:
        raise UsageError(
            "--measured is of one block, which needs a description", "give one --block beside it"
        )
    orders = [Order.parse(text) for text in detectors or []]
    chosen = _chosen(orders, rows, columns, type_)
    blocks = [find_block(name, blocks_folder()) for name in block or []]
    bandwidth = measured_bandwidth(measured) if measured else None
    require_new(markdown, "--markdown")
    speed = bandwidth_option(codec_speed, "--codec-speed") if codec_speed is not None else None
    with ProgressView(err()) as view:
        found = compressions(
            [detector for detector, _ in chosen], encoding, ratio, speed, measure, images or [], view.say
        )
    wanted = [
        Wanted(detector=detector, count=order.count, rate_hz=rate, compression=compression)
        for order, (detector, rate), compression in zip(orders, chosen, found, strict=True)
    ]
    _show(size(wanted, assumptions, blocks, bandwidth), markdown, json)


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
    """Each with its rate. Sizes are for the custom one among them."""
    sized = (rows, columns, kind)
    if sized != (None, None, None) and not any(order.name == "custom" for order in orders):
        raise UsageError(
            "--rows, --columns and --type are for a custom detector", "penstock plan 2xcustom@100 --rows …"
        )
    found = []
    for order in orders:
        detector = choose_detector("plan", order.name, *(sized if order.name == "custom" else (None,) * 3))
        rate = order.rate_hz or detector.rate_hz
        if rate <= 0:
            raise UsageError(f"the rate of {detector.name} is not known", f"give one: {order.name}@HZ")
        found.append((detector, rate))
    return found


def _redundancy(text: str | None) -> Redundancy | None:
    try:
        return None if text is None else Redundancy.parse(text)
    except ValueError as error:
        raise UsageError(f"--redundancy: {error}", "8+2 is two drives' worth of parity for eight") from error


_OPTIONS = {"retention_days": "retention", "link_speeds": "link", "compresses": "compressed_by"}


def _assumptions(**values: object) -> Assumptions:
    try:
        return Assumptions.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        option = "--" + _OPTIONS.get(name, name).removesuffix("_bytes_per_s").removesuffix("_bytes")
        raise UsageError(
            f"{option.replace('_', '-')}: {words_of(first)} (given: {first['input']!r})",
            "`penstock plan --help`",
        ) from error
