"""Ranks on separate hosts: network namespaces with an address and a host name each, joined by a bridge."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import pytest

from penstock.bench.run.metadata import metadata_checks, metadata_workload
from penstock.bench.statistics.figures import metadata_figures
from penstock.model.bench.load import LoadDocument, LoadPlan, PosixBackend
from penstock.programs.locate import find_program

Run = Callable[..., "subprocess.CompletedProcess[str]"]
WAIT_S = 120
HOSTS = 2
PORT = 9900
FRAMES = 203

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None,
    reason="making network namespaces needs root and iproute2",
)

# What a launcher calls where it would call ssh: AGENT [options] HOST COMMAND…, the host being its address.
AGENT = """#!/bin/bash
while [[ ${1:-} == -* ]]; do shift; done
host=$1; shift
exec nsenter --net=/run/netns/$PENSTOCK_TEST_HOSTS"${host##*.}" \\
  unshare --uts bash -c 'hostname "$0"; eval "$@"' "node${host##*.}" "$@"
"""


@dataclass(frozen=True)
class Hosts:
    """`name`1 … `name`N are namespaces; host i has the address 10.213.77.i."""

    name: str
    agent: Path

    def address(self, host: int) -> str:
        return f"10.213.77.{host}"

    def inside(self, host: int, *command: str) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self.name}{host}", *command]


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=20)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    name = f"pen{os.getpid()}h"
    made: list[str] = []
    try:
        for namespace in (f"{name}0", *(f"{name}{host}" for host in range(1, HOSTS + 1))):
            try:
                ip("netns", "add", namespace)
            except subprocess.CalledProcessError as refused:
                pytest.skip(f"no network namespaces here: {refused.stderr.decode().strip()}")
            made.append(namespace)
            ip("-n", namespace, "link", "set", "lo", "up")
        ip("-n", made[0], "link", "add", "bridge", "type", "bridge")
        ip("-n", made[0], "link", "set", "bridge", "up")
        for host in range(1, HOSTS + 1):
            ip(
                "-n",
                made[0],
                "link",
                "add",
                f"port{host}",
                "type",
                "veth",
                "peer",
                "eth0",
                "netns",
                made[host],
            )
            ip("-n", made[0], "link", "set", f"port{host}", "master", "bridge", "up")
            ip("-n", made[host], "addr", "add", f"10.213.77.{host}/24", "dev", "eth0")
            ip("-n", made[host], "link", "set", "eth0", "up")
        agent = tmp_path / "agent"
        agent.write_text(AGENT)
        agent.chmod(0o755)
        yield Hosts(name, agent)
    finally:
        for namespace in made:
            ip("netns", "del", namespace)


def launcher(hosts: Hosts, mpi: str) -> tuple[list[str], dict[str, str]]:
    """How each MPI starts a rank on each host, and over which network the ranks then speak."""
    addresses = [hosts.address(host) for host in range(1, HOSTS + 1)]
    environment = {**os.environ, "PENSTOCK_TEST_HOSTS": hosts.name, "PENSTOCK_TOKEN": ""}
    if mpi == "mpich":
        command = ["mpiexec.mpich", "-launcher", "ssh", "-launcher-exec", str(hosts.agent), "-iface", "eth0"]
        return [*command, "-hosts", ",".join(addresses), "-ppn", "1"], environment
    environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = ["mpirun.openmpi", "--host", ",".join(addresses), "--bind-to", "none"]
    for setting, value in {
        "plm_rsh_agent": str(hosts.agent),
        "oob_tcp_if_include": "eth0",
        "btl_tcp_if_include": "eth0",
        "btl": "self,tcp",
    }.items():
        command += ["--mca", setting, value]
    return command, environment


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_a_rank_looks_up_what_another_host_made(hosts: Hosts, tmp_path: Path, mpi: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    workload = metadata_workload(ranks=HOSTS, threads=2, items=50, shift=2, file_bytes=100)
    backend = PosixBackend(folder=str(folder), direct=False, sync="none")
    plan = tmp_path / "plan.json"
    plan.write_text(LoadPlan(backend=backend, workload=workload).model_dump_json())
    command, environment = launcher(hosts, mpi)
    program = str(find_program(f"penstock-load-{mpi}"))
    finished = subprocess.run(
        hosts.inside(1, *command, "-n", str(HOSTS), program, "--plan", str(plan)),
        env=environment,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    document = LoadDocument.model_validate(json.loads(finished.stdout.splitlines()[-1])["document"])
    assert document.job is not None
    # The launcher starts the first one itself, under the name that this machine has.
    assert [part.host == "node2" for part in document.job.parts] == [False, True]
    figures = metadata_figures(document)
    assert {each.operation: each.operations for each in figures}["file_read"] == 200
    checks = metadata_checks(document, workload, figures, memory_file_system=False)
    (looked_up,) = (check for check in checks if check.name == "looked up in storage")
    assert (looked_up.outcome, looked_up.actual) == ("ok", "another machine or client created them")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_a_rank_a_host_fills_one_file(hosts: Hosts, run: Run, tmp_path: Path, mpi: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    token = "between-hosts-a-token-is-needed"
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps(
            {
                "folder": str(folder),
                "sources": [{"kind": "tcp", "host": "eth0", "port": PORT, "token": token}],
                "series_limit": 1,
                "threads": 1,
                "pool_bytes": 256 << 20,
            }
        )
    )
    command, environment = launcher(hosts, mpi)
    # The launcher itself runs on the first host.
    job = subprocess.Popen(
        hosts.inside(
            1, *command, "-n", str(HOSTS), str(find_program(f"penstock-recorder-{mpi}")), "--plan", str(plan)
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        assert job.stdout is not None
        listening = sorted(json.loads(job.stdout.readline())["sources"][0] for _ in range(HOSTS))
        targets = ",".join(f"{hosts.address(host + 1)}:{PORT + host}" for host in range(HOSTS))
        assert ",".join(source.removeprefix("tcp://") for source in listening) == targets
        detector = [sys.executable, "-m", "penstock", "simulate", "custom", "--rows", "64", "--columns", "96"]
        detector += ["--type", "uint16", "--rate", "max", "--frames", str(FRAMES), "--series-name", "apart"]
        sent = subprocess.run(
            hosts.inside(2, *detector, "--to", f"tcp://{targets}"),
            env={**os.environ, "PENSTOCK_TOKEN": token},
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert sent.returncode == 0, sent.stderr
        events, log = job.communicate(timeout=WAIT_S)
    except BaseException:
        os.killpg(job.pid, signal.SIGKILL)
        print(job.communicate(timeout=WAIT_S)[1])
        raise
    assert job.returncode == 0, log
    ends = [event for event in map(json.loads, events.splitlines()) if event["event"] == "series_end"]
    assert [(end["frames_received"], end["problem"]) for end in ends] == [(FRAMES, None)]
    checked = run("check", str(folder / "apart.h5"), "--against", "recorded", "--require-complete", "--json")
    assert checked.returncode == 0, checked.stdout
    report = json.loads(checked.stdout)
    assert (report["compared_frames"], report["different_frames"], report["missing"]) == (FRAMES, 0, 0)
    with h5py.File(folder / "apart.h5") as file:
        assert (file["/entry/penstock/frame_state"][...] == 1).all()
