"""The whole path over loopback: sender, network, receiver, file."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from measure.blocks import Subject, interleaved
from measure.context import GIB, MIB, Context
from measure.frames import load_real
from measure.machine import warm
from measure.results import Result, Sample, absolute, beside_best
from measure.wholepath import Recording, Series, penstock, python_receiver
from peers import fio

RAW_BYTES = 4 * GIB  # on disk and on tmpfs alike: a few seconds
COMPRESS_RAW_BYTES = 4 * GIB
PASSED_RAW_BYTES = 24 * GIB  # 2.5 to 4 GiB of compressed bytes
RECEIVER = "pyzmq + h5py direct chunks"
COMPRESSING_RECEIVER = "pyzmq + bitshuffle in 2 threads + h5py direct chunks"
PROTOCOLS = ("zmq", "tcp")
PROTOCOL_NAMES = {"zmq": "ZeroMQ", "tcp": "TCP"}


def large(raw_bytes: int, *, encoding: str = "none", replay: Path | None = None) -> Series:
    """As a PILATUS 6M counts: 2527 × 2463 pixels of 32 bit."""
    frames = max(8, raw_bytes // (2527 * 2463 * 4))
    name = "real 25 MB frames" if replay else "simulated 25 MB frames"
    return Series(name, 2527, 2463, "int32", frames, encoding, replay)


def small(raw_bytes: int) -> Series:
    """As one module of a pixel detector counts: 512 × 1024 pixels of 16 bit."""
    return Series(
        "simulated 1 MiB frames", 512, 1024, "uint16", max(8, raw_bytes // MIB), distinct_frames=256
    )


def _fio(path: Path, total: int, engine: str, depth: int, direct: bool) -> Sample:
    warm(path.parent, total)
    return fio.write(path, total, engine=engine, depth=depth, direct=direct)


def _ours(context: Context, folder: Path, series: Series, codec: str) -> dict[str, Subject]:
    return {
        f"penstock {protocol}": partial(
            penstock, context, folder, series, Recording(protocol=protocol, codec=codec)
        )
        for protocol in PROTOCOLS
    }


def _raw_on_disk(context: Context, series: Series) -> list[Result]:
    context.need(context.disk, 2 * series.raw_bytes)
    total = series.raw_bytes // fio.BLOCK_BYTES * fio.BLOCK_BYTES
    path = context.disk / "fio"
    subjects: dict[str, Subject] = {
        f"fio {'direct' if direct else 'buffered'}, depth {depth}": partial(
            _fio, path, total, engine, depth, direct
        )
        for direct in (True, False)
        for engine, depth in (("psync", 1), ("io_uring", 4))
    }
    subjects |= _ours(context, context.disk, series, "none")
    samples = interleaved(f"path-raw disk {series.name}", subjects, context.repetitions)
    peers = {peer: found for peer, found in samples.items() if peer.startswith("fio")}
    return [
        beside_best(
            f"path-raw/disk/{protocol}/{series.name}",
            f"whole path over {PROTOCOL_NAMES[protocol]}, raw, {series.name}, disk",
            samples[f"penstock {protocol}"],
            peers,
            at_least=0.95,
        )
        for protocol in PROTOCOLS
    ]


def _raw_on_tmpfs(context: Context, series: Series) -> list[Result]:
    context.need(context.tmpfs, series.raw_bytes + 3 * GIB)
    subjects: dict[str, Subject] = {RECEIVER: partial(python_receiver, context, context.tmpfs, series, "raw")}
    subjects |= _ours(context, context.tmpfs, series, "none")
    samples = interleaved(f"path-raw tmpfs {series.name}", subjects, context.repetitions)
    return [
        beside_best(
            f"path-raw/tmpfs/{protocol}/{series.name}",
            f"whole path over {PROTOCOL_NAMES[protocol]}, raw, {series.name}, tmpfs",
            samples[f"penstock {protocol}"],
            {RECEIVER: samples[RECEIVER]},
            at_least=1.3,
        )
        for protocol in PROTOCOLS
    ]


def raw(context: Context) -> list[Result]:
    series = large(context.bytes_of(RAW_BYTES))
    return _raw_on_disk(context, series) + _raw_on_tmpfs(context, series)


def raw_small(context: Context) -> list[Result]:
    series = small(context.bytes_of(RAW_BYTES))
    return _raw_on_disk(context, series) + _raw_on_tmpfs(context, series)


def _replay_file(context: Context) -> Path | None:
    """Real images for the detector to send, where the machine has some."""
    frames = load_real(context.images) if context.images else None
    if frames is None:
        return None
    path = context.disk / "real.npy"
    np.save(path, frames)
    return path


def _with_cost(
    name: str,
    what: str,
    samples: dict[str, list[Sample]],
    peer: str,
    *,
    ratio_at_least: float,
    cost_at_most: float,
    rate: str,
    cost: str,
    cost_unit: str,
) -> list[Result]:
    """Two results a protocol: the rate beside the peer, and the CPU time as a bound."""
    results = []
    for protocol in PROTOCOLS:
        ours = samples[f"penstock {protocol}"]
        over = f"{what} over {PROTOCOL_NAMES[protocol]}"
        results.append(
            beside_best(
                f"{name}/rate/{protocol}",
                over,
                ours,
                {peer: samples[peer]},
                at_least=ratio_at_least,
                metric=rate,
            )
        )
        results.append(
            absolute(
                f"{name}/cpu/{protocol}",
                f"{over}, CPU time",
                [sample[cost] for sample in ours],
                unit=cost_unit,
                at_most=cost_at_most,
                beside=peer,
                peer=[sample[cost] for sample in samples[peer]],
            )
        )
    return results


def compress(context: Context) -> list[Result]:
    results = []
    replay = _replay_file(context)
    size = context.bytes_of(COMPRESS_RAW_BYTES)
    for series in [large(size)] + ([large(size, replay=replay)] if replay else []):
        context.need(context.tmpfs, series.raw_bytes // 2 + 3 * GIB)
        subjects: dict[str, Subject] = {
            COMPRESSING_RECEIVER: partial(python_receiver, context, context.tmpfs, series, "compress")
        }
        subjects |= _ours(context, context.tmpfs, series, "bslz4")
        samples = interleaved(f"path-compress {series.name}", subjects, context.repetitions)
        results += _with_cost(
            f"path-compress/{series.name}",
            f"whole path, raw in, bitshuffle-LZ4 out, {series.name}",
            samples,
            COMPRESSING_RECEIVER,
            ratio_at_least=1.5,
            cost_at_most=0.85,
            rate="bytes_per_s",
            cost="cpu_s_per_gb",
            cost_unit="CPU-s/raw GB",
        )
    return results


def pass_through(context: Context) -> list[Result]:
    """To disk: on tmpfs the row would measure how a virtual machine hands out new pages."""
    results = []
    replay = _replay_file(context)
    size = context.bytes_of(PASSED_RAW_BYTES)
    all_series = [large(size, encoding="bslz4")]
    if replay:
        all_series.append(large(size, encoding="bslz4", replay=replay))
    for series in all_series:
        context.need(context.disk, series.raw_bytes // 4 + GIB)
        subjects: dict[str, Subject] = {
            RECEIVER: partial(python_receiver, context, context.disk, series, "pass")
        }
        subjects |= _ours(context, context.disk, series, "bslz4")
        samples = interleaved(f"path-passthrough disk {series.name}", subjects, context.repetitions)
        results += _with_cost(
            f"path-passthrough/disk/{series.name}",
            f"whole path, detector-compressed {series.name}, disk",
            samples,
            RECEIVER,
            ratio_at_least=1.3,
            cost_at_most=0.45,
            rate="stored_bytes_per_s",
            cost="cpu_s_per_stored_gb",
            cost_unit="CPU-s/stored GB",
        )
    return results
