"""Volumes, ages, tiers and growth: by hand, and by laws that hold for all of them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.catalogue import Detector
from penstock.model.errors import UsageError
from penstock.model.plan.ages import YEAR_DAYS, human_age, parse_age
from penstock.model.plan.beamlines import Schedule
from penstock.model.plan.blocks import find_block
from penstock.model.plan.ratios import catalogue_compression
from penstock.model.plan.sizing import Assumptions, Compression, Sizing, Wanted, size
from penstock.model.plan.tiers import Tier, check_tiers
from penstock.model.plan.volume import DAY_S, Source, busiest_days, kept_bytes, written_bytes
from penstock.programs.locate import blocks_folder

MB = 1e6
# 1 MB a frame, 100 frames a second.
DETECTOR = Detector.model_validate(
    {"name": "square", "rows": 1000, "columns": 1000, "type": "uint8", "rate_hz": 100.0}
)
THREE = [Tier.parse(text) for text in ("fast=2w", "disk=6mo", "tape")]


def sized(retention: str = "2y", schedule: Schedule | None = None, **assumed: object) -> Sizing:
    when = schedule or Schedule()
    assumptions = Assumptions.model_validate(
        {"headroom": 0, "fill": 1, "retention_days": retention if isinstance(retention, float) else 0}
        | {"duty": when.share, "days_per_week": when.days, "retention_days": parse_age(retention)}
        | assumed
    )
    wanted = Wanted(detector=DETECTOR, count=1, rate_hz=100.0, compression=Compression())
    blocks = {"lto-9": find_block("lto-9", blocks_folder())}
    return size([wanted], assumptions, tier_blocks=blocks)


@pytest.mark.parametrize(
    ("text", "days"),
    [("90", 90), ("90d", 90), ("2w", 14), ("6mo", 182.625), ("2y", 730.5), ("1.5 years", 547.875), ("0", 0)],
)
def test_ages(text: str, days: float) -> None:
    assert parse_age(text) == pytest.approx(days)


@pytest.mark.parametrize("text", ["", "y", "-1d", "2h", "2 w 3", "nan", "1e3d", "101y"])
def test_what_is_not_an_age_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not an age|100 years"):
        parse_age(text)


def test_ages_for_people() -> None:
    ages = [parse_age(text) for text in ("2y", "6mo", "2w", "90d", "1d", "1y", "12.5d")]
    assert [human_age(days) for days in ages] == [
        "2 years",
        "6 months",
        "2 weeks",
        "90 days",
        "1 day",
        "1 year",
        "12.5 days",
    ]


def test_a_working_week_by_hand() -> None:
    """100 MB/s for 8 hours are 2.88 TB, five times a week."""
    found = sized(schedule=Schedule(hours_per_day=8, days_per_week=5))
    assert found.volumes.per_day_bytes == pytest.approx(2.88e12)
    assert found.volumes.per_week_bytes == pytest.approx(5 * 2.88e12)
    assert found.volumes.per_year_bytes == pytest.approx(YEAR_DAYS / 7 * 5 * 2.88e12)
    assert found.need.capacity_bytes == pytest.approx((104 * 5 + 2 + 1) * 2.88e12), "104 weeks and 2.5 days"


@pytest.mark.parametrize(
    ("retention", "days"),
    [("0.25d", 0.75), ("0.5d", 1), ("1d", 1), ("3d", 3), ("5d", 5), ("1w", 5), ("8d", 6), ("30d", 22)],
)
def test_capacity_is_for_the_busiest_window_of_the_retention(retention: str, days: float) -> None:
    found = sized(retention, Schedule(hours_per_day=8, days_per_week=5))
    assert found.need.capacity_bytes == pytest.approx(days * 2.88e12)
    assert [each.kept_bytes for each in found.years] == pytest.approx([days * 2.88e12] * 5)


def test_each_tier_is_for_its_own_busiest_window() -> None:
    tiers = [Tier(name="cache", until_days=3), Tier(name="disk", until_days=10), Tier(name="tape")]
    found = sized("30d", Schedule(hours_per_day=8, days_per_week=5), tiers=tiers)
    assert [each.need.capacity_bytes for each in found.tiers] == pytest.approx(
        [3 * 2.88e12, 5 * 2.88e12, (2 * 5 + 5) * 2.88e12]
    )
    assert found.years[0].tier_bytes == pytest.approx([each.need.capacity_bytes for each in found.tiers])
    assert found.need.capacity_bytes == pytest.approx(22 * 2.88e12)


@given(st.integers(1, 7), st.integers(1, 24), st.integers(0, 24 * 30))
def test_busiest_window_is_the_maximum_over_all_of_its_positions(days: int, hours: int, window: int) -> None:
    """Hour by hour: a window that starts with any hour of a week."""
    week = [hour % 24 < hours and hour // 24 < days for hour in range(24 * 7)]
    taken = max(sum(week[(start + n) % len(week)] for n in range(window)) for start in range(len(week)))
    duty = hours * days / (24 * 7)
    assert busiest_days(window / 24, duty, days) * hours == pytest.approx(taken, abs=1e-6)


def test_a_day_in_two_weeks_is_stored_as_a_day() -> None:
    assert busiest_days(1, 8 / 24 / 14, 0.5) == pytest.approx(1)
    assert busiest_days(14, 8 / 24 / 14, 0.5) == pytest.approx(1)
    assert busiest_days(15, 8 / 24 / 14, 0.5) == pytest.approx(2)


def test_growth_applies_to_the_busiest_window() -> None:
    found = sized("1d", Schedule(hours_per_day=8, days_per_week=5), growth=0.5, years=3)
    assert [each.kept_bytes for each in found.years] == pytest.approx([2.88e12 * 1.5**n for n in range(3)])


def test_tiers_by_hand() -> None:
    """100 MB/s are 8.64 TB a day."""
    tape = [*THREE[:2], Tier(name="tape", block="lto-9")]
    found = sized(tiers=tape, headroom=0.5, fill=0.5, read_factor=1, capacity_bytes=10**12)
    day = 8.64e12
    fast, disk, last = found.tiers
    assert fast.need.capacity_bytes == pytest.approx((14 * day + 1e12) / 0.5), "other data is on the first"
    assert disk.need.capacity_bytes == pytest.approx((182.625 - 14) * day / 0.5)
    assert last.need.capacity_bytes == pytest.approx((730.5 - 182.625) * day / 0.5)
    assert fast.need.write_bytes_per_s == pytest.approx(150 * MB)
    assert fast.need.read_bytes_per_s == pytest.approx(300 * MB), "readers, and what moves to the disk"
    assert (disk.need.write_bytes_per_s, disk.need.read_bytes_per_s) == pytest.approx((150 * MB, 150 * MB))
    assert last.need.read_bytes_per_s == 0
    assert last.block is not None
    assert last.block.blocks == 1, "150 MB/s of 400 MB/s"
    assert last.block.media == math.ceil(last.need.capacity_bytes / 18e12)


def test_tier_that_no_data_reaches_is_empty_and_named() -> None:
    found = sized("30d", tiers=THREE)
    assert found.tiers[2].need.capacity_bytes == 0
    assert found.tiers[2].need.write_bytes_per_s == 0
    assert any("the tier tape stays empty: data expires after 30 days" in note for note in found.notes)
    assert not any("stays empty" in note for note in sized("2y", tiers=THREE).notes)


def test_growth_by_hand() -> None:
    """8.64 TB a day in the first year, a tenth more in each that follows."""
    found = sized("18mo", growth=0.1, years=3)
    year = 8.64e12 * YEAR_DAYS
    assert [each.written_bytes for each in found.years] == pytest.approx([year, 1.1 * year, 1.21 * year])
    assert [each.kept_bytes for each in found.years] == pytest.approx(
        [year, (0.5 + 1.1) * year, (0.55 + 1.21) * year]
    )
    assert [each.added_bytes for each in found.years] == pytest.approx([year, 0.6 * year, 0.16 * year])


def test_blocks_of_a_tier_grow_with_its_capacity_and_its_bandwidth() -> None:
    """A drive takes 400 MB/s, a cartridge 18 TB; 8.64 TB a day reach the tape after two weeks."""
    tiers = [Tier(name="fast", until_days=14), Tier(name="tape", block="lto-9")]
    found = sized("10y", tiers=tiers, growth=0.5, years=3)
    cartridges = [math.ceil(each.tier_bytes[1] / 18e12) for each in found.years]
    assert [each.tier_media for each in found.years] == [[0, number] for number in cartridges]
    assert [each.tier_blocks for each in found.years] == [[None, 1]] * 3, "capacity needs no further drive"
    fast = sized("15d", tiers=tiers, growth=1, years=4, headroom=3)
    assert [each.tier_blocks[1] for each in fast.years] == [1, 2, 4, 8], "400 MB/s, and twice that each year"


sources = st.lists(st.builds(Source, st.floats(0, 1e12), st.floats(0, 5000)), min_size=1, max_size=4)


@given(sources, st.floats(0, 4000), st.floats(0, 20000), st.floats(0, 1))
def test_tiers_share_what_is_kept(all_of: list[Source], age: float, at: float, growth: float) -> None:
    for when in (None, at):
        young, old = (
            kept_bytes(all_of, 0, age, when, growth),
            kept_bytes(all_of, age, at_days=when, growth=growth),
        )
        whole = kept_bytes(all_of, at_days=when, growth=growth)
        slack = 1e-6 * (whole + sum(written_bytes(s.bytes_per_s, at, growth) for s in all_of)) + 1
        assert young + old == pytest.approx(whole, abs=slack)
        assert min(young, old) >= -slack


@given(sources, st.floats(5001, 20000))
def test_without_growth_the_storage_fills_and_then_stays_full(all_of: list[Source], late: float) -> None:
    steady = kept_bytes(all_of)
    rounding = 1e-9 * sum(written_bytes(each.bytes_per_s, late) for each in all_of)
    assert kept_bytes(all_of, at_days=late) == pytest.approx(steady, rel=1e-6, abs=rounding + 1)
    assert steady == pytest.approx(sum(s.bytes_per_s * DAY_S * s.retention_days for s in all_of))


def test_levels_of_the_catalogue() -> None:
    ratios = {"low": 2, "typical": 5, "high": 10, "basis": "measured", "source": "our images"}
    known = DETECTOR.model_copy(update={"compression": None}).model_dump() | {"compression": ratios}
    detector = Detector.model_validate(known)
    compression = catalogue_compression(detector, "bslz4", "low", None)
    assert (compression.ratio, compression.speed_bytes_per_s) == (2, None)
    assert "low of the catalogue" in compression.ratio_from
    assert "our images" in compression.ratio_from
    wanted = Wanted(detector=detector, count=1, rate_hz=100.0, compression=compression)
    stated = Wanted(
        detector=DETECTOR, count=1, rate_hz=100.0, compression=Compression(encoding="bslz4", ratio=4)
    )
    found = size([wanted, stated], Assumptions(retention_days=1, fill=1))
    assert [each.level for each in found.scenarios] == ["low", "typical", "high"]
    stored = [100 / ratio + 25 for ratio in (2, 5, 10)]
    assert [each.stored_bytes_per_s for each in found.scenarios] == pytest.approx(
        [MB * each for each in stored]
    )
    assert found.scenarios[0].capacity_bytes == pytest.approx(found.need.capacity_bytes)
    assert found.cores is None, "the speed is unknown"
    assert not size([stated], Assumptions()).scenarios


def test_a_ratio_that_the_catalogue_does_not_have_is_said_to_be_unknown() -> None:
    compression = catalogue_compression(DETECTOR, "bslz4", "typical", None)
    found = size([Wanted(detector=DETECTOR, count=1, rate_hz=1, compression=compression)], Assumptions())
    assert found.detectors[0].compression.ratio == 1
    assert found.cores is None
    assert any(
        "the compression ratio of square is unknown, and assumed to be 1" in each for each in found.notes
    )
    assert catalogue_compression(DETECTOR, "none", "typical", None) == Compression()


@given(st.text(max_size=30))
def test_any_text_is_a_tier_or_an_error_for_the_user(text: str) -> None:
    try:
        tiers = [Tier.parse(text), Tier.parse("rest")]
        check_tiers(tiers)
    except UsageError as error:
        assert "--tier" in error.message
