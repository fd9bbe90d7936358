"""Sizes and addresses: what is understood, what is refused, and that writing and reading agree."""

from pathlib import Path

import pytest
from conftest import Run
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.configuration import TCP_PORT, TcpSource
from penstock.model.errors import UsageError
from penstock.model.plans import TcpTarget
from penstock.model.units import (
    format_size,
    human_bytes,
    human_hz,
    human_number,
    human_percent,
    human_rate,
    human_seconds,
    human_size,
    is_loopback,
    parse_bandwidth,
    parse_size,
    split_address,
)
from penstock.programs.simulate import parse_target


def test_an_address_alone_is_that_of_a_recorder() -> None:
    assert parse_target("127.0.0.1:9977", None) == parse_target("tcp://127.0.0.1:9977", None)


@pytest.mark.parametrize("text", ["127.0.0.1:9977", "localhost", ":9977", "[::1]:9977", "[::1]", "10.1.2.3"])
def test_target_of_the_simulator_accepts_every_address_that_a_recorder_listens_on(text: str) -> None:
    listened = TcpSource.model_validate({"kind": "tcp", "listen": text})
    found = parse_target(text, None)
    assert isinstance(found, TcpTarget)
    assert (found.host, found.port) == split_address(listened.listen, TCP_PORT)


@pytest.mark.parametrize("text", ["udp://x", "somewhere", "some where", "x:y", "/data", "host:70000", "a?b"])
def test_target_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_target(text, None)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("4096 B", 4096),
        ("8 MiB", 8 << 20),
        ("8MiB", 8 << 20),
        ("1.5 GB", 1_500_000_000),
        ("1 GiB", 1 << 30),
        (" 2kB ", 2000),
        ("0.5 KiB", 512),
    ],
)
def test_sizes_are_understood(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize(
    "text", ["", "GiB", "-1", "1 gib", "1e9", "1 MiB MiB", "٣", "0.3 B", "9999999 PiB", "1,5 GB"]
)
def test_what_is_no_size_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


@pytest.mark.parametrize(("text", "example"), [("2", "2"), ("1.5", "1.5"), ("304842000", "2")])
def test_size_or_bandwidth_without_unit_is_rejected(text: str, example: str) -> None:
    with pytest.raises(ValueError, match=f"{text} has no unit; write for example {example} MB"):
        parse_size(text)
    with pytest.raises(ValueError, match=f"{text} has no unit; write for example {example} GB/s$"):
        parse_bandwidth(text)


@pytest.mark.parametrize(
    ("text", "bytes_per_s"),
    [
        ("1gbit", 125e6),
        ("1Gbit", 125e6),
        ("100mbit", 12.5e6),
        ("10 KBIT", 1250),
        ("2.5gbit/s", 312.5e6),
        ("1Gb/s", 125e6),
        ("1GB/s", 1e9),
    ],
)
def test_bandwidths_are_understood_as_tc_writes_them(text: str, bytes_per_s: float) -> None:
    assert parse_bandwidth(text) == bytes_per_s


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("100mbps", "100MB/s for bytes or 100Mb/s for bits"),
        ("10Gbps", "10GB/s for bytes or 10Gb/s for bits"),
        ("10kbps", "10kB/s for bytes or 10kb/s for bits"),
    ],
)
def test_bandwidth_that_may_be_of_bytes_or_bits_is_refused(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"{text} is ambiguous.*{hint}"):
        parse_bandwidth(text)


@given(st.integers(0, 2**63 - 1))
def test_a_written_size_reads_back(count: int) -> None:
    assert parse_size(format_size(count)) == count
    assert parse_size(f"{count} B") == count


@given(st.integers(0, 10**6), st.sampled_from(["kB", "MB", "GB", "KiB", "MiB", "GiB"]))
def test_units_scale(count: int, unit: str) -> None:
    assert parse_size(f"{count} {unit}") == count * parse_size(f"1 {unit}")


@given(st.text(max_size=20))
def test_any_text_is_a_size_or_a_value_error(text: str) -> None:
    try:
        assert parse_size(text) >= 0
    except ValueError as error:
        assert "size" in str(error) or "unit" in str(error)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9900", ("127.0.0.1", 9900)),
        ("localhost", ("localhost", 77)),
        (":0", ("127.0.0.1", 0)),
        ("[::1]:80", ("::1", 80)),
        ("[::1]", ("::1", 77)),
    ],
)
def test_addresses(text: str, expected: tuple[str, int]) -> None:
    assert split_address(text, 77) == expected


@pytest.mark.parametrize("text", ["a:b", "1.2.3.4:65536", "::1:80", "a b:1", "h:1:2", "[zz]:1"])
def test_bad_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"address|port"):
        split_address(text, 77)


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
    ]
    + [(host, False) for host in ("127.0.0.1.example.org", "10.0.0.1", "localhost.example.org")],
)
def test_loopback(host: str, local: bool) -> None:
    assert is_loopback(host) is local


