"""HDF5 filter plug-ins that are installed for real: recorded through each, checked, and read with h5py."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy
import pytest
from detector_stream import least_message, send

from penstock.model.configuration import Configuration
from penstock.model.errors import UsageError
from penstock.model.filters import filter_plan, plugin_folder
from penstock.model.plans import CheckPlan
from penstock.model.yaml_file import parse_yaml

Run = Callable[..., "subprocess.CompletedProcess[str]"]
FRAMES, ROWS, COLUMNS = 4, 64, 96  # as detector_stream announces them

# What a configuration gives, the type of the pixels, and how far they may be from those sent.
FILTERS: list[tuple[dict[str, Any], str, float]] = [
    ({"filter": "bshuf"}, "uint16", 0),
    ({"filter": 32008, "parameters": [0, 3, 2]}, "uint32", 0),
    ({"filter": "blosc", "parameters": {"cname": "zstd", "clevel": 3, "shuffle": 2}}, "uint16", 0),
    ({"filter": 32001, "parameters": [0, 0, 0, 0, 5, 1, 0]}, "int32", 0),
    ({"filter": "blosc2", "parameters": {"cname": "lz4", "clevel": 5, "filters": 2}}, "uint32", 0),
    ({"filter": "bzip2", "parameters": {"blocksize": 3}}, "uint16", 0),
    ({"filter": "fcidecomp"}, "uint16", 0),
    ({"filter": "htj2k"}, "uint16", 0),
    ({"filter": "lz4", "parameters": {"nbytes": 4096}}, "uint32", 0),
    ({"filter": "zstd", "parameters": {"clevel": 5}}, "uint16", 0),
    ({"filter": "zfp", "parameters": {"reversible": True}}, "int32", 0),
    ({"filter": "zfp", "parameters": {"accuracy": 0.1}}, "float32", 0.1),
    ({"filter": "sz", "parameters": {"absolute": 0.1}}, "float32", 0.1),
    ({"filter": "sz3", "parameters": {"absolute": 0.1}}, "float32", 0.1),
    ({"filter": "sperr", "parameters": {"absolute": 0.1}}, "float32", 0.1),
]


def name_of(case: tuple[dict[str, Any], str, float]) -> str:
    return f"{case[0]['filter']}-{case[1]}"


def frames_of(kind: str) -> numpy.ndarray:
    random = numpy.random.default_rng(11)
    frames = random.poisson(40, (FRAMES, ROWS, COLUMNS)).astype(kind)
    return frames + random.random(frames.shape, "float32") if kind == "float32" else frames


def record_through(
    codec: dict[str, Any], frames: numpy.ndarray, folder: Path, programs: dict[str, Path], port: int
) -> dict[str, Any]:
    """One series through the recorder itself, without the command around it; its last event."""
    endpoint = f"tcp://127.0.0.1:{port}"
    configuration = Configuration.model_validate(
        {
            "folder": folder,
            "pool_bytes": "64 MiB",
            "series_limit": 1,
            "sources": [{"kind": "zmq", "endpoint": endpoint}],
            "codec": codec,
        }
    )
    plan = folder / "plan.json"
    plan.write_text(configuration.plan({}).model_dump_json())
    recorder = subprocess.Popen(
        [programs["penstock-recorder"], "--plan", plan],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        send(endpoint, frames, start=least_message(frames.dtype.name, len(frames)))
        out, log = recorder.communicate(timeout=20)
    finally:
        recorder.kill()
        recorder.communicate()
    assert recorder.returncode == 0, log
    end = [json.loads(line) for line in out.splitlines()][-2]
    assert end["event"] == "series_end", out
    assert (end["frames_written"], end["problem"]) == (len(frames), None), log
    end["log"] = log
    return dict(end)


def native_check(
    file: Path, expected: Path | None, programs: dict[str, Path], folders: list[str] | None = None
) -> dict[str, Any]:
    plan = CheckPlan(
        file=str(file),
        against=None if expected is None else {"npy": str(expected)},
        threads=1,
        plugin_folders=[plugin_folder()] if folders is None else folders,
    )
    run = subprocess.run(
        [programs["penstock-check"], "--plan", "-"],
        input=plan.model_dump_json(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    report = json.loads(run.stdout.splitlines()[-1])
    assert report["event"] == "report", run.stdout + run.stderr
    return dict(report)


@pytest.mark.parametrize("case", FILTERS, ids=name_of)
def test_recorded_checked_and_read(
    case: tuple[dict[str, Any], str, float],
    programs: dict[str, Path],
    tmp_path: Path,
    free_port: int,
    nothing_stays_open: None,
) -> None:
    codec, kind, bound = case
    frames = frames_of(kind)
    end = record_through(codec, frames, tmp_path, programs, free_port)
    assert end["unfiltered"] == 0, end["log"]
    file = tmp_path / "s.h5"

    number = filter_plan(codec["filter"], codec.get("parameters", {})).id
    with h5py.File(file) as content:
        data = content["/entry/data/data"]
        properties = data.id.get_create_plist()
        assert [properties.get_filter(i)[0] for i in range(properties.get_nfilters())] == [number]
        read = data[...]
        vouched = number in (307, 32001, 32004, 32008, 32015, 32018)
        assert ("lossy_filter" in data.attrs) == (not vouched)
        assert all(data.id.get_chunk_info(i).filter_mask == 0 for i in range(FRAMES))
        parameters = properties.get_filter(0)[2]
    # The library itself, asked for the same dataset, comes to the same parameters.
    chosen = filter_plan(codec["filter"], codec.get("parameters", {}))
    with h5py.File("of-hdf5.h5", "w", driver="core", backing_store=False) as reference:
        own = reference.create_dataset(
            "data",
            frames.shape,
            kind,
            chunks=(1, ROWS, COLUMNS),
            compression=chosen.id,
            compression_opts=tuple(chosen.values),
        )
        assert parameters == own.id.get_create_plist().get_filter(0)[2]
    assert float(numpy.abs(read.astype("float64") - frames).max()) <= bound

    expected = tmp_path / "expected.npy"
    numpy.save(expected, frames)
    report = native_check(file, expected, programs)
    assert report["compared_frames"] == FRAMES, report
    assert report["different_frames"] == (FRAMES if bound else 0), report
    assert report["ok"], report
    assert any("does not keep every value" in finding["what"] for finding in report["findings"]) == bool(
        bound
    )


def test_an_index_made_anew_keeps_the_parameters(
    programs: dict[str, Path], tmp_path: Path, free_port: int, run: Run
) -> None:
    frames = frames_of("uint16")
    record_through({"filter": "blosc2"}, frames, tmp_path, programs, free_port)
    file = tmp_path / "s.h5"
    with h5py.File(file) as content:
        before = content["/entry/data/data"].id.get_create_plist().get_filter(0)
    with file.open("r+b") as raw:
        raw.write(b"\0" * 512)
    recovered = run("recover", str(file))
    assert recovered.returncode == 1, "the rows of some columns are lost: " + recovered.stdout
    with h5py.File(file) as content:
        data = content["/entry/data/data"]
        assert data.id.get_create_plist().get_filter(0)[:3] == before[:3]
        assert numpy.array_equal(data[...], frames)


def test_without_the_plug_in_the_check_says_that_it_cannot_decode(
    programs: dict[str, Path], tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = frames_of("uint16")
    record_through({"filter": "bzip2"}, frames, tmp_path, programs, free_port)
    expected = tmp_path / "expected.npy"
    numpy.save(expected, frames)
    monkeypatch.setenv("HDF5_PLUGIN_PATH", str(tmp_path))
    alone = native_check(tmp_path / "s.h5", None, programs, folders=[])
    assert alone["ok"]
    (finding,) = alone["findings"]
    assert (finding["level"], finding["where"]) == ("warning", "/entry/data/data")
    assert "cannot be decoded" in finding["what"]
    for word in ("filter 307", str(tmp_path), "hdf5plugin"):
        assert word in finding["actual"]
    compared = native_check(tmp_path / "s.h5", expected, programs, folders=[])
    assert not compared["ok"]
    assert compared["compared_frames"] == 0


def test_the_list_of_filters_and_what_is_not_in_it(run: Run, tmp_path: Path) -> None:
    listed = run("filters", "--json")
    assert listed.returncode == 0, listed.stderr
    found = {each["id"]: each for each in json.loads(listed.stdout)}
    assert set(hdf5plugin.FILTERS.values()) <= set(found)
    assert "clevel=5" in found[32001]["parameters"]
    assert found[32008]["keeps_all_values"]
    assert not found[32024]["keeps_all_values"]

    configuration = tmp_path / "c.yaml"
    configuration.write_text("codec: {filter: 40000, parameters: [1]}\n")
    absent = run("record", str(configuration), "--folder", str(tmp_path), "--listen", "127.0.0.1:0")
    assert absent.returncode == 2
    for word in ("40000", "HDF5_PLUGIN_PATH", "codec.plugin_folders", "hdf5plugin"):
        assert word in absent.stderr


@pytest.mark.parametrize(
    ("codec", "words"),
    [
        ("{filter: blsc}", ["blsc", "blosc", "zfp"]),
        ("{filter: 70000}", ["70000", "65535"]),
        ("{filter: blosc, parameters: {level: 3}}", ["level", "clevel=5"]),
        ("{filter: blosc, parameters: {cname: lzma}}", ["lzma"]),
        ("{filter: 40000, parameters: {a: 1}}", ["40000", "list of numbers"]),
        ("{filter: 32015, parameters: [-1]}", ["-1"]),
        ("{filter: zstd, encoding: lz4}", ["filter", "encoding"]),
        ("{parameters: [1]}", ["filter"]),
    ],
)
def test_wrong_settings_are_named(codec: str, words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        parse_yaml(f"codec: {codec}\n", Configuration, "c.yaml")
    for word in ["c.yaml:1", *words]:
        assert word in caught.value.message


def test_numbers_in_yaml_and_defaults() -> None:
    text = "codec: {filter: sz3, parameters: {absolute: 1e-3}}\n"
    plan = parse_yaml(text, Configuration, "c.yaml").plan({}).codec
    assert plan.filters is not None
    assert tuple(plan.filters[0].values) == hdf5plugin.SZ3(absolute=1e-3).filter_options
    assert plan.encoding == "none"
    assert filter_plan("blosc", {}).values == list(hdf5plugin.Blosc().filter_options)


def test_a_dry_run_refuses_what_the_run_would(run: Run, tmp_path: Path) -> None:
    """In the same words, and with the same exit code."""
    configuration = tmp_path / "c.yaml"
    options = ("record", str(configuration), "--folder", str(tmp_path), "--listen", "127.0.0.1:0")
    for text, words in (
        ("codec: {filter: 4711, parameters: [1, 2]}", "no plug-in for filter 4711"),
        ("machine: {compress: '5000'}", "this machine has the processors"),
    ):
        configuration.write_text(text)
        dry, real = run(*options, "--dry-run"), run(*options)
        assert (dry.returncode, real.returncode) == (2, 2), dry.stderr
        assert words in " ".join(dry.stderr.split())
        assert dry.stderr == real.stderr
    ports = run(
        "record", "--folder", str(tmp_path), "--listen", "127.0.0.1:65535", "--ranks", "2", "--dry-run"
    )
    assert ports.returncode == 2
    assert "2 ranks need as many ports" in ports.stderr
