"""Metrics over HTTP and the stall watch of a real recorder, with a storage that really hangs."""

import io
import math
import os
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy
import pytest
from conftest import Record, RecordCommand
from rich.console import Console

from penstock.client import Series
from penstock.model.events import MetricsAddress, Stall
from penstock.report.progress import ProgressView, show

Run = Callable[..., "subprocess.CompletedProcess[str]"]
ROOT = Path(__file__).resolve().parents[3]
SMALL = ("custom", "--rows", "64", "--columns", "96", "--type", "uint16")
PIXELS = numpy.random.default_rng(7).integers(0, 9, (64, 96), dtype=numpy.uint16)
WAIT_S = 60
SAMPLE = re.compile(r"(?P<name>[a-z_0-9]+)(?P<labels>\{[^}]*\})? (?P<value>\S+)")


def get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=WAIT_S) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return str(answer.read().decode())


def samples(address: str) -> dict[str, float]:
    """Every sample, by its name with labels."""
    found = {}
    for line in get(address).splitlines():
        if not line.startswith("#"):
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            found[match["name"] + (match["labels"] or "")] = float(match["value"])
    return found


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def metrics_of(recorder: RecordCommand) -> str:
    """The address of a recorder that was started with --metrics."""
    for event in recorder.events:
        if isinstance(event, MetricsAddress):
            return event.address
    event = recorder.until(MetricsAddress)
    assert isinstance(event, MetricsAddress)
    return event.address


def series_of(recorder: RecordCommand, frames: int) -> Series:
    return Series(recorder.address, dtype="uint16", shape=PIXELS.shape, frames=frames, name="one")


def send(series: Series, numbers: range) -> None:
    for number in numbers:
        series.send(PIXELS.copy(), number=number)


def test_metrics_tell_what_the_series_end_tells(record: Record, run: Run, tmp_path: Path) -> None:
    recorder = record(tmp_path, "--metrics", "127.0.0.1:0")
    address = metrics_of(recorder)
    before = samples(address)
    assert before["penstock_images_received_total"] == before["penstock_images_written_total"] == 0
    assert before["penstock_pool_bytes"] == 128 << 20, "frames have half of the pool"
    with series_of(recorder, 400) as series:
        send(series, range(200))
        series.wait_acknowledged(WAIT_S)
        during = samples(address)
        send(series, range(200, 400))
    assert during["penstock_open_series"] == 1
    end = recorder.series_end()
    after = samples(address)

    assert during["penstock_images_received_total"] == 200
    assert after["penstock_images_received_total"] == 400
    assert after["penstock_images_written_total"] == end.frames_written == end.frames_received
    assert after["penstock_received_bytes_total"] == end.raw_bytes
    assert after["penstock_stored_bytes_total"] == end.stored_bytes
    assert after["penstock_segment_bytes_total"] >= end.stored_bytes
    for what in ("duplicate", "late", "damaged", "dropped"):
        assert after[f'penstock_frame_problems_total{{what="{what}"}}'] == getattr(end, what), what
    assert after["penstock_open_series"] == after["penstock_backlog_frames"] == 0
    assert after["penstock_compress_seconds_count"] == 400
    assert math.isclose(after["penstock_compress_seconds_sum"], end.stage_seconds["compress"], rel_tol=1e-6)
    latency = after["penstock_frame_latency_seconds_sum"] / after["penstock_frame_latency_seconds_count"]
    assert 0 < latency <= end.latency_ms.max / 1e3
    writes = after['penstock_storage_call_seconds_count{call="write"}']
    assert writes >= after["penstock_segments_written_total"] > 0
    assert after['penstock_hdf5_call_seconds_count{call="hdf5_flush"}'] > 0
    # What counts never goes down, and buckets hold those below them.
    for name, value in during.items():
        if re.search(r"_(total|count|sum|bucket)\b", name):
            assert after[name] >= value, name
    buckets = [value for name, value in after.items() if name.startswith("penstock_compress_seconds_bucket")]
    assert buckets == sorted(buckets)
    assert buckets[-1] == 400

    # A second series is added to the first.
    sent = run("simulate", *SMALL, "--rate", "max", "--to", f"tcp://{recorder.address}", "--frames", "10")
    assert sent.returncode == 0, sent.stderr
    recorder.series_end()
    until(lambda: samples(address)['penstock_series_total{outcome="complete"}'] == 2)
    assert samples(address)["penstock_images_received_total"] == 410


def test_the_reference_page_names_what_is_served(record: Record, tmp_path: Path) -> None:
    text = get(metrics_of(record(tmp_path, "--metrics", "127.0.0.1:0")))
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, flags=re.MULTILINE))
    rows = []
    for name, help_text in re.findall(r"^# HELP (penstock_\S+) (.+)$", text, flags=re.MULTILINE):
        labels = re.search(rf"^{name}(?:_bucket)?\{{([^}}]*)\}}", text, flags=re.MULTILINE)
        names = re.findall(r'(\w+)="', labels[1]) if labels else []
        shown = ", ".join(f"`{label}`" for label in names if label != "le")
        rows.append(f"| `{name}` | {types[name]} | {shown} | {help_text} |")
    calls = sorted(set(re.findall(r'call="(\w+)"', text)))
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    documented = [line for line in page.splitlines() if line.startswith("| `penstock_")]
    assert documented == rows, "the table should be:\n" + "\n".join(rows)
    for call in calls:
        assert f"`{call}`" in page


