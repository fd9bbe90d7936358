"""The building blocks that come with Penstock reproduce the figures that they name as their source."""

import pytest

from penstock.model.plan.blocks import BlockFigures, Need, figures_of, find_block
from penstock.programs.locate import blocks_folder

GIB, TB, PB = 2**30, 1e12, 1e15
NOTHING = Need(write_bytes_per_s=0, read_bytes_per_s=0, capacity_bytes=0)
NAMES = sorted(path.stem for path in blocks_folder().glob("*.yaml"))


def figures(name: str) -> BlockFigures:
    return figures_of(find_block(name, blocks_folder()), NOTHING)


@pytest.mark.parametrize(
    ("name", "shares", "written", "read"),
    [
        ("ceph-nvme-3-copies", 63, 270 * GIB, 1025 * GIB),
        ("ceph-nvme-6-2", 63, 387 * GIB, 547 * GIB),
        ("dell-beegfs-me4084", 1, 22e9, 23e9),
        ("minio-i3en", 32, 165 * GIB, 325 * GIB),
        ("orion-flash", 225, 10 * TB, 10 * TB),
        ("orion-disk", 225, 4.6 * TB, 5.5 * TB),
        ("alpine-ess-gl4", 77, 2.5 * TB, 2.5 * TB),
        ("fsx-lustre-1000", 1, 1e9, 1e9),
        ("lto-9", 1, 0.4e9, 0.4e9),
    ],
)
def test_as_many_blocks_as_the_source_had_sustain_what_it_states(
    name: str, shares: int, written: float, read: float
) -> None:
    found = figures(name)
    assert found.write_bytes_per_s * shares == pytest.approx(written, rel=0.002)
    assert found.read_bytes_per_s * shares == pytest.approx(read, rel=0.002)


@pytest.mark.parametrize(
    ("name", "shares", "capacity"),
    [
        ("orion-flash", 225, 11.5 * PB),
        ("orion-disk", 225, 679 * PB),
        ("alpine-ess-gl4", 77, 250 * PB),
        ("dell-beegfs-me4084", 1, 0.8 * 320 * 12 * TB),
    ],
)
def test_as_many_blocks_as_the_source_had_hold_what_it_states(
    name: str, shares: int, capacity: float
) -> None:
    assert figures(name).capacity_bytes * shares == pytest.approx(capacity, rel=0.002)


def test_twelve_blocks_have_a_source_and_say_what_each_number_is() -> None:
    honest = [name for name in NAMES if name != "nvme-server-example"]
    assert len(honest) >= 12
    for name in honest:
        found = figures(name)
        assert found.source, name
        assert found.url.startswith("https://") or name == "test-brick-gen2"
        for stage in found.stages:
            assert stage.basis in ("measured", "nominal"), (name, stage.name)
            assert stage.meaning, (name, stage.name)
    assert {stage.basis for stage in figures("nvme-server-example").stages} == {"made up"}
