"""`penstock bench network`"""

import os
from pathlib import Path
from typing import Annotated

import typer

from penstock.bench.run.network import network_workload, run_local, run_network, server_workload
from penstock.bench.statistics.profile import profiled
from penstock.cli.bench.running import DryRun, Json, Output, ProfileOption, Yes, finish, may_go_on, telling
from penstock.cli.common import print_json, reports_errors, require_new, size_option
from penstock.cli.verbosity import progress, show_plan, shows_progress
from penstock.model import panels
from penstock.model.bench.network import (
    NETWORK_PORT,
    NetworkWorkload,
    listening_token,
    parse_address,
    parse_cpus,
    parse_link,
)
from penstock.model.configuration import TOKEN_VARIABLE, read_token
from penstock.model.errors import UsageError
from penstock.programs.network import serve
from penstock.report.network import network_plan_rows, server_line


@reports_errors
@shows_progress
def network_command(
    target: Annotated[
        str | None, typer.Argument(help="Address of the other end, which listens: HOST or HOST:PORT.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Listen as the other end, at an address or a network interface of this machine, optionally"
            f" with :PORT. [default port: {NETWORK_PORT}]",
            rich_help_panel=panels.CONNECTION,
        ),
    ] = None,
    local: Annotated[
        bool,
        typer.Option(
            "--local",
            help="Start the other end on this machine, too, to measure its own limit.",
            rich_help_panel=panels.CONNECTION,
        ),
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"File with the token that both ends share; otherwise the variable {TOKEN_VARIABLE}."
            " Required except on loopback.",
            rich_help_panel=panels.CONNECTION,
        ),
    ] = None,
    streams: Annotated[
        int,
        typer.Option(
            min=1,
            max=64,
            help="Number of connections, each with one thread per direction.",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = 1,
    message: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="Size of one send or receive call in a transfer.",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = "128KiB",
    seconds: Annotated[
        float,
        typer.Option(
            min=0.1,
            max=3600,
            help="Duration in seconds of each transfer: to the other end, back, and both at once.",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = 10.0,
    latency: Annotated[
        str,
        typer.Option(
            metavar="SIZES",
            help="Message sizes for round-trip latency; an empty text measures none.",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = "8B,64B,1KiB,8KiB,64KiB,1MiB",
    latency_seconds: Annotated[
        float,
        typer.Option(
            min=0.1,
            max=3600,
            help="Duration in seconds of the latency measurement for each message size.",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = 2.0,
    cpus: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Processors to bind the threads to, such as 0,2-3. [default: not bound]",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(
            metavar="SPEED",
            help="Speed of the link, such as 10Gb. [default: as reported by the interface's driver]",
            rich_help_panel=panels.WORKLOAD,
        ),
    ] = None,
    sessions: Annotated[
        int,
        typer.Option(
            min=0,
            help="With --listen: exit after this many measurements; 0: no limit.",
            rich_help_panel=panels.RUN,
        ),
    ] = 0,
    for_seconds: Annotated[
        float,
        typer.Option(
            "--seconds-max",
            min=0,
            metavar="SECONDS",
            help="With --listen: exit after this many seconds; 0: no limit.",
            rich_help_panel=panels.RUN,
        ),
    ] = 0.0,
    profile: ProfileOption = False,
    output: Output = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Measure latency and bandwidth between two machines, one way and both ways at once.

    Start it with --listen on one machine, then with that machine's address on the other one. Nothing is
    stored. The run is `valid`, `warned` or `invalid`, as with other workloads.
    """
    if sum((target is not None, listen is not None, local)) != 1:
        raise UsageError(
            "exactly one of HOST, --listen and --local is required",
            "for example: penstock bench network --local",
        )
    bound = parse_cpus(cpus) if cpus is not None else []
    if listen is not None:
        _serve(listen, token_file, sessions, for_seconds, bound, dry_run, json)
        return
    host, port = parse_address(target) if target is not None else ("127.0.0.1", NETWORK_PORT)
    workload = network_workload(
        host=host,
        port=port,
        token=None if local else read_token(token_file, os.environ),
        streams=streams,
        message_bytes=size_option(message, "--message"),
        seconds=seconds,
        echo_bytes=[size_option(size, "--latency") for size in latency.split(",") if size.strip()],
        echo_seconds=latency_seconds,
        cpus=bound,
    )
    speed = parse_link(link) if link is not None else None
    require_new(output)
    _measure(workload, local, speed, profile, output, yes, dry_run, json)


def _measure(
    workload: NetworkWorkload,
    local: bool,
    link_bytes_per_s: float | None,
    profile: bool,
    output: Path | None,
    yes: bool,
    dry_run: bool,
    json: bool,
) -> None:
    where = "a second process on this machine" if local else f"{workload.host}, port {workload.port}"
    show_plan(network_plan_rows(workload, where), dry_run=dry_run, json=json)
    if dry_run:
        return
    may_go_on(yes)
    measure = run_local if local else run_network
    with progress() as view:
        run = profiled(profile, lambda: measure(workload, telling(view), link_bytes_per_s), view.say)
    finish(run, output, json)


def _serve(
    listen: str,
    token_file: Path | None,
    sessions: int,
    for_seconds: float,
    cpus: list[int],
    dry_run: bool,
    json: bool,
) -> None:
    host, port = parse_address(listen)
    workload = server_workload(
        host=host,
        port=port,
        token=listening_token(host, token_file),
        sessions=sessions,
        seconds_max=for_seconds,
        cpus=cpus,
    )
    if dry_run:
        show_plan({"listens on": f"{host}, port {port}"}, dry_run=True, json=json)
        return
    with progress() as view:
        document = serve(workload, lambda event: view.say(server_line(event)), view.say)
    if json and document.network_server is not None:
        print_json(document.network_server)
