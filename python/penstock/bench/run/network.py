"""A measurement of the network: the plan, the two ends, the link between them, the run."""

import ipaddress
import json
import secrets
import socket
import subprocess
from pathlib import Path

from pydantic import ValidationError

from penstock.bench.judge.checks import validity_of
from penstock.bench.judge.clock import ClockWatch, clock_checks
from penstock.bench.judge.conditions import conditions_of_machine
from penstock.bench.judge.network_checks import network_checks
from penstock.bench.option_words import impossible_value
from penstock.bench.run.run import Telling
from penstock.bench.statistics.cost import processor_cost
from penstock.bench.statistics.network_figures import network_figures
from penstock.model.bench.load import LoadPlan, NullBackend
from penstock.model.bench.network import NetworkServerWorkload, NetworkWorkload
from penstock.model.bench.runs import Run
from penstock.model.errors import UsageError
from penstock.programs.load import load
from penstock.programs.network import OtherEnd

_INTERFACES = Path("/sys/class/net")
_LOOK_UP_S = 10


def network_workload(**fields: object) -> NetworkWorkload:
    """A UsageError names the value that is not possible."""
    try:
        return NetworkWorkload.model_validate(fields)
    except ValidationError as error:
        raise _usage(error) from error


def server_workload(**fields: object) -> NetworkServerWorkload:
    try:
        return NetworkServerWorkload.model_validate(fields)
    except ValidationError as error:
        raise _usage(error) from error


def _usage(error: ValidationError) -> UsageError:
    return impossible_value(error)


def seconds_of(workload: NetworkWorkload) -> float:
    return len(workload.transfers) * workload.seconds + len(set(workload.echo_bytes)) * workload.echo_seconds


def run_network(workload: NetworkWorkload, telling: Telling, link_bytes_per_s: float | None = None) -> Run:
    """Against the end that listens at the workload's address. `link_bytes_per_s` is what the user says."""
    interface = interface_to(workload.host)
    link = link_bytes_per_s if link_bytes_per_s is not None else link_speed(interface)
    plan = LoadPlan(backend=NullBackend(), workload=workload)
    clocks = ClockWatch()
    document = load(plan, telling.progress, telling.log)
    clock, figures = clocks.seen(), network_figures(document, interface, link)
    checks = [*network_checks(document, figures), *clock_checks(clock)]
    return Run(
        workload="network",
        target=f"tcp://{workload.host}:{workload.port}",
        conditions=conditions_of_machine(),
        validity=validity_of(checks),
        checks=checks,
        network=figures,
        cost=processor_cost(document),
        clock=clock,
        document=document,
    )


def run_local(workload: NetworkWorkload, telling: Telling, link_bytes_per_s: float | None = None) -> Run:
    """Both ends on this machine: a second process, on loopback, which nobody else can use."""
    token = secrets.token_hex()
    server = NetworkServerWorkload(host="127.0.0.1", port=0, token=token, sessions=1, cpus=workload.cpus)
    with OtherEnd(server) as other:
        here = workload.model_copy(update={"host": "127.0.0.1", "port": other.port, "token": token})
        return run_network(here, telling, link_bytes_per_s)


def interface_to(host: str) -> str:
    """The interface of the route to `host`, as `ip` tells; empty where it is not known."""
    try:
        address = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)[0][4][0]
        found = subprocess.run(
            ["ip", "-json", "route", "get", str(ipaddress.ip_address(address))],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_LOOK_UP_S,
            check=True,
        )
        return str(json.loads(found.stdout)[0].get("dev", ""))
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return ""


def link_speed(interface: str, folder: Path = _INTERFACES) -> float | None:
    """Bytes a second that the interface's driver tells; None where it does not."""
    if not interface or "/" in interface or interface.startswith("."):
        return None
    try:
        megabits = int((folder / interface / "speed").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return megabits * 1e6 / 8 if megabits > 0 else None
