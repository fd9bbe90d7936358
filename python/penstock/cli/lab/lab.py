"""`penstock lab`: storage systems on this machine, up and down."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

import typer
from rich.markup import escape
from rich.table import Table

from penstock.bench.data.folder import RESERVE_SHARE, ROOM_SHARE, SPACE_BYTES
from penstock.cli.common import (
    out,
    print_json,
    reports_errors,
    warn,
)
from penstock.cli.lab.lab_options import LabOptions
from penstock.cli.lab.names import Json, LabName
from penstock.cli.option_table import DataclassTable, command_of
from penstock.lab.control import (
    bring_up,
    held,
    laboratories,
    state_of,
    take_down,
)
from penstock.lab.disks import Disks, growth_warning
from penstock.lab.ground import GROUND
from penstock.lab.on_client import run_on
from penstock.lab.packages import Missing, install, missing, require_root
from penstock.lab.place import place_of, places
from penstock.lab.request import LabRequest, LabState
from penstock.lab.system import System
from penstock.lab.systems.all import SYSTEMS, system_named
from penstock.model import panels
from penstock.model.errors import ExitCode, PenstockError, UsageError
from penstock.model.text import counted
from penstock.model.units import human_seconds, human_size, size_within

# What a verdict on PILATUS 6M, of frames of 25 MB, needs at least with one writer and with four.
_ONE_WRITER_BYTES_MIN, _FOUR_WRITERS_BYTES_MIN = 150 * 10**6, 600 * 10**6


@dataclass(frozen=True)
class _Output:
    json: Json = False


def _up(options: LabOptions, output: _Output) -> None:
    """Bring up a storage system on this machine, from its packages.

    Servers and clients run in separate network namespaces and control groups. Nothing of this machine's
    configuration is changed, and `penstock lab down` removes everything. Without root, they run in a user
    namespace: `penstock lab doctor` shows for which systems that is enough.
    """
    request = options.request()
    state = bring_up(request)
    _warn_of_growth(request)
    if output.json:
        print_json(state)
        return
    console = out()
    console.print(
        f"{state.title} is up after {human_seconds(state.up_s or 0)}: {counted(request.servers, 'server')},"
        f" {counted(request.clients, 'client')}",
        markup=False,
    )
    where = state.mount or state.url
    console.print(f"{'mounted at' if state.mount else 'URL'}: {where}", markup=False, soft_wrap=True)
    _show_environment(state)
    console.print(f"next: penstock {_next_command(state)}", markup=False, soft_wrap=True)
    console.print(f"end:  penstock lab down {state.name}", markup=False, soft_wrap=True)


def _warn_of_growth(request: LabRequest) -> None:
    if warning := growth_warning(Disks.parse(request.disks), request.servers, request.folder):
        warn(warning)


def _next_command(state: LabState) -> str:
    """A verdict whose files fit on the disks that were made."""
    if not state.mount:
        return f"lab exec {state.name} -- COMMAND"
    free = state.free_bytes - int(state.size_bytes * RESERVE_SHARE)
    space = math.floor(ROOM_SHARE * free)
    if state.size_bytes == 0 or space >= SPACE_BYTES:
        return f"verdict pilatus-6m lab:{state.name}"
    if space < _ONE_WRITER_BYTES_MIN:
        return f"describe lab:{state.name}"
    writers = " --writers 1" if space < _FOUR_WRITERS_BYTES_MIN else ""
    value = size_within(space).replace(" ", "")
    return f"verdict pilatus-6m lab:{state.name} --space {value}{writers}"


up_command = reports_errors(command_of(_up, DataclassTable(LabOptions), DataclassTable(_Output)))


@reports_errors
def down_command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Name of the laboratory.",
            autocompletion=lambda: [place.name for place in places()],
            show_default=False,
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Take down all laboratories.", rich_help_panel=panels.SELECTION)
    ] = False,
) -> None:
    """Take a laboratory down, with its data: processes, mounts, devices, namespaces and files."""
    if (name is None) == (not every):
        raise UsageError("NAME or --all is required, and not both", "`penstock lab list` shows the names")
    for each in [place.name for place in places()] if every else [name or ""]:
        take_down(each)
        out().print(f"{each} is down", markup=False)


@reports_errors
def list_command(json: Json = False) -> None:
    """List laboratories that are up. Removes what killed ones left behind."""
    found = laboratories()
    if json:
        print_json([each.model_dump(mode="json") for each in found])
        return
    if not found:
        out().print("no laboratory is up; `penstock lab up SYSTEM` brings one up")
        return
    table = Table("name", "system", "state", "servers", "clients", "since", "mount point or URL", box=None)
    for each in found:
        counts = [sum(node.name.startswith(kind) for node in each.nodes) for kind in ("server", "client")]
        table.add_row(
            each.name,
            each.title,
            each.state,
            *map(str, counts),
            each.since,
            escape(each.mount or each.url or each.problem),
        )
    out().print(table)


@reports_errors
def status_command(name: LabName, json: Json = False) -> None:
    """Show servers and clients of a laboratory: state, processes, processor time and memory."""
    state = state_of(place_of(name))
    if json:
        print_json(state)
        return
    console = out()
    console.print(f"{state.name}: {state.title}, {state.state} since {state.since}", markup=False)
    table = Table(
        "node", "state", "address", "processes", "processor time", "memory", "mount point", box=None
    )
    for node in state.nodes:
        table.add_row(
            node.name,
            node.state,
            node.address,
            str(node.processes),
            "" if node.cpu_s is None else human_seconds(node.cpu_s),
            "" if node.memory_bytes is None else human_size(node.memory_bytes),
            node.mount,
        )
    console.print(table)
    _show_environment(state)


def _show_environment(state: LabState) -> None:
    for name, value in state.environment.items():
        out().print(f"{name}={value}", markup=False, soft_wrap=True)


@reports_errors
def logs_command(
    name: LabName,
    node: Annotated[
        str | None,
        typer.Argument(metavar="NODE", help="Only of this node, such as server-2.", show_default=False),
    ] = None,
    lines: Annotated[
        int, typer.Option(min=1, help="Last lines of each log.", rich_help_panel=panels.OUTPUT)
    ] = 40,
) -> None:
    """Show the last lines of the daemons' logs."""
    place = place_of(name)
    if not place.folder.is_dir():
        state_of(place)
    files = sorted([*place.folder.glob("*.log"), *place.folder.glob("*/*.log")])
    wanted = [file for file in files if node is None or file.parent.name == node]
    if not wanted:
        raise UsageError(f"laboratory {name} has no log of {node}", "`penstock lab status` shows its nodes")
    for file in wanted:
        text = file.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
        out().print(f"--- {file}", *text, sep="\n", markup=False, soft_wrap=True)


