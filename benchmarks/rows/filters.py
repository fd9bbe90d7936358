"""HDF5 filter plug-ins: outside HDF5's lock in two threads, beside HDF5's own pipeline and one thread."""

from __future__ import annotations

from functools import partial
from typing import Any

import hdf5plugin
from measure.blocks import interleaved
from measure.context import GIB, MIB, Context
from measure.results import Result, beside_best
from measure.wholepath import Recording, Series, penstock, python_receiver

RAW_BYTES = GIB
PIPELINE = "pyzmq + h5py with the plug-in in HDF5's pipeline"
ONE_THREAD = "one thread"
FILTERS = {
    "Zstd": hdf5plugin.Zstd(clevel=3),
    "Blosc (zstd, shuffle)": hdf5plugin.Blosc(cname="zstd", clevel=3, shuffle=hdf5plugin.Blosc.SHUFFLE),
}


def _recording(options: dict[str, Any], threads: int) -> Recording:
    described = {
        "channel": "",
        "id": options["compression"],
        "name": "of the benchmark",
        "values": list(options["compression_opts"]),
        "folders": [hdf5plugin.PLUGIN_PATH],
    }
    return Recording(filters=[described], threads=threads)


def _one(context: Context, series: Series, name: str, options: dict[str, Any]) -> list[Result]:
    samples = interleaved(
        f"filters {name}",
        {
            "penstock": partial(penstock, context, context.tmpfs, series, _recording(options, 2)),
            ONE_THREAD: partial(penstock, context, context.tmpfs, series, _recording(options, 1)),
            PIPELINE: partial(python_receiver, context, context.tmpfs, series, "filter", options),
        },
        context.repetitions,
    )
    what = f"plug-in {name}, whole path over ZeroMQ, {series.name}, two threads"
    return [
        beside_best(
            f"filters/{key}/{name}", what, samples["penstock"], {peer: samples[peer]}, at_least=at_least
        )
        for key, peer, at_least in (("pipeline", PIPELINE, 1.5), ("threads", ONE_THREAD, 1.5))
    ]


def in_threads(context: Context) -> list[Result]:
    frames = max(8, context.bytes_of(RAW_BYTES) // MIB)
    series = Series("simulated 1 MiB frames", 512, 1024, "uint16", frames, distinct_frames=256)
    context.need(context.tmpfs, series.raw_bytes + 3 * GIB)
    results = []
    for name, plugin in FILTERS.items():
        results += _one(context, series, name, dict(plugin))
    return results
