"""`penstock plan` as a user runs it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench_documents import frames_document, run_of, searched, step_from, step_of, verdict_of
from jsonschema import Draft202012Validator
from typer.testing import CliRunner, Result

from penstock.bench.judge.checks import validity_of
from penstock.bench.run import codec_speed
from penstock.cli import application
from penstock.model.bench.campaigns import Campaign, Case, CaseRun
from penstock.model.bench.load import NullBackend
from penstock.model.bench.runs import Check, Run, StreamFigures
from penstock.model.catalogue import custom_detector
from penstock.model.plan.blocks import blocks_and_media
from penstock.model.plan.sizing import CodecMeasurement, Sizing
from penstock.model.units import human_bytes

SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "reference" / "sizing.schema.json"
BRICK = ("--write", "1TB/s", "--capacity", "100PB", "--headroom", "0", "--fill", "1", "--retention", "0")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(application, ["plan", *arguments], catch_exceptions=False)


def sizing(*arguments: str) -> Sizing:
    """Read by the model, and by the schema in the documentation with a validator of others."""
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(json.loads(result.stdout))
    return Sizing.model_validate_json(result.stdout)


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_detectors_with_a_ratio() -> None:
    found = sizing(
        *("2xeiger2-16m@100", "pilatus-6m", "--ratio", "8", "--codec-speed", "1GB/s", "--duty", "0.5"),
        *("--compressed-by", "recorder"),
    )
    frame = 4362 * 4148 * 2
    assert [each.count for each in found.detectors] == [2, 1]
    assert found.detectors[0].raw_bytes_per_s == pytest.approx(200 * frame)
    assert found.stored_bytes_per_s == pytest.approx(found.raw_bytes_per_s / 8)
    assert found.average_stored_bytes_per_s == pytest.approx(found.raw_bytes_per_s / 16)
    assert found.cores == 10
    assert found.detectors[0].compression.ratio_from == "stated"


def test_the_first_line_is_the_answer() -> None:
    lines = invoke("2xeiger2-16m@100").stdout.splitlines()
    assert lines[0] == "Needs 1.24 GB/s write, 2.98 PB, 1 recorder server (30 days at 100 % duty)"
    grows = invoke("2xeiger2-16m@100", "--growth", "20%").stdout.splitlines()[0]
    assert grows == f"{lines[0]}, at the rates of the first year; 20 % more each year"
    several = ("eiger2-16m@100,duty=0.3", "pilatus-6m", "--block", "lto-9", "--retention", "1y")
    first = invoke(*several).stdout.splitlines()[0]
    assert "at least 1 recorder server, 2 x LTO-9 drive, " in first
    assert first.endswith(" cartridges (1 year)"), "the duty cycles differ"


def test_an_assumed_duty_cycle_is_a_warning() -> None:
    def warns(*arguments: str) -> bool:
        return any("no duty cycle given" in note for note in sizing(*arguments).notes)

    assert warns("pilatus-6m")
    assert warns("pilatus-6m,duty=0.3", "eiger2-4m")
    for stated in (("--duty", "1"), ("--hours-per-day", "24")):
        assert not warns("pilatus-6m", *stated)
    assert not warns("pilatus-6m,duty=0.3")


def test_years_are_listed_up_to_the_retention() -> None:
    assert [len(sizing("pilatus-6m", "--retention", age).years) for age in ("30d", "10y", "99y")] == [
        5,
        10,
        30,
    ]
    assert len(sizing("pilatus-6m", "--retention", "10y", "--years", "3").years) == 3


def test_a_detector_that_sends_compressed_frames_takes_no_cores() -> None:
    found = sizing("eiger2-16m@100", "--ratio", "8", "--headroom", "0", "--link", "1GB/s")
    assert (found.detectors[0].compresses, found.cores) == ("detector", 0)
    assert found.links[0].in_ports == 1, "452 MB/s of 3.62 GB/s"
    shown = one_line(invoke("eiger2-16m@100").stdout)
    assert "cores for compression, with headroom none: the detectors compress" in shown
    assert "compresses the detector, which sends bslz4 (--compressed-by)" in shown
    assert "517 MB/s none " in shown, "the detector's row, whose cores are not 0"
    nothing = one_line(invoke("pilatus-6m", "--encoding", "none").stdout)
    assert "cores for compression, with headroom none: nothing is compressed" in nothing
    assert "cores: 0" not in shown + nothing
    for options in (("--compressed-by", "recorder"), ("--encoding", "bszstd")):
        again = sizing("eiger2-16m@100", "--ratio", "8", "--codec-speed", "1GB/s", *options)
        assert (again.detectors[0].compresses, again.cores) == ("recorder", 5)


def test_redundancy_requires_a_number_of_hosts() -> None:
    found = sizing("pilatus-6m", "--duty", "1", "--block", "ceph-nvme-6-2")
    (block,) = found.blocks
    assert (block.blocks, block.decides) == (8, "redundancy")
    shown = one_line(invoke("pilatus-6m", "--duty", "1", "--block", "ceph-nvme-6-2").stdout)
    assert "8 x Ceph node" in shown
    assert "8 blocks: redundancy 6+2 requires that many" in shown
    assert blocks_and_media(block, 1.0) == (8, 0), "in the years to come, too"


def test_too_few_hosts_to_rebuild_are_a_warning() -> None:
    def notes(*arguments: str) -> str:
        return " ".join(sizing("pilatus-6m", "--duty", "1", *arguments).notes)

    assert "failure domain requires 8; to rebuild after one fails it requires 9" in notes(
        "--block", "ceph-nvme-6-2"
    )
    assert "requires 3; to rebuild after one fails it requires 4" in notes(
        "--retention", "5d", "--tier", "all,block=ceph-nvme-3-copies"
    )
    assert "failure domain" not in notes("--block", "ceph-nvme-6-2", "--retention", "1y")
    assert "failure domain" not in notes("--block", "nvme-server-example"), "it is redundant by itself"


def test_the_tables_name_what_is_needed_and_what_is_assumed() -> None:
    options = ("--ratio", "8", "--block", "nvme-server-example", "--retention", "90d")
    shown = one_line(invoke("pilatus-6m", *options).stdout)
    for words in (
        "PILATUS 6M x 1 25 Hz",
        "unknown",
        "--codec-speed",
        "100 Gb/s",
        "network adapters",
        "the bottleneck is network adapters",
        "the capacity decides",
        "90 % (--fill)",
        "made up as an example",
    ):
        assert words in shown, words


def test_the_test_brick_from_the_command() -> None:
    (block,) = sizing(*BRICK, "--block", "test-brick-gen2").blocks
    assert (block.blocks, block.decides) == (131, "capacity")
    shown = one_line(invoke(*BRICK, "--block", "test-brick-gen2").stdout)
    assert "for the throughput 50 blocks, for the capacity 130.21" in shown


def test_a_custom_detector_and_a_rate() -> None:
    custom = ("--rows", "1000", "--columns", "1000", "--type", "uint16")
    assert sizing("3xcustom@10", *custom).raw_bytes_per_s == pytest.approx(60e6)
    assert "custom@HZ" in invoke("custom", *custom).stderr


def test_links_and_servers_of_a_choice() -> None:
    network = ("--link", "40Gb/s", "--link-efficiency", "1", "--server-bandwidth", "1GB/s")
    found = sizing("eiger2-16m@100", "--headroom", "0", "--compressed-by", "recorder", *network)
    assert [(link.bytes_per_s, link.in_ports, link.out_ports) for link in found.links] == [(5e9, 1, 1)]
    assert found.servers.servers == 4  # 3.62 GB/s


def test_markdown_is_a_new_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.md"
    assert invoke("pilatus-6m", "--block", "test-brick-gen2", "--markdown", str(file)).exit_code == 0
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# Capacity plan")
    assert "| drives | x 192 |" in text
    again = invoke("pilatus-6m", "--markdown", str(file))
    assert again.exit_code == 2
    assert str(file) in one_line(again.stderr)
    assert file.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["no detector, --beamlines, --write or --capacity given", "penstock detectors"]),
        (["nosuch"], ["nosuch", "penstock detectors"]),
        (["0xpilatus-6m"], ["0xpilatus-6m"]),
        (["eiger2-4m@100Hz"], ['rate "100Hz" in eiger2-4m@100Hz', "such as eiger2-4m@100"]),
        (["2*eiger2-4m"], ["write 2xeiger2-4m for 2 detectors"]),
        (["eiger2-4mx2@5"], ["write 2xeiger2-4m@5 for 2 detectors"]),
        (["2eiger2-4m"], ['unknown detector "2eiger2-4m"', "write 2xeiger2-4m for 2 detectors"]),
        (["3 eiger2-4m@5,ratio=2"], ["write 3xeiger2-4m@5,ratio=2 for 3 detectors"]),
        (["eiger2-4m,ratio=0.5"], ["below the minimum of 1"]),
        (["pilatus-6m", "--ratio", "0.5"], ["--ratio: 0.5 is below the minimum of 1"]),
        (["pilatus-6m", "--duty", "some"], ['--duty: "some" is not a share', "0.3 or 30%"]),
        (["pilatus-6m", "--duty", "1", "--hours-per-day", "8"], ["--duty and --hours-per-day"]),
        (["pilatus-6m", "--days-per-week", "8"], ["--days-per-week: 8", "at most 7"]),
        (["pilatus-6m", "--duty", "1.5"], ["--duty", "1.5"]),
        (["pilatus-6m", "--duty", "nan"], ["--duty", "nan"]),
        (["pilatus-6m", "--headroom", "-1"], ["--headroom", "-1"]),
        (["pilatus-6m", "--retention", "inf"], ["--retention", "inf", "2y"]),
        (["pilatus-6m", "--retention", "101y"], ["--retention", "101y", "100 years"]),
        (["pilatus-6m", "--retention", "3 parsecs"], ["--retention", "3 parsecs", "6mo"]),
        (["pilatus-6m", "--growth", "much"], ["--growth", "much", "20%"]),
        (["pilatus-6m", "--growth", "1100%"], ["--growth", "11 exceeds the maximum of 10"]),
        (["pilatus-6m", "--years", "0"], ["--years: 0 is below the minimum of 1"]),
        (["pilatus-6m", "--compression", "best"], ["--compression", "best", "typical"]),
        (["pilatus-6m", "--tier", "fast=2w"], ["--tier fast", "the last tier has no age"]),
        (["pilatus-6m", "--tier", "fast", "--tier", "tape"], ["--tier fast", "age", "missing"]),
        (
            ["pilatus-6m", "--tier", "a=2w", "--tier", "b=1w", "--tier", "c"],
            ["--tier b", "1 week", "2 weeks"],
        ),
        (["pilatus-6m", "--tier", "a=2w", "--tier", "a"], ["two tiers are called a"]),
        (["pilatus-6m", "--tier", "a=soon", "--tier", "b"], ["a=soon", "not an age"]),
        (["pilatus-6m", "--tier", "a=2w,blok=x", "--tier", "b"], ['unknown setting "blok"']),
        (["pilatus-6m", "--tier", "a=2w,block=nosuch", "--tier", "b"], ['unknown block "nosuch"']),
        (["eiger2-1m-w"], ["the rate of EIGER2 X 1M-W is unknown", "eiger2-1m-w@HZ"]),
        (["pilatus-6m", "--file", "x.yaml"], ["--file", "custom"]),
        (["custom", "--file", "absent.yaml"], ["absent.yaml", "does not exist"]),
        (["pilatus-6m", "--beamlines", "x.yaml"], ["--beamlines excludes the detector pilatus-6m"]),
        (["--beamlines", "absent.yaml"], ["absent.yaml", "does not exist"]),
        (["pilatus-6m", "--fill", "0"], ["--fill", "0"]),
        (["pilatus-6m", "--ratio", "nan"], ["--ratio", "nan"]),
        (["pilatus-6m", "--ratio", "0"], ["--ratio", "0"]),
        (["pilatus-6m", "--ratio", "2", "--images", "."], ["--ratio", "--images"]),
        (["pilatus-6m", "--encoding", "none", "--measure"], ["--encoding none", "--measure"]),
        (["pilatus-6m", "--codec-speed", "fast"], ["--codec-speed", "fast"]),
        (["pilatus-6m", "--codec-speed", "0 GB/s"], ["--codec-speed", "greater than 0"]),
        (["pilatus-6m", "--write", "1TB"], ["--write", "1TB"]),
        (["pilatus-6m", "--capacity", "lots"], ["--capacity", "lots"]),
        (["pilatus-6m", "--capacity", "5"], ["--capacity: 5 has no unit", "5 MB"]),
        (["pilatus-6m", "--link", "10"], ["--link", "10"]),
        (["pilatus-6m", "--link", "10Gb/s", "--link", "10Gbit/s"], ["twice"]),
        (["pilatus-6m", "--server-cores", "0"], ["--server-cores", "0"]),
        (["pilatus-6m", "--redundancy", "raid6"], ["--redundancy", "raid6", "8+2"]),
        (["pilatus-6m", "--rows", "5"], ["custom"]),
        (["pilatus-6m", "--block", "nosuch"], ["nosuch", "test-brick-gen2"]),
        (["pilatus-6m", "--measured", "x.json"], ["--block"]),
        (
            ["pilatus-6m", "--measured", "x.json", "--block", "lto-9", "--block", "test-brick-gen2"],
            ["--measured applies to one --block, 2 given"],
        ),
        (
            [
                "pilatus-6m",
                "--measured",
                "x.json",
                "--tier",
                "a=1d,block=lto-9",
                "--tier",
                "b,block=test-brick-gen2",
            ],
            ["--measured applies to one block", "lto-9, test-brick-gen2", "with --block"],
        ),
        (["pilatus-6m", "--block", "test-brick-gen2", "--measured", "absent.json"], ["absent.json"]),
    ],
)
def test_usage_errors_say_what_is_wrong(
    arguments: list[str], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    for word in words:
        assert word in one_line(result.stderr), result.stderr
    assert result.stdout == ""


def fast_run(seconds: float = 30.0, outcome: Any = "ok") -> Run:
    """As fast as it went: 300 MB in so many seconds."""
    document = frames_document(duration_s=seconds)
    workload = document.plan.workload.model_copy(update={"rate_hz": 0.0})
    plan = document.plan.model_copy(update={"workload": workload})
    check = Check(name="any", outcome=outcome, expected="", actual="", bias="better")
    return run_of(document.model_copy(update={"plan": plan}), [check])


@pytest.mark.parametrize(
    ("options", "duty"),
    [
        (("--hours-per-day", "8", "--days-per-week", "5"), 8 / 24 * 5 / 7),
        (("--hours-per-day", "6"), 0.25),
        (("--duty", "30%"), 0.3),
        ((), 1.0),
    ],
)
def test_duty_cycle_follows_from_working_hours(options: tuple[str, ...], duty: float) -> None:
    assert sizing("pilatus-6m", *options).assumptions.duty == pytest.approx(duty)


def test_verdict_that_cannot_tell_is_named_in_the_warnings(tmp_path: Path) -> None:
    steps = [step_of("rate", frames_document()), step_of("full speed", fast_run(10.0).document)]
    open_end = verdict_of(*steps, search=searched(held_hz=20.0, not_held_hz=None, ended="top"))
    unclear = open_end.model_copy(update={"answer": "cannot tell"})
    found = Sizing.model_validate_json(measured(tmp_path, unclear).stdout)
    assert found.blocks[0].measured is not None
    assert found.blocks[0].measured.answer == "cannot tell"
    assert "upper bound, not a recommendation" in found.notes[0]


def test_spares_are_counted_in_the_block() -> None:
    (block,) = sizing("pilatus-6m", "--block", "nvme-server-example").blocks
    assert (block.drives, block.spares, block.drive_bytes) == (24, 2, 15_360_000_000_000)


def test_unknown_cores_make_the_servers_a_lower_bound() -> None:
    assert "at least 1 (network: 1; cores: unknown" in one_line(invoke("pilatus-6m", "--ratio", "8").stdout)


def test_detectors_may_have_their_own_ratio_and_duty() -> None:
    found = sizing("eiger2-16m@100,ratio=8,duty=0.5", "eiger2-16m@100", "--retention", "1")
    own, other = found.detectors
    assert (own.compression.ratio, own.duty, other.compression.ratio, other.duty) == (8, 0.5, 7, 1)
    assert own.compression.catalogue is None
    assert found.average_stored_bytes_per_s == pytest.approx(own.raw_bytes_per_s * (0.5 / 8 + 1 / 7))


@pytest.mark.parametrize("text", ["eiger2-16m,ratio=x", "eiger2-16m,duty=2", "eiger2-16m,rat=3"])
def test_wrong_settings_of_a_detector_are_named(text: str) -> None:
    result = invoke(text)
    assert result.exit_code == 2
    assert text in result.stderr


def test_assumptions_have_ratio_and_codec_speed() -> None:
    shown = one_line(invoke("pilatus-6m", "--ratio", "8", "--codec-speed", "1GB/s").stdout)
    assert "compression ratio 8, stated (--ratio" in shown
    assert "codec speed 1 GB/s per core, stated (--codec-speed)" in shown


def with_conditions(**changes: object) -> Run:
    run = fast_run()
    return run.model_copy(update={"conditions": run.conditions.model_copy(update=changes)})


def with_document(**changes: object) -> Run:
    run = fast_run()
    return run.model_copy(update={"document": run.document.model_copy(update=changes)})


UNSUITABLE: dict[str, Callable[[], Run]] = {
    "in the memory of the machine": lambda: with_conditions(memory="tmpfs"),
    "interrupted": lambda: with_document(interrupted=True),
    "I/O error": lambda: with_document(problem="I/O error"),
    "--backend null": lambda: with_document(
        plan=fast_run().document.plan.model_copy(update={"backend": NullBackend()})
    ),
}


@pytest.mark.parametrize("words", UNSUITABLE)
def test_an_unsuitable_measurement_is_refused_by_name(words: str, tmp_path: Path) -> None:
    result = measured(tmp_path, UNSUITABLE[words]())
    assert result.exit_code == 2, result.output
    assert words in one_line(result.stderr)
    assert "measured-0.json" in result.stderr


def test_documents_of_different_file_systems_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(fast_run().model_dump_json(), encoding="utf-8")
    other = ("--measured", str(tmp_path / "a.json"))
    result = measured(tmp_path, with_conditions(file_system="lustre"), *other)
    assert result.exit_code == 2
    assert "lustre" in one_line(result.stderr)


def test_a_short_run_and_one_with_warnings_are_noted(tmp_path: Path) -> None:
    result = measured(tmp_path, fast_run(1.0, "warning"))
    notes = " ".join(Sizing.model_validate_json(result.stdout).notes)
    assert "a run took only" in notes
    assert "a run has warnings" in notes


def test_the_preliminary_run_of_a_verdict_is_not_noted(tmp_path: Path) -> None:
    """It enters no metric, and takes milliseconds."""
    probe = step_from("probe", fast_run(0.04, "warning"))
    steps = [probe, step_of("rate", frames_document()), step_of("full speed", fast_run(10.0).document)]
    result = measured(tmp_path, verdict_of(*steps, search=searched(held_hz=20.0)))
    notes = " ".join(Sizing.model_validate_json(result.stdout).notes)
    assert "a run took only" not in notes
    assert "a run has warnings" not in notes


def at_rate() -> Run:
    return run_of(frames_document(), [])


def measured(tmp_path: Path, document: Any, *more: str) -> Result:
    file = tmp_path / f"measured-{len(list(tmp_path.iterdir()))}.json"
    file.write_text(document.model_dump_json(), encoding="utf-8")
    return invoke(*BRICK, "--block", "test-brick-gen2", "--measured", str(file), *more, "--json")


def test_a_verdict_takes_the_place_of_the_computed_bandwidth(tmp_path: Path) -> None:
    """The highest rate that held, 20 Hz of 1 MB; how fast it went while it was waited for does not count."""
    steps = [step_of("rate", frames_document()), step_of("full speed", fast_run(10.0).document)]
    result = measured(tmp_path, verdict_of(*steps, search=searched(held_hz=20.0)))
    assert result.exit_code == 0, result.stderr
    (block,) = Sizing.model_validate_json(result.stdout).blocks
    assert block.write_bytes_per_s == pytest.approx(20e6)
    assert block.measured is not None
    assert block.measured.validity == "valid"
    assert (block.blocks, block.decides) == (50_000, "throughput")


def test_a_tier_of_the_measured_block_has_the_measured_bandwidth(tmp_path: Path) -> None:
    tiers = ("--tier", "fast=30d,block=test-brick-gen2", "--tier", "old,block=nvme-server-example")
    result = measured(tmp_path, fast_run(10.0), *tiers)
    assert result.exit_code == 0, result.stderr
    found = Sizing.model_validate_json(result.stdout)
    fast, old = (tier.block for tier in found.tiers)
    assert fast is not None
    assert old is not None
    assert fast.write_bytes_per_s == found.blocks[0].write_bytes_per_s == pytest.approx(30e6)
    assert old.measured is None


def test_measurement_applies_to_the_only_block_of_the_tiers(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(fast_run(10.0).model_dump_json(), encoding="utf-8")
    tiers = (
        "--tier",
        "fast=2d,block=test-brick-gen2",
        "--tier",
        "slow=30d,block=test-brick-gen2",
        "--tier",
        "old",
    )
    found = sizing(*BRICK, "--measured", str(tmp_path / "run.json"), "--retention", "90d", *tiers)
    fast, slow, old = (tier.block for tier in found.tiers)
    assert fast is not None
    assert slow is not None
    assert old is None
    assert fast.write_bytes_per_s == slow.write_bytes_per_s == pytest.approx(30e6)
    assert found.blocks == []


def test_headline_of_tiers_names_their_blocks_and_capacity() -> None:
    options = ("eiger2-4m", "--hours-per-day", "8", "--days-per-week", "5", "--retention", "30d")
    tiers = ("--tier", "fast=3d,block=test-brick-gen2", "--tier", "old,block=nvme-server-micron-7450")
    found = sizing(*options, *tiers)
    fast, old = (tier.block for tier in found.tiers)
    assert fast is not None
    assert old is not None
    shown = invoke(*options, *tiers).stdout
    headline = shown.splitlines()[0]
    together = human_bytes(sum(tier.need.capacity_bytes for tier in found.tiers))
    assert together != human_bytes(found.need.capacity_bytes)
    assert f", {together}, " in headline
    assert f"; tier fast: {fast.blocks} x {fast.name}; tier old: {old.blocks} x {old.name} (" in headline
    assert f"capacity of the tiers together {together}" in one_line(shown)
    with_block = invoke(*options, *tiers, "--block", "test-brick-gen2").stdout.splitlines()[0]
    assert f"{old.name}; without tiers: " in with_block


def test_parity_is_missing_only_from_tiers_without_a_block() -> None:
    def notes(*tiers: str) -> str:
        options = [word for tier in tiers for word in ("--tier", tier)]
        return " ".join(sizing("eiger2-4m", "--retention", "30d", *options).notes)

    first, second = "fast=3d,block=test-brick-gen2", "old,block=nvme-server-micron-7450"
    assert "data only" not in notes(first, second)
    assert "the capacity of 1 tier (old) is for data only: --redundancy" in notes(first, "old")
    assert "the capacity is for data only: --redundancy" in notes("fast=3d", "old")


def test_rate_above_that_of_the_catalogue_is_noted() -> None:
    note = "560 Hz exceeds the maximum of the EIGER2 X 4M, 500 Hz"
    assert any(note in each for each in sizing("2xeiger2-4m@560").notes)
    assert not any("exceeds" in each for each in sizing("eiger2-4m@500").notes)
    assert not any("exceeds" in each for each in sizing("custom@500", "--rows", "9", "--columns", "9").notes)


def test_frames_of_another_size_than_the_measured_ones_are_named(tmp_path: Path) -> None:
    """Those were of 1 MB. A storage carries more of large frames than of small ones."""
    (tmp_path / "run.json").write_text(fast_run().model_dump_json(), encoding="utf-8")
    with_block = ("--block", "test-brick-gen2", "--measured", str(tmp_path / "run.json"))
    small = ("2xcustom@100", "--rows", "100", "--columns", "100", "--type", "uint16")
    notes = sizing(*small, *with_block).notes
    assert any("measured with frames of 1 MB; one of" in note and "20 kB" in note for note in notes), notes
    same = ("custom@100", "--rows", "1000", "--columns", "500", "--type", "uint16")
    assert not any("measured with frames" in note for note in sizing(*same, *with_block).notes)


def test_a_plan_without_a_detector_assumes_nothing_of_recorders() -> None:
    shown = one_line(invoke("--write", "1GB/s").stdout)
    assert "(--duty," in shown
    assert not any(words in shown for words in ("--compressed-by", "--server-cores", "codec speed"))


def shown_with(tmp_path: Path, *documents: Any, options: tuple[str, ...] = ()) -> str:
    files = []
    for number, document in enumerate(documents):
        files += ["--measured", str(tmp_path / f"{number}.json")]
        (tmp_path / f"{number}.json").write_text(document.model_dump_json(), encoding="utf-8")
    result = invoke(*BRICK, "--block", "test-brick-gen2", *files, *options)
    assert result.exit_code == 0, result.stderr
    return one_line(result.stdout)


def test_what_a_verdict_found_at_least_is_no_more_than_a_bound(tmp_path: Path) -> None:
    """Nothing that was tried was too much for the block: fewer of them may do."""
    steps = [step_of("rate", frames_document()), step_of("full speed", fast_run(10.0).document)]
    open_end = verdict_of(*steps, search=searched(held_hz=20.0, not_held_hz=None, ended="top"))
    shown = shown_with(tmp_path, open_end, options=("--read-factor", "1"))
    for words in (
        "a block writes at least 20 MB/s",
        "it reads at least 20 MB/s, assumed equal to writing: reading was not measured",
        "for the throughput at most 100000 blocks",
        "at most 100000 blocks: the throughput decides",
        "at most 100000 x Test Brick Gen 2, whose limit was not measured",
        "is an upper bound, not a recommendation: measure with a larger --search-max",
    ):
        assert words in shown, shown
    result = measured(tmp_path, open_end)
    (block,) = Sizing.model_validate_json(result.stdout).blocks
    assert block.measured is not None
    assert block.measured.at_least
    bracket = verdict_of(*steps, search=searched(held_hz=20.0, not_held_hz=21.0))
    assert "at least" not in shown_with(tmp_path, bracket)
    assert "at least" in shown_with(tmp_path, bracket, open_end), "a median with a bound in it is a bound"


def test_tiers_show_the_same_bound_everywhere(tmp_path: Path) -> None:
    steps = [step_of("rate", frames_document()), step_of("full speed", fast_run(10.0).document)]
    open_end = verdict_of(*steps, search=searched(held_hz=20.0, not_held_hz=None, ended="top"))
    (tmp_path / "verdict.json").write_text(open_end.model_dump_json(), encoding="utf-8")
    tiers = ("--tier", "fast=2d,block=test-brick-gen2", "--tier", "old")
    shown = invoke(*BRICK, "--retention", "30d", *tiers, "--measured", str(tmp_path / "verdict.json")).stdout
    words = one_line(shown).split()
    numbers = [n for n, word in enumerate(words) if word == "100000"]
    before = [" ".join(words[n - 2 : n]) for n in numbers]
    assert len(numbers) > 3
    assert [each for each in before if each not in ("at most", "(answer: yes);")] == []


def test_a_tier_that_fills_up_needs_no_more_than_the_bound_at_first(tmp_path: Path) -> None:
    """In the last years the capacity decides, so the number of blocks is exact."""
    steps = [step_of("rate", frames_document()), step_of("full speed", fast_run(10.0).document)]
    open_end = verdict_of(*steps, search=searched(held_hz=20.0, not_held_hz=None, ended="top"))
    (tmp_path / "verdict.json").write_text(open_end.model_dump_json(), encoding="utf-8")
    detector = ("2xeiger2-4m", "--hours-per-day", "8", "--days-per-week", "5", "--retention", "10y")
    tiers = ("--tier", "fast=3d", "--tier", "old,block=disk-server-exos-x20", "--years", "8")
    shown = invoke(*detector, *tiers, "--measured", str(tmp_path / "verdict.json")).stdout
    table = shown[shown.index("kept at its end") :]
    bounds = [
        "at most" in next(line for line in table.splitlines() if line.strip().startswith(f"{year} "))
        for year in range(1, 9)
    ]
    assert bounds[0]
    assert not bounds[-1]


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (lambda rate, fast: verdict_of(rate), "its unpaced run is missing, and it has no search"),
        (
            lambda rate, fast: verdict_of(rate, fast.model_copy(update={"outcome": "invalid"})),
            "its unpaced run is invalid, and it has no search",
        ),
        (
            lambda rate, fast: verdict_of(rate, fast, search=searched(held_hz=None, not_held_hz=1.0)),
            "its search found no sustained rate",
        ),
        (lambda rate, fast: verdict_of(rate, problem="interrupted"), "it is incomplete (interrupted)"),
    ],
)
def test_verdict_without_a_throughput_says_why(tmp_path: Path, document: Any, why: str) -> None:
    rate, fast = step_of("rate", frames_document()), step_of("full speed", fast_run(10.0).document)
    found = document(rate, fast)
    assert found.measured_bytes_per_s is None
    result = measured(tmp_path, found.model_copy(update={"answer": "cannot tell"}))
    assert result.exit_code == 2
    assert f"does not have the throughput that the storage sustains: {why}" in one_line(result.stderr)


def test_a_generator_that_was_the_limit_shows_a_bound(tmp_path: Path) -> None:
    """A quick verdict: as fast as it went, which is near what the generator does without storage."""
    rate, fast = step_of("rate", frames_document()), step_of("full speed", fast_run(10.0).document)

    def shown(ceiling_hz: float) -> str:
        limited = rate.model_copy(update={"run": rate.run.model_copy(update={"ceiling_hz": ceiling_hz})})
        return shown_with(tmp_path, verdict_of(limited, fast))

    assert "a block writes at least 30 MB/s" in shown(40.0)
    assert "a block writes 30 MB/s" in shown(100.0)


def test_reads_are_never_taken_for_writes(tmp_path: Path) -> None:
    phases = [("write", 2.0), ("read", 8.0)]
    figures = [
        StreamFigures(
            phase=phase,
            bytes=10**8,
            bytes_per_s=value * 1e7,
            first_done_s=10.0,
            last_done_s=10.0,
            service_ms={"p50": 1, "p90": 1, "p99": 1, "p999": 1, "max": 1},
            cached_share=0.0,
            mismatches=0,
        )
        for phase, value in phases
    ]
    run = fast_run().model_copy(update={"workload": "stream", "frames": None, "streams": figures})
    shown = shown_with(tmp_path, run)
    assert "a block writes 20 MB/s" in shown
    assert "it reads 80 MB/s" in shown
    assert "not measured" not in shown
    reads_alone = run.model_copy(update={"streams": figures[1:]})
    refused = measured(tmp_path, reads_alone)
    assert refused.exit_code == 2
    assert "only reads" in one_line(refused.stderr)


def test_of_several_runs_the_median_counts(tmp_path: Path) -> None:
    campaign = Campaign(
        name="c",
        title="t",
        seed=1,
        blocks=3,
        cases=[Case(name="a")],
        runs=[CaseRun(case="a", block=n, run=fast_run(s, o)) for n, (s, o) in enumerate(
            [(10.0, "ok"), (15.0, "warning"), (60.0, "ok")])],
    )  # fmt: skip
    (block,) = Sizing.model_validate_json(measured(tmp_path, campaign).stdout).blocks
    assert block.measured is not None
    assert block.measured.write_bytes_per_s == pytest.approx(20e6)
    assert block.measured.validity == "warned"
    assert "median of 3 runs" in block.measured.source
    two = campaign.model_copy(update={"cases": [Case(name="a"), Case(name="b")]})
    refused = measured(tmp_path, two)
    assert refused.exit_code == 2
    assert "2 cases" in one_line(refused.stderr)


def test_an_invalid_run_is_refused(tmp_path: Path) -> None:
    run = fast_run(outcome="failed")
    assert validity_of(run.checks) == "invalid"
    result = measured(tmp_path, run)
    assert result.exit_code == 4
    assert "invalid" in result.stderr


def test_a_run_at_a_rate_is_no_measurement_of_the_most(tmp_path: Path) -> None:
    result = measured(tmp_path, at_rate())
    assert result.exit_code == 2
    assert "unpaced" in one_line(result.stderr)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"format": "penstock-run 1"}', '{"format": ["x"]}', "[" * 100_000, "\xff", "NaN"],
)
def test_what_is_no_document_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    file.write_bytes(text.encode("latin-1"))
    result = invoke("pilatus-6m", "--block", "test-brick-gen2", "--measured", str(file))
    assert result.exit_code == 2
    assert str(file) in one_line(result.stderr)


def test_the_recorder_measures_what_a_core_compresses(programs: dict[str, Path]) -> None:
    """Simulated frames, through the recorder itself; the ratio stays when the speed is stated."""
    found = sizing("custom@1000", "--rows", "256", "--columns", "256", "--measure", "--encoding", "bslz4")
    (detector,) = found.detectors
    compression = detector.compression
    assert compression.simulated
    assert compression.ratio > 1.5
    assert compression.speed_bytes_per_s is not None
    assert compression.speed_bytes_per_s > 0
    assert found.cores is not None
    assert found.cores == -(-found.raw_bytes_per_s * 1.2 // compression.speed_bytes_per_s)
    assert any("simulated" in note for note in found.notes)


def test_a_speed_from_a_busy_machine_is_doubted(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured_beside(share: float) -> str:
        found = CodecMeasurement(
            encoding="bslz4",
            images="frames",
            ratio=8,
            bytes_per_s=1e9,
            frames=1,
            raw_bytes=1,
            processor="p",
            simulated=True,
            others_share=share,
        )
        monkeypatch.setattr(codec_speed, "measure_codec", lambda *_: found)
        detector = custom_detector(8, 8, None)
        (compression,) = codec_speed.compressions([detector], "bslz4", None, None, True, [], lambda _: None)
        return compression.speed_doubt

    assert measured_beside(0.05) == ""
    assert "70 % of the processors" in measured_beside(0.7)


def test_images_are_measured_in_the_place_of_simulated_frames(
    programs: dict[str, Path], tmp_path: Path
) -> None:
    import numpy

    numpy.save(tmp_path / "images.npy", numpy.zeros((2, 512, 512), numpy.uint16))
    found = sizing("pilatus-6m", "--images", str(tmp_path / "images.npy"), "--codec-speed", "1GB/s")
    (detector,) = found.detectors
    assert not detector.compression.simulated
    assert "2 recorded images" in detector.compression.ratio_from
    assert detector.compression.ratio > 50, "nothing but zeros"
    assert detector.compression.speed_from == "stated"
    assert detector.frame_bytes == 2463 * 2527 * 4, "the detector keeps its shape"