def test_nothing_listens_unless_asked_for(record: Record, tmp_path: Path) -> None:
    recorder = record(tmp_path)
    sockets = subprocess.run(["ss", "-ltnp"], capture_output=True, text=True, check=False).stdout
    children = Path(f"/proc/{recorder.process.pid}/task/{recorder.process.pid}/children").read_text().split()
    listening = [line for line in sockets.splitlines() if any(f"pid={child}," in line for child in children)]
    assert len(listening) <= 1, listening
    assert not any(isinstance(event, MetricsAddress) for event in recorder.events)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("0.0.0.0:9810", ["--metrics", "0.0.0.0:9810", "SSH tunnel"]),
        ("nonsense", ["--metrics", "nonsense", "HOST:PORT"]),
        ("127.0.0.1:99999", ["--metrics", "99999"]),
    ],
)
def test_a_bad_address_is_refused(run: Run, tmp_path: Path, address: str, words: list[str]) -> None:
    refused = run("record", "--folder", str(tmp_path), "--listen", "127.0.0.1:0", "--metrics", address)
    assert refused.returncode == 2, refused.stderr
    for word in words:
        assert word in refused.stderr


def test_a_port_in_use_is_refused(run: Run, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        refused = run("record", "--folder", str(tmp_path), "--listen", "127.0.0.1:0", "--metrics", address)
    assert refused.returncode == 2, refused.stderr
    assert address in refused.stderr
    assert "is in use" in refused.stderr


class FrozenDisk:
    """A file system of its own that can be made to hang: ext4 on a loop device, and fsfreeze."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.frozen = False

    def freeze(self) -> None:
        subprocess.run(["fsfreeze", "--freeze", str(self.folder)], check=True)
        self.frozen = True

    def thaw(self) -> None:
        subprocess.run(["fsfreeze", "--unfreeze", str(self.folder)], check=True)
        self.frozen = False


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FrozenDisk]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system and freeze it")
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    made = subprocess.run(["mkfs.ext4", "-q", str(image)], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"mkfs.ext4: {made.stderr}")
    mounted = subprocess.run(
        ["mount", "-o", "loop", str(image), str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no loop device can be mounted here: {mounted.stderr}")
    disk = FrozenDisk(folder)
    yield disk
    if disk.frozen:
        disk.thaw()
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def next_stall(recorder: RecordCommand) -> Stall:
    stall = recorder.until(Stall)
    assert isinstance(stall, Stall)
    return stall


def test_a_stall_of_the_storage_is_reported_while_it_lasts(
    disk: FrozenDisk, record: Record, tmp_path: Path
) -> None:
    configuration = tmp_path / "record.yaml"
    configuration.write_text("stall_limit_ms: 150\nstore: {extent_bytes: 8 MiB}\n")
    recorder = record(disk.folder, "--metrics", "127.0.0.1:0", str(configuration))
    address = metrics_of(recorder)
    with series_of(recorder, 900) as series:
        send(series, range(450))
        series.wait_acknowledged(WAIT_S)
        disk.freeze()
        send(series, range(450, 900))
        while True:  # a recorder that was off the processor may have reported a stall that is over
            stall = next_stall(recorder)
            # The metrics answer meanwhile.
            hanging = samples(address)
            if not stall.over and hanging[f'penstock_stalled_calls{{call="{stall.call}"}}'] >= 1:
                break
        assert stall.seconds >= 0.15
        assert stall.file == str(disk.folder / "one.h5")
        assert hanging[f'penstock_stalls_total{{call="{stall.call}"}}'] >= 1
        assert hanging["penstock_open_series"] == 1
        disk.thaw()
    while not (stall.over and stall.call == "write"):
        stall = next_stall(recorder)
    assert stall.seconds >= 0.15
    assert stall.bytes > 0
    end = recorder.series_end()
    assert (end.frames_written, end.problem) == (900, None), "the storage came back, and nothing was lost"
    after = samples(address)
    assert sum(value for name, value in after.items() if name.startswith("penstock_stalled_calls")) == 0
    code, log = recorder.stop()
    assert code == 0
    assert re.search(r"stall: \w+.* of \S+one\.h5 has stalled for [0-9.]+ s", log)
    assert re.search(r"stall: write of [0-9]+ bytes at [0-9]+ of \S+one\.h5 returned after [0-9.]+ s", log)


def test_stall_is_shown_once_because_the_log_reports_it() -> None:
    said = io.StringIO()
    with ProgressView(Console(file=said)) as view:
        show(view, Stall(event="stall", call="write", file="/data/a.h5", bytes=8 << 20, seconds=2.5))
    assert said.getvalue() == ""
