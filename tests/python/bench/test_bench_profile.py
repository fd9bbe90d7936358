"""What processors' time goes into: what perf says is understood, and kinds of work are told apart."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Run as RunCommand
from hypothesis import given
from hypothesis import strategies as st
from test_bench import valid_run

from penstock.bench.statistics.profile import Sampled, class_of, parse_report, profile_of
from penstock.bench.statistics.values import values_of
from penstock.model.bench.campaigns import Campaign
from penstock.model.errors import PenstockError
from penstock.programs.locate import find_program

STREAM = ("--size", "256MiB", "--transfer", "1MiB", "--buffered", "--yes", "--json", "--profile")
# As perf 6.1 writes it.
REPORT = """
 38.46%  |swapper        |[kernel.kallsyms]   |[k] pv_native_safe_halt
 12.50%  |md0_raid6      |[raid456]           |[k] async_copy_data.isra.0
  8.46%  |pen-load-stream|penstock-load       |[.] penstock::Content::stamp(std::span<std::byte, 18ul>) const
# a comment
  nonsense
 -1.00%  |a|x|[k] y
  1.23%  |python3        |libc.so.6           |[.] 0x000000000010b6d3
"""


def test_what_perf_says_is_read() -> None:
    found = parse_report(REPORT)
    assert [each.module for each in found] == ["[kernel.kallsyms]", "[raid456]", "penstock-load", "libc.so.6"]
    assert found[1] == Sampled(0.125, "md0_raid6", "[raid456]", "async_copy_data.isra.0", True)
    assert found[2].symbol.endswith("const")
    assert not found[3].in_kernel


@pytest.mark.parametrize(
    ("module", "symbol", "expected"),
    [
        ("[kernel.kallsyms]", "pv_native_safe_halt", "idle"),
        ("[kernel.kallsyms]", "cpuidle_enter_state", "idle"),
        ("[kernel.kallsyms]", "intel_idle", "idle"),
        ("[kernel.kallsyms]", "rep_movs_alternative", "copying"),
        ("[kernel.kallsyms]", "copy_folio_from_iter_atomic", "copying"),
        ("[kernel.kallsyms]", "_copy_to_iter", "copying"),
        ("[kernel.kallsyms]", "memcpy_orig", "copying"),
        ("libc.so.6", "__memmove_avx512_unaligned_erms", "copying"),
        ("[kernel.kallsyms]", "clear_page_erms", "clearing"),
        ("[raid456]", "handle_stripe", "checksums"),
        ("[raid6_pq]", "raid6_avx5122_gen_syndrome", "checksums"),
        ("[kernel.kallsyms]", "crc32c_pcl_intel_update", "checksums"),
        ("[kernel.kallsyms]", "xor_avx_5", "checksums"),
        ("[kernel.kallsyms]", "ext4_file_write_iter", "file system"),
        ("[xfs]", "xlog_cil_commit", "file system"),
        ("[kernel.kallsyms]", "shmem_write_end", "file system"),
        ("[lustre]", "vvp_io_write_start", "file system"),
        ("[kernel.kallsyms]", "blk_mq_submit_bio", "block layer and devices"),
        ("[nvme]", "nvme_irq", "block layer and devices"),
        ("[kernel.kallsyms]", "iowrite16", "block layer and devices"),
        ("[kernel.kallsyms]", "tcp_sendmsg_locked", "network"),
        ("[kernel.kallsyms]", "__skb_datagram_iter", "network"),
        ("[mlx5_core]", "mlx5e_napi_poll", "network"),
        ("[kernel.kallsyms]", "__filemap_add_folio", "memory and page cache"),
        ("[kernel.kallsyms]", "get_page_from_freelist", "memory and page cache"),
        ("[kernel.kallsyms]", "__schedule", "scheduling and locks"),
        ("[kernel.kallsyms]", "_raw_spin_unlock_irqrestore", "scheduling and locks"),
        ("[kernel.kallsyms]", "entry_SYSCALL_64", "kernel, other"),
        ("python3.11", "ext4_of_a_program", "other programs"),
    ],
)
def test_kinds_of_work(module: str, symbol: str, expected: str) -> None:
    assert class_of(Sampled(0.1, "any", module, symbol, module.startswith("["))) == expected


def test_the_generator_is_known_by_its_threads() -> None:
    for thread, expected in (("pen-load-stream", "load generator"), ("reduce", "other programs")):
        assert class_of(Sampled(0.1, thread, "libc.so.6", "__memcmp_evex_movbe", False)) == expected
    assert class_of(Sampled(0.1, "pen-load-stream", "[ext4]", "ext4_map_blocks", True)) == "file system"


@given(
    st.lists(
        st.tuples(
            st.floats(1e-4, 1), st.sampled_from(["pv_native_safe_halt", "memcpy", "tcp_ack", "a", "b"])
        ),
        min_size=1,
        max_size=40,
    )
)
def test_shares_are_of_the_time_that_was_not_idle(samples: list[tuple[float, str]]) -> None:
    sampled = [Sampled(share, "any", "[kernel.kallsyms]", symbol, True) for share, symbol in samples]
    idle = sum(share for share, symbol in samples if symbol.startswith("pv_"))
    busy = sum(share for share, symbol in samples if not symbol.startswith("pv_"))
    if busy == 0:
        with pytest.raises(PenstockError, match="no work"):
            profile_of(sampled)
        return
    profile = profile_of(sampled)
    assert sum(profile.shares.values()) == pytest.approx(1)
    assert profile.idle_share == pytest.approx(idle / (idle + busy))
    assert "idle" not in profile.shares
    copied = sum(share for share, symbol in samples if symbol == "memcpy")
    assert profile.shares.get("copying", 0) == pytest.approx(copied / busy)
    assert len({each.symbol for each in profile.symbols}) == len(profile.symbols)
    assert [each.share for each in profile.symbols] == sorted(
        (each.share for each in profile.symbols), reverse=True
    )


def _perf_may_be_used(folder: Path) -> bool:
    command = ["perf", "record", "--quiet", "--all-cpus", f"--output={folder}/try", "true"]
    return (
        bool(shutil.which("perf"))
        and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


@pytest.mark.slow
def test_a_run_has_its_profile(run: RunCommand, tmp_path: Path) -> None:
    if not _perf_may_be_used(tmp_path):
        pytest.skip("perf is not permitted here")
    target = tmp_path / "target"
    target.mkdir()
    result = valid_run(run("bench", "stream", str(target), *STREAM).stdout)
    assert result.profile is not None
    assert sum(result.profile.shares.values()) == pytest.approx(1)
    # What is written goes through the page cache, and is compared when it is read.
    assert result.profile.shares["copying"] > 0
    assert list(target.iterdir()) == []


@pytest.mark.slow
def test_a_campaign_has_a_value_for_each_kind_of_work(run: RunCommand, tmp_path: Path) -> None:
    if not _perf_may_be_used(tmp_path):
        pytest.skip("perf is not permitted here")
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / "cost.yaml").write_text(
        "title: Cost\nworkload: stream\nparameters: {size: 256 MiB, transfer: 1 MiB, buffered: true}\n"
        "blocks: 1\nprofile: true\n"
        "views: [{kind: table, value: 'processor time: copying', rows: target}]\n"
    )
    # Two runs of a second have warnings, and may be invalid where the machine is busy.
    finished = run(
        "campaign", str(tmp_path / "cost.yaml"), "--target", str(target),
        "--output", str(tmp_path / "cost.json"), "--yes", "--json",
    )  # fmt: skip
    assert finished.returncode in (0, 4), finished.stderr
    campaign = Campaign.model_validate_json(finished.stdout)
    values = values_of(campaign.runs[0].run)
    kinds = {name: each.value for name, each in values.items() if name.startswith("processor time: ")}
    assert kinds["processor time: copying"] > 0
    assert sum(kinds.values()) == pytest.approx(values["processor time"].value)


@pytest.mark.parametrize(
    "refusal", ["", "#!/bin/sh\necho 'Access to performance counters is limited.' >&2\nexit 1\n"]
)
def test_without_perf_the_run_goes_on_and_says_why(tmp_path: Path, refusal: str) -> None:
    programs, target = tmp_path / "programs", tmp_path / "target"
    programs.mkdir()
    target.mkdir()
    words = "the program perf is not installed"
    if refusal:
        (programs / "perf").write_text(refusal)
        (programs / "perf").chmod(0o755)
        words = "perf is not permitted here (Access to performance counters is limited.)"
    finished = subprocess.run(
        [sys.executable, "-m", "penstock", "bench", "stream", str(target), *STREAM],
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": str(programs), "PENSTOCK_BIN": str(find_program("penstock-load").parent)},
        timeout=120,
        check=False,
    )
    assert words in finished.stderr
    result = valid_run(finished.stdout)
    assert result.profile is None
    assert result.cost is not None
