"""A storage system that comes with a Slurm job and goes with it, through the scripts of the documentation."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from laboratories import requires, without_traces
from ports import free_ports

from penstock.lab.place import places

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun")
pytestmark = [
    requires("moosefs"),
    pytest.mark.skipif(not all(map(shutil.which, PROGRAMS)), reason="requires slurmctld, slurmd and munge"),
]
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={at}/munge/socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
SlurmctldPort={port}
SlurmdPort={next_port}
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/slurmd.pid
SlurmctldLogFile={at}/slurmctld.log
SlurmdLogFile={at}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
Prolog={at}/prolog
Epilog={at}/epilog
TaskProlog={examples}/slurm-task-prolog.sh
PrologFlags=Alloc
NodeName={host} NodeAddr=127.0.0.1 CPUs={processors} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES State=UP
"""


def with_penstock(script: Path, at: Path) -> None:
    """Slurm gives prologs an empty path."""
    at.write_text(f'#!/bin/sh\nPATH="{Path(sys.executable).parent}:$PATH" exec sh {script}\n')
    at.chmod(0o755)


@pytest.fixture
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    at = tmp_path_factory.mktemp("slurm")
    for above in (at, *at.parents):
        if above.is_relative_to(tmp_path_factory.getbasetemp().parent):
            above.chmod(0o711)
    (at / "munge").mkdir(mode=0o700)
    (at / "state").mkdir()
    (at / "spool").mkdir()
    key = at / "munge" / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    for script in ("prolog", "epilog"):
        with_penstock(EXAMPLES / f"slurm-{script}.sh", at / script)
    port = free_ports(2)
    file = at / "slurm.conf"
    host = socket.gethostname().partition(".")[0]
    known = {"host": host, "at": at, "port": port, "next_port": port + 1, "examples": EXAMPLES}
    file.write_text(CONFIGURATION.format(**known, processors=psutil.cpu_count()))
    munge = [
        "--key-file",
        str(key),
        "--socket",
        str(at / "munge" / "socket"),
        "--pid-file",
        str(at / "munge" / "pid"),
    ]
    munge += ["--log-file", str(at / "munge" / "log"), "--seed-file", str(at / "munge" / "seed")]
    daemons = [
        subprocess.Popen(["munged", "--foreground", "--force", *munge]),
        subprocess.Popen(["slurmctld", "-D", "-i", "-f", str(file)], stderr=subprocess.DEVNULL),
        subprocess.Popen(["slurmd", "-D", "-f", str(file)], stderr=subprocess.DEVNULL),
    ]
    environment = {**os.environ, "SLURM_CONF": str(file)}
    try:
        deadline = time.monotonic() + 60
        while (
            "idle"
            not in subprocess.run(
                ["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True, check=False
            ).stdout
        ):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield environment
    finally:
        for daemon in daemons[::-1]:
            daemon.terminate()
            daemon.wait(timeout=30)


def job(environment: dict[str, str], script: str) -> "subprocess.CompletedProcess[str]":
    command = ["srun", "--ntasks=1", "sh", "-c", script]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_a_job_has_its_own_storage_as_long_as_it_runs(slurm: dict[str, str]) -> None:
    told = job(
        slurm, 'echo "job-$SLURM_JOB_ID"; echo data > "$PENSTOCK_LAB_MOUNT/a" && cat "$PENSTOCK_LAB_MOUNT/a"'
    )
    assert told.returncode == 0, told.stderr
    name, data = told.stdout.split()
    assert data == "data"
    without_traces(name, seconds_max=60)


def test_it_goes_with_a_job_that_fails(slurm: dict[str, str], tmp_path: Path) -> None:
    """The name is in a file: srun may not have read the output of a job that is killed."""
    said = tmp_path / "said"
    told = job(slurm, f'echo "job-$SLURM_JOB_ID" >{said}; test -d "$PENSTOCK_LAB_MOUNT" && kill -9 $$')
    assert told.returncode != 0
    name = said.read_text().strip()
    without_traces(name, seconds_max=60)
    assert not [place for place in places() if place.name == name]
