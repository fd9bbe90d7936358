"""The machine, and where a recorder's threads and memory would be, as tables."""

from rich.markup import escape
from rich.table import Table

from penstock.model.events import Placement
from penstock.model.units import format_size, human_bytes
from penstock.report.tables import fact_table


def placement_tables(placement: Placement) -> list[Table]:
    return [_machine(placement), _threads(placement), _memory(placement)]


def _machine(placement: Placement) -> Table:
    machine = placement.machine
    rows = {
        "processors": machine.cpus,
        "for this process": machine.allowed,
        "cores": f"{len(machine.cores)}: " + " ".join(machine.cores),
    }
    for node in machine.nodes:
        rows[f"NUMA node {node.node}"] = (
            f"processors {node.cpus or 'none'}, {human_bytes(node.memory_bytes)} of memory"
        )
    transparent = machine.transparent_huge_pages or "none"
    rows["huge pages"] = f"transparent: {transparent}; set aside and free: {machine.free_huge_pages}"
    return fact_table(rows)


def _threads(placement: Placement) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("threads", "how many", "processors", "NUMA nodes", ""):
        table.add_column(title)
    for place in placement.threads:
        why = "" if place.chosen else "not pinned"
        table.add_row(place.role, escape(place.threads), place.cpus, place.nodes, why)
    return table


def _memory(placement: Placement) -> Table:
    memory = placement.memory
    receive = next((place.nodes for place in placement.threads if place.role == "receive"), "")
    rows = {
        "pool": f"{format_size(memory.pool_bytes)}: {format_size(memory.frame_bytes)} for frames,"
        f" {format_size(memory.segment_bytes_a_series)} for the segments of each open series",
        "on": f"the NUMA node of the thread that fills it first: frames on {receive or '?'}",
        "pages": memory.huge_pages,
        "warning": memory.trouble or "",
    }
    return fact_table(rows)
