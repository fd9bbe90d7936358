"""The plans of the two ends of a network workload, and how links and addresses are written."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.model.configuration import TOKEN_VARIABLE, read_token
from penstock.model.errors import UsageError
from penstock.model.plans import MIB, Plan
from penstock.model.units import is_loopback, split_address

NETWORK_PORT = 9920
MESSAGE_BYTES_MAX = 16 * MIB
Pattern = Literal["echo", "up", "down", "both"]
Transfer = Literal["up", "down", "both"]
_LINK = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[MGT])(?:b|bit)(?:/s|ps)?")
_BITS_PER_S = {"M": 1e6, "G": 1e9, "T": 1e12}


class NetworkWorkload(Plan):
    """One end of a measurement of the network; the other one is a program with a network_server workload."""

    kind: Literal["network"] = "network"
    host: str = Field(description="host at which the other end listens")
    port: int = Field(ge=1, le=65535)
    token: str | None = Field(None, description="token that the other end requires; hidden in the document")
    streams: int = Field(1, ge=1, le=64, description="number of connections of a transfer")
    message_bytes: int = Field(
        131072, ge=1, le=MESSAGE_BYTES_MAX, description="size of one call in a transfer, in bytes"
    )
    seconds: float = Field(10.0, ge=0.01, le=3600, description="duration in seconds of each transfer")
    transfers: list[Transfer] = Field(
        ["up", "down", "both"],
        description="transfers: up (to the other end), down, and both at once over the same streams",
    )
    echo_bytes: list[Annotated[int, Field(ge=1, le=MESSAGE_BYTES_MAX)]] = Field(
        [], description="message sizes in bytes for round-trip latency, one phase each"
    )
    echo_seconds: float = Field(
        1.0, ge=0.01, le=3600, description="duration in seconds of each latency phase"
    )
    cpus: list[int] = Field([], description="processors to which the threads are bound; empty: all")


class NetworkServerWorkload(Plan):
    """The other end: it listens, and measures with one client at a time."""

    kind: Literal["network_server"] = "network_server"
    host: str = Field(description="address, name or network interface of this machine")
    port: int = Field(ge=0, le=65535, description="0: the system chooses")
    token: str | None = Field(None, description="token that clients must send; required unless on loopback")
    sessions: int = Field(0, ge=0, le=10**9, description="exit after this many sessions; 0: no limit")
    seconds_max: float = Field(
        0.0, ge=0, le=30 * 86400, description="exit after this many seconds; 0: no limit"
    )
    cpus: list[int] = Field([], description="processors to which the threads are bound; empty: all")


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)


class TcpNumbers(_Part):
    """What the kernel reports about one connection since it was established."""

    bytes_sent: int = Field(description="bytes sent, including retransmissions")
    bytes_sent_again: int
    segments_sent: int
    segments_sent_again: int
    round_trip_us: int = Field(description="smoothed round-trip time, as reported by the kernel")
    round_trip_min_us: int
    segment_bytes_max: int
    window_segments: int = Field(description="congestion window")
    waited_for_receiver_us: int = Field(description="time during which the receive window was full")
    waited_for_send_buffer_us: int


class NetworkStream(_Part):
    """One connection of a phase, as one end saw it."""

    sent_bytes: int
    received_bytes: int
    busy_s: float = Field(description="processor time of its busier thread")
    before: TcpNumbers
    after: TcpNumbers = Field(
        description="read by the client when all data has arrived, by the server when its kernel has the"
        " last byte"
    )


class Gaps(_Part):
    """Time in which the generator stood still: between two looks of a thread that looks each 10 ms."""

    longest_ns: int = Field(description="longest pause; the longest of all ranks")
    sum_ns: int = Field(description="number of pauses of at least 50 ms; the largest of all ranks")


class NetworkSide(_Part):
    """A phase as one end saw it. Times are its own clock's, from the start that was agreed on."""

    received_s: float = Field(description="time until the last byte arrived")
    seconds: float = Field(description="time until its streams were done")
    user_s: float = Field(description="processor time of the program")
    system_s: float
    received_series: list[int] = Field(description="bytes in each interval")
    gaps: Gaps | None = Field(None, description="null: of an older version that did not measure it")
    streams: list[NetworkStream]


def parse_link(text: str) -> float:
    """Bytes a second of "10Gb" or "100 Mbit/s". A UsageError says what is allowed."""
    match = _LINK.fullmatch(text.strip())
    if match is None or float(match["number"]) == 0:
        raise UsageError(f'--link "{text}" is not the speed of a link', "write for example 10Gb or 100Mb")
    return float(match["number"]) * _BITS_PER_S[match["unit"]] / 8


def parse_cpus(text: str) -> list[int]:
    """Processors of "0,2-3". A UsageError says what is allowed, and which processors there are."""
    cpus: set[int] = set()
    allowed = os.sched_getaffinity(0)
    for part in text.split(","):
        match = re.fullmatch(r"(?P<first>[0-9]{1,5})(?:-(?P<last>[0-9]{1,5}))?", part.strip())
        if match is None:
            raise UsageError(f'--cpus "{text}" is not a list of processors', "write for example 0,1 or 0-3")
        cpus |= set(range(int(match["first"]), int(match["last"] or match["first"]) + 1))
    strange = sorted(cpus - allowed)
    if strange or not cpus:
        raise UsageError(
            f'--cpus "{text}": processor {strange[0] if strange else text} is not available here',
            f"choose from {', '.join(str(cpu) for cpu in sorted(allowed))}",
        )
    return sorted(cpus)


def parse_address(text: str) -> tuple[str, int]:
    try:
        return split_address(text, NETWORK_PORT)
    except ValueError as error:
        raise UsageError(str(error), "for example 10.1.2.3, or 10.1.2.3:9920") from error


def listening_token(
    host: str, token_file: Path | None, environment: Mapping[str, str] = os.environ
) -> str | None:
    """The token that clients must show. A UsageError where other machines could come without one."""
    token = read_token(token_file, environment)
    if token is None and not is_loopback(host):
        raise UsageError(
            f"--listen {host} is reachable from other machines and requires a token",
            f"write a token into a file and give --token-file FILE, or set {TOKEN_VARIABLE}, at both ends;"
            f" or listen on 127.0.0.1",
        )
    return token
