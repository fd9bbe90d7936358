"""`penstock bench network`"""

import os
from pathlib import Path
from typing import Annotated

import typer

from penstock.bench.run.network import network_workload, run_local, run_network, server_workload
from penstock.bench.statistics.profile import profiled
from penstock.cli.bench.running import DryRun, Json, Output, ProfileOption, Yes, finish, may_go_on, telling
from penstock.cli.common import err, print_json, reports_errors, require_new, size_option
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
from penstock.report.network import network_plan_view, server_line
from penstock.report.progress import ProgressView


@reports_errors
def network_command(
    target: Annotated[
        str | None, typer.Argument(help="HOST or HOST:PORT, where the other end listens.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Be the other end, at an address or a network interface of this machine, with :PORT or"
            f" without. [default: port {NETWORK_PORT}]",
        ),
    ] = None,
    local: Annotated[
        bool,
        typer.Option("--local", help="Start the other end here too: what this machine can do by itself."),
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"The token that both ends share; otherwise the variable {TOKEN_VARIABLE}. Needed beyond"
            " loopback.",
        ),
    ] = None,
    streams: Annotated[int, typer.Option(min=1, max=64, help="Connections, a thread each way each.")] = 1,
    message: Annotated[str, typer.Option(metavar="SIZE", help="Of one call, in a transfer.")] = "128KiB",
    seconds: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Of each transfer: there, back, both at once.")
    ] = 10.0,
    latency: Annotated[
        str, typer.Option(metavar="SIZES", help="Messages that go there and back; empty: none.")
    ] = "8B,64B,1KiB,8KiB,64KiB,1MiB",
    latency_seconds: Annotated[float, typer.Option(min=0.1, max=3600, help="For each of these sizes.")] = 2.0,
    cpus: Annotated[
        str | None, typer.Option(metavar="LIST", help="Bind the threads to these processors, as in 0,2-3.")
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(
            metavar="SPEED", help="Of the link, as in 10Gb. [default: what the interface's driver tells]"
        ),
    ] = None,
    sessions: Annotated[
        int, typer.Option(min=0, help="With --listen: end after so many measurements; 0: go on.")
    ] = 0,
    for_seconds: Annotated[
        float,
        typer.Option(
            "--seconds-max", min=0, metavar="SECONDS", help="With --listen: end after this; 0: go on."
        ),
    ] = 0.0,
    profile: ProfileOption = False,
    output: Output = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Measure latency and bandwidth between two machines, one way and both ways at once.

    Start it with --listen on one machine, and with that machine's address on the other one. Nothing is
    stored. The run is `valid`, `warned` or `invalid`, as with other workloads.
    """
    if sum((target is not None, listen is not None, local)) != 1:
        raise UsageError(
            "one of HOST, --listen and --local is needed", "for example: penstock bench network --local"
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
    err().print(network_plan_view(workload, where))
    if dry_run:
        return
    may_go_on(yes)
    measure = run_local if local else run_network
    with ProgressView(err()) as view:
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
        err().print(f"would listen on {host}, port {port}", markup=False)
        return
    with ProgressView(err()) as view:
        document = serve(workload, lambda event: view.say(server_line(event)), view.say)
    if json and document.network_server is not None:
        print_json(document.network_server)