def test_human_figures() -> None:
    assert human_bytes(0) == "0 B"
    assert human_bytes(24_895_604) == "24.9 MB"
    assert human_bytes(999_900_000) == "1 GB"
    assert human_rate(622e6) == "622 MB/s"
    assert human_seconds(0.000012) == "12 µs"
    assert human_seconds(0.0123) == "12.3 ms"
    assert human_seconds(7500) == "2 h 05 min"


def test_times_that_stand_beside_milliseconds_are_in_milliseconds() -> None:
    assert [human_seconds(each) for each in (0.000881, 0.000235, 0.0001)] == [
        "0.881 ms",
        "0.235 ms",
        "0.1 ms",
    ]
    assert human_seconds(0) == "0 s"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (12345.0, "12300"),
        (999.6, "1000"),
        (-24480.0, "-24500"),
        (0.000012, "0.000012"),
        (1.5, "1.5"),
        (3e20, "3e+20"),
    ],
)
def test_numbers_have_three_digits_and_no_exponent(value: float, text: str) -> None:
    assert human_number(value) == text


@given(st.floats(1e-9, 9.9e14))
def test_a_rounded_number_is_near_what_it_was(value: float) -> None:
    text = human_number(value)
    assert "e" not in text
    assert float(text) == pytest.approx(value, rel=0.00501)


def test_quantities_that_round_up_have_the_next_unit() -> None:
    assert human_seconds(0.99996) == "1 s"
    assert human_seconds(0.00099996) == "1 ms"
    assert human_seconds(0.0000996) == "0.0996 ms"
    assert human_seconds(119.7) == "2 min"
    assert human_bytes(999_960) == "1 MB"
    assert human_percent(123.45) == "12300 %"
    assert human_percent(0.983, sign="+") == "+98.3 %"
    assert human_hz(20_000.0) == "20000 Hz"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1 << 20, "1 MiB"),
        (1_000_000, "1 MB"),
        (1 << 30, "1 GiB"),
        (2_500_000, "2.5 MB"),
        (512, "512 B"),
        (4096, "4 KiB"),
        (12_479_616, "12.5 MB"),
        (100 * 12_479_616, "1.25 GB"),
        (0, "0 B"),
    ],
)
def test_a_size_is_told_as_it_was_chosen(count: int, text: str) -> None:
    assert human_size(count) == text


def test_what_is_no_number_or_below_zero_has_words() -> None:
    """A figure of a document that somebody else has written may be anything."""
    inf, nan = float("inf"), float("nan")
    assert [human_seconds(each) for each in (inf, -inf, nan)] == ["inf s", "-inf s", "nan s"]
    assert [human_seconds(each) for each in (-5, -0.0123, -1e-9, -0.0)] == [
        "-5 s",
        "-12.3 ms",
        "0 s",
        "0 s",
    ]
    assert human_seconds(-1e305) == "-1e+305 s"
    assert "1000" not in human_seconds(0.0009995)
    assert (human_size(-5), human_size(-(1 << 20))) == ("-5 B", "-1 MiB")
    assert (human_number(nan, 3, "+"), human_number(inf, 3, "+")) == ("nan", "+inf")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (4096, "4 KiB"),
        (1000, "1 kB"),
        (20_000_000, "20 MB"),
        (100_000_000_000, "100 GB"),
        (512_000, "500 KiB"),
        (1234, "1234 B"),
        (1000 << 20, "1000 MiB"),
    ],
)
def test_a_size_is_written_with_few_digits_and_exactly(count: int, text: str) -> None:
    assert format_size(count) == text
    assert parse_size(text) == count


@pytest.mark.parametrize(
    ("command", "option", "said"),
    [
        ("analysis", "--file-size=1kB", "--file-size: 1 kB is below the minimum of 1 MB"),
        ("uvbuffer", "--file-size=2GiB", "--file-size: 2 GiB exceeds the maximum of 1 GiB"),
        ("seismic-sort", "--memory=1MiB", "--memory: 1 MiB is below the minimum of 4 MiB"),
    ],
)
def test_a_limit_of_a_size_has_a_unit(run: Run, tmp_path: Path, command: str, option: str, said: str) -> None:
    done = run("bench", command, str(tmp_path), option, "--dry-run")
    assert done.returncode == 2
    assert said in done.stderr


def test_help_has_the_range_of_a_size_with_units(run: Run) -> None:
    shown = " ".join(run("bench", "analysis", "--help").stdout.split())
    assert "Approximate size of a file (1 MB to 100 GB). [default: 20MB]" in shown