@reports_errors
def exec_command(
    name: LabName,
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="Command with its arguments.")],
    client: Annotated[
        int, typer.Option(min=1, help="Number of the client.", rich_help_panel=panels.SELECTION)
    ] = 1,
) -> None:
    """Run a command with the network of a client, so that it reaches the servers."""
    state = state_of(place_of(name))
    raise typer.Exit(run_on(state, client, command))


@dataclass(frozen=True)
class _Command:
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="Command with its arguments.")]


def _run(options: LabOptions, of_user: _Command) -> None:
    """Bring a storage system up, run a command on it, and take it down, however the command ends.

    The command finds the mount point in PENSTOCK_LAB_MOUNT, the URL in PENSTOCK_LAB_URL and the name in
    PENSTOCK_LAB_NAME; for S3, the keys in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. The exit code is the
    command's.
    """
    request = options.request()
    with held(request) as state:
        _warn_of_growth(request)
        code = run_on(state, 1, of_user.command)
    raise typer.Exit(code)


run_command = reports_errors(command_of(_run, DataclassTable(LabOptions), DataclassTable(_Command)))


@reports_errors
def doctor_command(
    systems: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SYSTEM",
            help="Only these. [default: all]",
            autocompletion=lambda: list(SYSTEMS),
            show_default=False,
        ),
    ] = None,
    install_them: Annotated[
        bool,
        typer.Option(
            "--install",
            help="Install what is missing: packages with apt, Hadoop with Maven.",
            rich_help_panel=panels.RUN,
        ),
    ] = False,
) -> None:
    """Show which systems can be brought up here, and the command that installs missing ones.

    Exit code 1: a system cannot be brought up.
    """
    kinds = [system_named(each) for each in systems or SYSTEMS]
    if install_them:
        possible = [kind for kind in kinds if not missing(kind).kernel]
        packages = sorted({package for kind in possible for package in missing(kind).packages})
        if packages:
            require_root(packages)
            if disabled := install(packages):
                units = ", ".join(disabled)
                out().print(f"disabled, because a laboratory starts its own: {units}", markup=False)
        for kind in possible:
            if missing(kind).besides:
                kind.install()
    table = Table("system", "state", "missing", "requires root", "options", box=None)
    incomplete = []
    for kind in kinds:
        found = missing(kind)
        if not found.is_complete:
            incomplete.append(kind)
        lacks = _of_kernel(kind, found.kernel) if found.kernel else _how_to_install(kind, found)
        need = GROUND.need_of(kind)
        state = "requires root" if found.is_complete and need else "ready" if found.is_complete else "missing"
        table.add_row(kind.NAME, state, lacks, need or kind.NEEDS_ROOT or "no", _options_text(kind))
    out().print(table)
    if incomplete:
        installable = " ".join(kind.NAME for kind in incomplete if not missing(kind).kernel)
        if not systems:
            _list_incomplete(len(incomplete), installable)
        raise PenstockError(
            f"{counted(len(incomplete), 'system')} cannot be brought up here",
            f"penstock lab doctor {installable} --install"
            if installable
            else "use another system, or a kernel that has it",
        )


def _list_incomplete(number: int, installable: str) -> NoReturn:
    """Ends a list of all systems, of which a user may not want each."""
    out().print(f"not ready here: {counted(number, 'system')}", markup=False)
    if installable:
        text = f"to install what is missing: penstock lab doctor {installable} --install"
        out().print(text, markup=False, soft_wrap=True)
    raise typer.Exit(int(ExitCode.FAILED))


def _how_to_install(kind: type[System[Any]], found: Missing) -> str:
    """Returns the command; empty: nothing is missing."""
    return f"{found.besides}: penstock lab doctor {kind.NAME} --install" if found.besides else found.command


def _of_kernel(kind: type[System[Any]], lacks: str) -> str:
    return f"this kernel has no {lacks}" + (f": {kind.INSTEAD}" if kind.INSTEAD else "")


def _options_text(kind: Any) -> str:
    """As `--option` takes them; one without a default has no value."""
    fields = kind.OPTIONS.model_fields.items()
    return ", ".join(
        name if field.default is None else f"{name}={_as_option(field.default)}" for name, field in fields
    )


def _as_option(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
