"""What a laboratory is to be, as the command asks for it."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

SERVERS_MAX, CLIENTS_MAX = 32, 32


class LabRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    system: str
    servers: int = Field(ge=1, le=SERVERS_MAX)
    clients: int = Field(1, ge=1, le=CLIENTS_MAX)
    disks: str = "loop"
    link_bytes_per_s: float | None = Field(None, gt=0, allow_inf_nan=False)
    disk_bytes_per_s: float | None = Field(None, gt=0, allow_inf_nan=False)
    """of each server's disk, in each direction; None: no limit"""
    server_cpus: float | None = Field(None, ge=0.01, le=8192, allow_inf_nan=False)
    """of each server; None: no limit"""
    server_memory_bytes: int | None = Field(None, ge=16 << 20)
    options: dict[str, str] = {}
    """of the system"""
    folder: Path
    """of the disks; it is made"""
    held: bool = False
    """It ends with the command that asked for it, also after it is up."""


class NodeState(BaseModel):
    name: str
    address: str
    processes: int
    state: str
    """`up`, `failed`, `stalled` or `slow`"""
    mount: str = ""
    """of a client"""
    cpu_s: float | None = None
    memory_bytes: int | None = None


class LabState(BaseModel):
    """What a supervisor answers."""

    name: str
    system: str
    title: str
    state: str
    """`starting` or `up`; `does not answer`; `left behind` by a killed supervisor, not removable"""
    mount: str = ""
    """mount point of the first client; empty for a system without one"""
    url: str = ""
    """as the clients' networks have it; empty for a system that is only mounted"""
    environment: dict[str, str] = {}
    """variables that clients of its protocol need, such as keys; set for commands on a client"""
    up_s: float | None = None
    """from the request to the first byte read back"""
    size_bytes: int = 0
    """of the first client's file system; 0: unknown, or not mounted"""
    free_bytes: int = 0
    """free when it came up"""
    since: str = ""
    nodes: list[NodeState] = []
    failures_max: int = 0
    """servers that may be away at once, with its servers and options, while it stays in service"""
    problem: str = ""
