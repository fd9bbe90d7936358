"""Building blocks: their arithmetic, and files that are not what they should be."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import UsageError
from penstock.model.plan.blocks import (
    DRIVES,
    Block,
    MeasuredBandwidth,
    Need,
    Redundancy,
    figures_of,
    find_block,
    whole,
)
from penstock.model.units import parse_bandwidth
from penstock.model.yaml_file import parse_yaml
from penstock.programs.locate import blocks_folder

GB, TB, PB = 1e9, 1e12, 1e15
NOTHING = Need(write_bytes_per_s=0, read_bytes_per_s=0, capacity_bytes=0)

SMALL = """\
name: small
drives: {count: 12, spares: 2, bandwidth: 100 MB/s, read_bandwidth: 200 MB/s, capacity: 4 TB}
redundancy: 8+2
stages:
  - {name: controllers, count: 2, bandwidth: 600 MB/s, carries: stored, duplex: full}
  - {name: network, count: 1, bandwidth: 10 Gb/s, efficiency: 0.9, duplex: full}
price: 1000.5
currency: EUR
"""


def small(**changes: object) -> Block:
    return parse_yaml(SMALL, Block, "small.yaml").model_copy(update=changes)


def need(write: float = 0, read: float = 0, capacity: float = 0) -> Need:
    return Need(write_bytes_per_s=write, read_bytes_per_s=read, capacity_bytes=capacity)


def test_the_test_brick_comes_out_as_its_slides_say() -> None:
    """20 GB/s and 768 TB; 50 give 1 TB/s, about 130 hold 100 PB; adapters of 40 servers give 1 TB/s."""
    brick = find_block("test-brick-gen2", blocks_folder())
    found = figures_of(brick, need(write=TB, capacity=100 * PB))
    assert found.write_bytes_per_s == pytest.approx(20 * GB)
    assert found.write_bottleneck == DRIVES
    assert found.capacity_bytes == 768 * TB
    assert whole(found.for_throughput) == 50
    assert found.for_capacity == pytest.approx(130, rel=0.01)
    assert (found.blocks, found.decides) == (131, "capacity")
    stages = {stage.name: stage for stage in found.stages}
    assert stages["adapters to the drives"].write_bytes_per_s == 25 * GB
    assert stages["network adapters"].write_bytes_per_s == 24 * GB
    assert whole(stages["adapters to the drives"].blocks) == 40


def test_the_largest_case_of_those_slides() -> None:
    """7 TB/s written, five times that read, 300 PB: reading decides where it goes on at the same time."""
    brick = find_block("test-brick-gen2", blocks_folder())
    written = figures_of(brick, need(write=7 * TB, capacity=300 * PB))
    assert (whole(written.for_throughput), written.blocks, written.decides) == (350, 391, "capacity")
    both = figures_of(brick, need(write=7 * TB, read=35 * TB, capacity=300 * PB))
    assert (both.blocks, both.decides, both.throughput_bottleneck) == (2100, "throughput", DRIVES)


def test_raid_6_makes_the_brick_smaller_and_slower() -> None:
    found = figures_of(
        find_block("test-brick-gen2", blocks_folder()), need(write=TB), Redundancy.parse("10+2")
    )
    assert found.capacity_bytes == pytest.approx(640 * TB)
    assert found.write_bytes_per_s == pytest.approx(20 * GB / 1.2)
    assert found.read_bytes_per_s == pytest.approx(20 * GB), "parity is not read"
    assert whole(found.for_throughput) == 60
    # The server makes the parity, so it passes the adapters to the drives, and not the network.
    stages = {stage.name: stage.write_bytes_per_s for stage in found.stages}
    assert stages["adapters to the drives"] == pytest.approx(25 * GB / 1.2)
    assert stages["network adapters"] == pytest.approx(24 * GB)


def test_stages_by_hand() -> None:
    found = figures_of(small(), need(write=1.6 * GB, read=1.125 * GB, capacity=100 * TB))
    by_name = {stage.name: stage for stage in found.stages}
    # Ten drives work; eight of ten bytes are data.
    assert by_name[DRIVES].write_bytes_per_s == pytest.approx(0.8 * GB)
    assert by_name[DRIVES].read_bytes_per_s == pytest.approx(2.0 * GB)
    assert by_name["controllers"].write_bytes_per_s == pytest.approx(1.2 * GB * 0.8)
    assert by_name["network"].write_bytes_per_s == pytest.approx(1.125 * GB)
    # Drives share their time between both directions; the network does not.
    assert by_name[DRIVES].blocks == pytest.approx(1.6 / 0.8 + 1.125 / 2.0)
    assert by_name["network"].blocks == pytest.approx(1.6 / 1.125)
    assert found.efficiency == pytest.approx(0.8 / 1.2)
    assert found.capacity_bytes == pytest.approx(32 * TB)
    assert (found.blocks, found.decides, found.price) == (4, "capacity", 4002.0)
    assert (found.write_bottleneck, found.read_bottleneck) == (DRIVES, "network")


def test_what_was_measured_takes_the_place_of_what_is_computed() -> None:
    measured = MeasuredBandwidth(
        write_bytes_per_s=0.4 * GB, read_bytes_per_s=None, source="run.json", validity="valid"
    )
    found = figures_of(small(), need(write=4 * GB), measured=measured)
    assert (found.write_bytes_per_s, found.read_bytes_per_s) == (0.4 * GB, 0.4 * GB)
    assert (found.blocks, found.throughput_bottleneck) == (10, "the measured block")
    assert found.write_bottleneck == DRIVES, "what would limit it as computed"
    assert figures_of(small(), need(write=4 * GB)).measured is None


amounts = st.floats(0, 1e16)
counts = st.integers(1, 1000)
blocks = st.builds(
    lambda drives, spare, speed, capacity, data, parity, stage, count, carries, duplex: Block.model_validate(
        {
            "name": "any",
            "drives": {
                "count": drives + spare,
                "spares": spare,
                "bandwidth": f"{speed:.0f} B/s",
                "capacity": f"{capacity} B",
            },
            "redundancy": f"{data}+{parity}",
            "stages": [
                {
                    "name": "s",
                    "count": count,
                    "bandwidth": f"{stage:.0f} B/s",
                    "carries": carries,
                    "duplex": duplex,
                }
            ],
        }
    ),
    counts,
    st.integers(0, 20),
    st.floats(1e6, 1e10),
    st.integers(10**9, 10**14),
    st.integers(1, 20),
    st.integers(0, 20),
    st.floats(1e6, 1e12),
    counts,
    st.sampled_from(["data", "stored"]),
    st.sampled_from(["half", "full"]),
)


@given(blocks, amounts, amounts, amounts, st.floats(0, 1e15))
def test_more_never_needs_fewer_blocks(
    block: Block, write: float, read: float, capacity: float, more: float
) -> None:
    base = figures_of(block, need(write, read, capacity))
    for larger in (
        need(write + more, read, capacity),
        need(write, read + more, capacity),
        need(write, read, capacity + more),
    ):
        assert figures_of(block, larger).blocks >= base.blocks


@given(blocks, amounts, amounts, amounts)
def test_the_blocks_are_enough_and_one_fewer_is_not(
    block: Block, write: float, read: float, capacity: float
) -> None:
    found = figures_of(block, need(write, read, capacity))
    slack = 1 + 1e-6
    assert found.write_bytes_per_s * found.blocks * slack >= write
    assert found.capacity_bytes * found.blocks * slack >= capacity
    if found.blocks:
        fewer = found.blocks - 1
        assert fewer < max(found.for_throughput, found.for_capacity, found.parts_on_blocks)
    assert found.write_bytes_per_s == min(stage.write_bytes_per_s for stage in found.stages)
    assert found.efficiency <= 1 + 1e-9


def test_nothing_needs_no_block() -> None:
    found = figures_of(small(), NOTHING)
    assert (found.blocks, found.decides) == (0, "nothing")


@pytest.mark.parametrize(
    ("was", "becomes", "words"),
    [
        ("count: 12", "count: -1", ["drives.count", "-1", "small.yaml:2"]),
        ("count: 12", "count: 1e30", ["drives.count"]),
        ("count: 12", "count: 2.5", ["drives.count", "2.5"]),
        ("spares: 2", "spares: 12", ["drives", "spares is 12 of 12"]),
        ("100 MB/s", ".nan", ["drives.bandwidth"]),
        ("100 MB/s", ".inf", ["drives.bandwidth"]),
        ("100 MB/s", "0", ["drives.bandwidth", "greater than 0"]),
        ("100 MB/s", "2", ["small.yaml:2: drives.bandwidth: 2 has no unit; write for example 2 GB/s"]),
        ("4 TB", "4", ["drives.capacity: 4 has no unit; write for example 4 MB"]),
        ("600 MB/s", "600", ["stages[0].bandwidth: 600 has no unit"]),
        ("100 MB/s", "-5", ["drives.bandwidth", "-5"]),
        ("100 MB/s", "1e300", ["drives.bandwidth"]),
        ("100 MB/s", "fast", ["drives.bandwidth", "fast", "250 MB/s"]),
        ("4 TB", "4 TB/s", ["drives.capacity", "4 TB/s"]),
        ("4 TB", "0", ["drives.capacity"]),
        ("8+2", "0+2", ["redundancy", "0+2", "8+2"]),
        ("8+2", "raid6", ["redundancy", "raid6"]),
        ("efficiency: 0.9", "efficiency: 1.1", ["stages[1].efficiency", "1.1"]),
        ("name: network", "name: controllers", ["stages", "controllers"]),
        ("name: network", "name: drives", ["stages", "drives"]),
        ("carries: stored", "carries: all", ["stages[0].carries", "all"]),
        ("price: 1000.5", "price: -1", ["price", "-1"]),
        ("currency: EUR", "colour: red", ["unknown field `colour`"]),
        ("name: small\n", "", ["`name` is missing"]),
    ],
)
def test_wrong_files_name_the_field(was: str, becomes: str, words: list[str]) -> None:
    assert was in SMALL
    with pytest.raises(UsageError) as caught:
        parse_yaml(SMALL.replace(was, becomes, 1), Block, "small.yaml", "blocks/README.md")
    for word in words:
        assert word in caught.value.message, caught.value.message
    assert "blocks/README.md" in caught.value.remedy


@given(st.text(max_size=200))
def test_any_text_is_a_block_or_an_error_for_the_user(text: str) -> None:
    try:
        parse_yaml(text, Block, "any.yaml")
    except UsageError as error:
        assert "any.yaml" in error.message


def test_blocks_are_found_by_name_and_by_path(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(SMALL, encoding="utf-8")
    assert find_block(str(file), blocks_folder()).name == "small"
    with pytest.raises(UsageError, match="unknown block") as caught:
        find_block("../blocks/test-brick-gen2", blocks_folder())
    assert "test-brick-gen2" in caught.value.remedy
    with pytest.raises(UsageError, match="cannot read"):
        find_block(str(tmp_path / "absent.yaml"), blocks_folder())


@pytest.mark.parametrize("path", sorted(blocks_folder().glob("*.yaml")), ids=lambda path: path.stem)
def test_every_block_that_is_shipped_is_one_and_says_where_it_is_from(path: Path) -> None:
    assert find_block(path.stem, blocks_folder()).source


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("250 MB/s", 250e6),
        ("1.5GiB/s", 1.5 * 2**30),
        ("100 Gb/s", 12.5e9),
        ("10Gbit/s", 1.25e9),
        ("40 kb/s", 5000),
        ("7 TB / s", None),
        ("100 Gb", None),
        ("100", None),
        ("-1 GB/s", None),
        ("1e3 GB/s", None),
        ("nan GB/s", None),
        ("9" * 400 + " GB/s", None),
        ("5 XB/s", None),
    ],
)
def test_bandwidths(text: str, value: float | None) -> None:
    if value is None:
        with pytest.raises(ValueError, match=r"bandwidth|unit"):
            parse_bandwidth(text)
    else:
        assert parse_bandwidth(text) == pytest.approx(value)
