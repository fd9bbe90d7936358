"""The YAML configuration and the options over it: what is accepted, and what an error tells."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from penstock.model.catalogue import custom_detector
from penstock.model.configuration import Configuration, read_token
from penstock.model.errors import ExitCode, UsageError
from penstock.model.overrides import RecordOptions, configuration_from, sources_left_out
from penstock.model.plans import NexusPlan, TcpSourcePlan
from penstock.model.yaml_file import parse_yaml, read_yaml
from penstock.programs.simulate import parse_rate


def message(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse_yaml(text, Configuration, "c.yaml")
    assert caught.value.code == ExitCode.USAGE
    assert caught.value.remedy
    return caught.value.message


def test_units_and_nesting() -> None:
    text = """
folder: /data
pool_bytes: 2 GiB
sources:
  - kind: tcp
    listen: 127.0.0.1:0
  - kind: zmq
    endpoint: tcp://10.0.0.5:31001
codec: {encoding: zstd, level: 3}
store: {segment_bytes: 16 MiB, durability: interval}
"""
    configuration = parse_yaml(text, Configuration, "c.yaml")
    plan = configuration.plan({})
    assert plan.pool_bytes == 2 << 30
    assert plan.store.segment_bytes == 16 << 20
    assert plan.store.durability == "interval"
    assert [source.kind for source in plan.sources] == ["tcp", "zmq"]
    assert plan.codec.level == 3


def test_a_file_of_comments_gives_the_defaults() -> None:
    assert parse_yaml("# nothing\n", Configuration, "c.yaml") == Configuration()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("folder: x\npool_bytes: 1 parsec\n", ["c.yaml:2", "pool_bytes", "1 parsec", "1 GiB"]),
        ("threads: 0\n", ["c.yaml:1", "threads", "0 is below the minimum of 1"]),
        ("codec:\n  encoding: rle\n", ["c.yaml:2", "codec.encoding", "'bslz4'", '"rle"']),
        ("\n \n", ["c.yaml", "empty"]),
        ("folder: 3\n", ["c.yaml:1", "folder", "3 is not a path"]),
        ("sources: [{kind: zmq, endpoint: 'tcp://10.1.2.3'}]\n", ["no port", "tcp://10.1.2.3:31001"]),
        ("sources: [{kind: tcp, listen: abc}]\n", ["abc", "not an address", "127.0.0.1:9900"]),
        ("colour: red\n", ["c.yaml:1", "unknown field `colour`"]),
        ("store:\n  direct: true\n  speed: 9\n", ["c.yaml:3", "unknown field `store.speed`"]),
        ("sources:\n  - kind: tcp\n  - kind: zmq\n", ["c.yaml:3", "sources[1].endpoint", "missing"]),
        ("sources: [{kind: carrier-pigeon}]\n", ["sources[0]", "carrier-pigeon", "'tcp', 'zmq'"]),
        ("sources:\n  - kind: tcp\n    listen: 1.2.3.4:99999\n", ["c.yaml:3", "99999", "65535"]),
        (
            "sources:\n  - {kind: zmq, endpoint: nowhere}\n",
            ["sources[0]", "nowhere", "tcp://127.0.0.1:31001"],
        ),
        ("sources:\n  - {kind: zmq, endpoint: 'tcp://*:31001', bind: true}\n", ["tcp://*:31001", "loopback"]),
        ("threads: 2\nthreads: 3\n", ["c.yaml:1", "duplicate field `threads`"]),
        ("store: {alignment_bytes: 5000}\n", ["alignment_bytes", "5000", "power of two"]),
        ("store: {segment_bytes: 8 MiB, extent_bytes: 4 MiB}\n", ["4 MiB", "8 MiB"]),
        ("codec: {encoding: deflate, level: 12}\n", ["12", "deflate"]),
        ("file_name: '../{series_id}.h5'\n", ["file_name", "folder"]),
        ("file_name: '{user}.h5'\n", ["file_name", "{series_unique_id}"]),
        ("file_name: .hidden\n", ["file_name", "hidden"]),
        ("machine: {write: all}\n", ["c.yaml:1", "machine.write", "all", "0,4-7"]),
        ("machine: {huge_pages: giant}\n", ["machine.huge_pages", "'explicit'", "giant"]),
        ("metrics: {listen: '10.1.2.3:9810'}\n", ["metrics.listen", "10.1.2.3:9810", "SSH tunnel"]),
        ("stall_limit_ms: -5\n", ["stall_limit_ms", "-5 is below the minimum of 0"]),
        ("- 1\n- 2\n", ["field: value"]),
        ("folder: [\n", ["c.yaml", "not YAML"]),
        ("store: &a {direct: true}\ncodec: *a\n", ["alias"]),
        ("folder: 2026-45-99", ["is not YAML", "month"]),
        (f"pool_bytes: {'9' * 5000}", ["is not YAML", "digits"]),
    ],
)
def test_errors_name_line_field_value_and_what_is_allowed(text: str, words: list[str]) -> None:
    said = message(text)
    for word in words:
        assert word in said, said


def test_all_problems_are_told_at_once() -> None:
    said = message("threads: 0\npool_bytes: 1\n")
    assert "threads" in said
    assert "pool_bytes" in said


@given(st.text(max_size=60))
def test_any_text_is_a_configuration_or_a_usage_error(text: str) -> None:
    try:
        parse_yaml(text, Configuration, "c.yaml")
    except UsageError as error:
        assert error.message.startswith("c.yaml")


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.yaml"):
        read_yaml(tmp_path / "absent.yaml", Configuration)


def test_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(UsageError, match="exceeds the maximum size of 1 MiB"):
        read_yaml(Path("/dev/zero"), Configuration)


def test_beyond_loopback_a_token_is_required(tmp_path: Path) -> None:
    configuration = Configuration.model_validate({"sources": [{"kind": "tcp", "listen": "0.0.0.0:9900"}]})
    with pytest.raises(UsageError, match="token"):
        configuration.plan({})
    plan = configuration.plan({"PENSTOCK_TOKEN": "secret"})
    assert plan.sources == [TcpSourcePlan(host="0.0.0.0", port=9900, token="secret")]
    assert "secret" not in plan.without_tokens().model_dump_json()
    token = tmp_path / "token"
    token.write_text("from-file\n")
    token.chmod(0o600)
    named = configuration_from(None, RecordOptions(listen=["0.0.0.0:1"], token_file=token)).plan({})
    assert named.sources == [TcpSourcePlan(host="0.0.0.0", port=1, token="from-file")]
    token.write_text("\n")
    with pytest.raises(UsageError, match="empty"):
        configuration_from(None, RecordOptions(listen=["0.0.0.0:1"], token_file=token)).plan({})


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_token_that_others_may_read_or_write_is_refused_with_what_mends_it(
    tmp_path: Path, mode: int
) -> None:
    token = tmp_path / "a token"
    token.write_text("secret\n")
    token.chmod(mode)
    with pytest.raises(UsageError, match=f"{mode:04o}") as refused:
        read_token(token, {})
    assert f"chmod 600 '{token}'" in str(refused.value.remedy)


@pytest.mark.parametrize("mode", ["0400", "0700", "0646x", "777", "8"])
def test_a_mode_with_which_no_file_can_be_recorded_is_refused(mode: str) -> None:
    with pytest.raises(ValueError, match="file_mode"):
        Configuration.model_validate({"file_mode": mode})


def test_the_mode_of_files_is_an_option_of_the_program_and_not_in_its_plan() -> None:
    plan = Configuration.model_validate({"file_mode": "0640"}).plan({})
    assert plan.file_mode == "0640"
    assert "file_mode" not in plan.model_dump()


def test_sources_that_options_replace_are_told(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("sources:\n  - {kind: zmq, endpoint: 'tcp://module:1'}\n  - {kind: tcp}\n")
    assert sources_left_out(path, RecordOptions(listen=["127.0.0.1:0"])) == [
        "zmq tcp://module:1",
        "tcp 127.0.0.1:9900",
    ]
    assert sources_left_out(path, RecordOptions(given={("threads",): 2})) == []
    path.write_text("threads: 3\n")
    assert sources_left_out(path, RecordOptions(listen=["127.0.0.1:0"])) == []


def test_options_override_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "threads: 3\nfolder: /from/file\ncodec: {encoding: zstd, level: 5}\nstore: {direct: false}\n"
    )
    options = RecordOptions(
        given={
            ("folder",): Path("/from/option"),
            ("codec", "level"): 7,
            ("store", "durability"): "segment",
            ("series_limit",): 2,
        }
    )
    configuration = configuration_from(path, options)
    assert configuration.folder == Path("/from/option")
    assert configuration.threads == 3
    assert (configuration.codec.encoding, configuration.codec.level) == ("zstd", 7)
    assert (configuration.store.direct, configuration.store.durability) == (False, "segment")
    assert configuration.series_limit == 2
    assert configuration.plan({}).metrics is None


def test_machine_and_metrics_reach_the_plan() -> None:
    text = "machine: {receive: 0, compress: 1-3}\nmetrics: {listen: 'localhost'}\nstall_limit_ms: 0\n"
    plan = parse_yaml(text, Configuration, "c.yaml").plan({})
    assert (plan.machine.receive, plan.machine.compress, plan.machine.write) == ("0", "1-3", "")
    assert plan.metrics is not None
    assert (plan.metrics.host, plan.metrics.port) == ("localhost", 9810)
    assert plan.stall_limit_ms == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (RecordOptions(given={("pool_bytes",): "much"}), ["--pool", "much", "1 GiB"]),
        (RecordOptions(given={("threads",): 0}), ["--threads", "1"]),
        (RecordOptions(given={("codec", "encoding"): "rle"}), ["--codec", "bslz4", "rle"]),
        (RecordOptions(listen=["nonsense:x"]), ["--listen", "HOST:PORT"]),
        (RecordOptions(zmq=["x"]), ["--zmq", "tcp://127.0.0.1:31001"]),
        (RecordOptions(given={("when_full",): "panic"}), ["--when-full", "'hold'"]),
        (RecordOptions(given={("store", "durability"): "eternal"}), ["--durability", "'segment'"]),
        (RecordOptions(given={("series_limit",): -1}), ["--series", "0"]),
    ],
)
def test_errors_name_the_option(options: RecordOptions, words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        configuration_from(None, options)
    for word in words:
        assert word in caught.value.message, caught.value.message


@pytest.mark.parametrize("name", ["a\nb", "µ" * 129, "\x7f"])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="up to 256 bytes and no control characters"):
        NexusPlan.model_validate({"sample_name": name})
    assert NexusPlan.model_validate({"sample_name": "µ" * 128}).sample_name


def test_level_of_the_file_is_not_that_of_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("codec: {encoding: bszstd, level: 3}\n")
    assert configuration_from(path, RecordOptions()).codec.level == 3
    assert configuration_from(path, RecordOptions(given={("codec", "encoding"): "lz4"})).codec.level == 0


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, False),
        ({"file_name": "run.h5"}, True),
        ({"file_name": "run.h5", "series_limit": 1}, False),
        ({"file_name": "run.h5", "overwrite": True}, False),
    ],
)
def test_constant_file_name_fits_one_series(fields: dict[str, Any], expected: bool) -> None:
    assert Configuration.model_validate(fields).names_one_file is expected


def test_rate_with_a_unit_is_refused_with_the_number() -> None:
    with pytest.raises(UsageError) as caught:
        parse_rate("50Hz", custom_detector(64, 64, "uint16"))
    assert "(50)" in caught.value.remedy
