"""What `penstock plan` computes, by hand and by its laws."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.catalogue import Detector
from penstock.model.errors import UsageError
from penstock.model.plan.blocks import Redundancy, find_block
from penstock.model.plan.orders import Order
from penstock.model.plan.sizing import Assumptions, Compression, Wanted, size
from penstock.programs.locate import blocks_folder

BRICK = find_block("test-brick-gen2", blocks_folder())
# A megapixel of two bytes: 2 MB a frame.
DETECTOR = Detector.model_validate(
    {"name": "square", "rows": 1000, "columns": 1000, "type": "uint16", "rate_hz": 500.0}
)


def wanted(count: int = 1, rate_hz: float = 500.0, **compression: object) -> Wanted:
    return Wanted(
        detector=DETECTOR,
        count=count,
        rate_hz=rate_hz,
        compression=Compression.model_validate(compression),
    )


def test_by_hand() -> None:
    assumptions = Assumptions(duty=0.25, headroom=0.5, fill=0.8, retention_days=10, read_factor=2)
    found = size(
        [wanted(4, encoding="bslz4", ratio=8, speed_bytes_per_s=1e9), wanted(1, 50)], assumptions, [BRICK]
    )
    assert found.raw_bytes_per_s == pytest.approx(4.1e9)
    assert found.stored_bytes_per_s == pytest.approx(0.5e9 + 0.1e9)
    assert found.average_stored_bytes_per_s == pytest.approx(0.15e9)
    assert found.need.write_bytes_per_s == pytest.approx(0.9e9)
    assert found.need.read_bytes_per_s == pytest.approx(1.8e9)
    assert found.need.capacity_bytes == pytest.approx(0.15e9 * 10 * 86400 / 0.8)
    assert found.cores == 6  # 4 GB/s at 1 GB/s a core, and half of that on top
    ports = {link.bytes_per_s: (link.in_ports, link.out_ports) for link in found.links}
    assert ports[1.25e9] == (6, 1)  # 6.15 GB/s and 0.9 GB/s over 1.125 GB/s a port
    assert ports[12.5e9] == (1, 1)
    assert (found.servers.servers, found.servers.for_cores, found.servers.for_network) == (1, 1, 1)
    assert found.blocks[0].blocks == 1


def test_the_buffer_of_half_a_day_at_seven_terabytes_a_second() -> None:
    """The largest case of the test brick's slides: 7 TB/s for 12 hours are the 300 PB that they state."""
    assumptions = Assumptions(headroom=0, fill=1, retention_days=0.5, write_bytes_per_s=7e12)
    found = size([], assumptions, [BRICK])
    assert found.need.capacity_bytes == pytest.approx(300e15, rel=0.01)
    assert found.blocks[0].decides == "capacity"
    assert found.detectors == []


def test_a_detector_that_compresses_takes_no_cores_and_smaller_links() -> None:
    here = size([wanted(4, encoding="bslz4", ratio=8, speed_bytes_per_s=1e9)], Assumptions())
    there = size(
        [wanted(4, encoding="bslz4", ratio=8, speed_bytes_per_s=1e9)], Assumptions(compresses="detector")
    )
    assert (here.cores, there.cores) == (5, 0)
    assert there.links[0].in_ports < here.links[0].in_ports
    assert there.need == here.need


def test_a_speed_that_is_not_known_is_not_guessed() -> None:
    found = size([wanted(encoding="bslz4", ratio=8), wanted()], Assumptions())
    assert found.cores is None
    assert found.servers.for_cores is None
    assert any("--measure" in note for note in found.notes)
    assert size([wanted()], Assumptions()).cores == 0


def test_simulated_ratios_are_said_to_be() -> None:
    assert any(
        "simulated" in note for note in size([wanted(encoding="bslz4", simulated=True)], Assumptions()).notes
    )
    assert not any("simulated" in note for note in size([wanted(encoding="bslz4")], Assumptions()).notes)


def test_a_doubtful_speed_is_said_once() -> None:
    doubtful = wanted(encoding="bslz4", speed_bytes_per_s=1e9, speed_doubt="the machine was busy")
    assert size([doubtful, doubtful], Assumptions()).notes.count("the machine was busy") == 1


def test_redundancy_without_a_block_is_added_to_the_drives() -> None:
    found = size([wanted()], Assumptions(redundancy=Redundancy(data=8, parity=2)))
    assert found.raw_capacity_bytes == pytest.approx(1.25 * found.need.capacity_bytes)


orders = st.lists(
    st.builds(
        wanted,
        st.integers(1, 50),
        st.floats(0.1, 1e5),
        encoding=st.just("bslz4"),
        ratio=st.floats(0.5, 100),
        speed_bytes_per_s=st.floats(1e7, 1e10),
    ),
    max_size=4,
)
assumed = st.builds(
    Assumptions,
    duty=st.floats(0.01, 1),
    headroom=st.floats(0, 2),
    fill=st.floats(0.1, 1),
    retention_days=st.floats(0, 1000),
    read_factor=st.floats(0, 10),
    compresses=st.sampled_from(["recorder", "detector"]),
)


@given(orders, st.builds(wanted, st.integers(1, 9), st.floats(0.1, 1e5), encoding=st.just("none")), assumed)
def test_more_detectors_never_need_less(few: list[Wanted], one: Wanted, assumptions: Assumptions) -> None:
    less, more = size(few, assumptions, [BRICK]), size([*few, one], assumptions, [BRICK])
    assert more.blocks[0].blocks >= less.blocks[0].blocks
    assert more.need.capacity_bytes >= less.need.capacity_bytes
    assert more.servers.servers >= less.servers.servers
    assert more.cores is not None
    assert less.cores is not None
    assert more.cores >= less.cores
    for a, b in zip(less.links, more.links, strict=True):
        assert (b.in_ports, b.out_ports) >= (a.in_ports, a.out_ports)


@given(orders, assumed)
def test_the_ports_carry_what_is_needed(few: list[Wanted], assumptions: Assumptions) -> None:
    found = size(few, assumptions)
    for link in found.links:
        carried = link.bytes_per_s * assumptions.link_efficiency
        assert link.out_ports * carried * (1 + 1e-6) >= found.need.write_bytes_per_s
        assert (link.out_ports - 1) * carried < max(found.need.write_bytes_per_s, 1e-9)
    assert found.average_raw_bytes_per_s <= found.raw_bytes_per_s
    assert all(math.isfinite(value) for value in found.need.model_dump().values())


def test_orders() -> None:
    assert Order.parse("eiger2-16m") == Order(name="eiger2-16m")
    assert Order.parse("2xeiger2-16m@100") == Order(name="eiger2-16m", count=2, rate_hz=100)
    assert Order.parse("12xPILATUS 6M") == Order(name="PILATUS 6M", count=12)
    for text, word in (
        ("0xpilatus-6m", "count"),
        ("999999xpilatus-6m", "count"),
        ("pilatus-6m@0", "Hz"),
        ("pilatus-6m@nan", "Hz"),
        ("pilatus-6m@-3", "Hz"),
        ("pilatus-6m@fast", "Hz"),
        ("pilatus-6m@1@2", "does not name a detector"),
        ("", "does not name a detector"),
    ):
        with pytest.raises(UsageError) as caught:
            Order.parse(text)
        assert word in caught.value.message + caught.value.remedy, text


@given(st.text(max_size=40))
def test_any_text_is_an_order_or_an_error_for_the_user(text: str) -> None:
    try:
        order = Order.parse(text)
    except UsageError:
        return
    assert 1 <= order.count <= 10**5
