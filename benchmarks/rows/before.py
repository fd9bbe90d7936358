"""This build beside the build of an earlier commit: whether a change made anything slower."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from measure.blocks import Subject, interleaved
from measure.context import GIB, Context, size_name
from measure.frames import make_frame_sets
from measure.process import BenchmarkError
from measure.results import Result, Sample, beside_best
from measure.wholepath import Recording, penstock

from rows import path as paths
from rows import ranks, recovery, store

AT_LEAST = 0.98
NOW = "now"


def _both(context: Context, subject: Callable[[Context], Sample]) -> dict[str, Subject]:
    """The same work with the programs of this build and of the earlier one."""
    if context.before is None:
        raise BenchmarkError("these rows need --before BUILD, the build folder of an earlier commit")
    earlier = replace(context, build=context.before)
    return {NOW: partial(subject, context), context.before_name: partial(subject, earlier)}


def _beside(
    context: Context,
    name: str,
    what: str,
    subject: Callable[[Context], Sample],
    *,
    metric: str = "bytes_per_s",
    scale: float = 1e-9,
    unit: str = "GB/s",
) -> Result:
    samples = interleaved(f"before {what}", _both(context, subject), context.repetitions)
    return beside_best(
        f"before/{name}",
        f"{what}, now",
        samples[NOW],
        {context.before_name: samples[context.before_name]},
        at_least=AT_LEAST,
        metric=metric,
        scale=scale,
        unit=unit,
    )


def _write_store(file: Path, chunk: int, total: int, mode: str, context: Context) -> Sample:
    return store.penstock(context, file, chunk, total, mode)


def of_store(context: Context) -> list[Result]:
    total = context.bytes_of(store.DISK_BYTES)
    context.need(context.disk, 2 * total)
    file = context.disk / "store.h5"
    return [
        _beside(
            context,
            f"store/{mode}/{size_name(chunk)}",
            f"store, {size_name(chunk)} chunks, disk, {mode}",
            partial(_write_store, file, chunk, total, f"--{mode}"),
        )
        for mode in ("direct", "buffered")
        for chunk in store.CHUNK_SIZES
    ]


def of_path(context: Context) -> list[Result]:
    series = paths.large(context.bytes_of(4 * GIB))
    small = paths.small(context.bytes_of(2 * GIB))
    context.need(context.disk, 2 * series.raw_bytes)
    return [
        _beside(
            context,
            f"path/{protocol}/{codec}/{sent.name}",
            f"whole path over {paths.PROTOCOL_NAMES[protocol]}, {sent.name}, {codec}, disk",
            partial(penstock, folder=context.disk, series=sent, recording=Recording(protocol, codec)),
        )
        for protocol in paths.PROTOCOLS
        for sent, codec in ((series, "none"), (series, "bslz4"), (small, "none"))
    ]


def of_recovery(context: Context) -> list[Result]:
    """Each build recovers a file that it wrote itself, since the format may have changed."""
    context.need(context.disk, 4 * context.bytes_of(recovery.CHUNKS) * recovery.CHUNK_BYTES)
    # At maximum rate, how much the index has at the death is chance, and each build recovers one file.
    deaths = recovery.DEATHS.items()
    return [_of_death(context, case, death) for case, death in deaths if case != recovery.AT_MAXIMUM_RATE]


def _of_death(context: Context, case: str, death: recovery.Death) -> Result:
    files: dict[Path, Path] = {}

    def recover(subject: Context) -> Sample:
        if subject.build not in files:
            files[subject.build] = context.disk / f"abandoned-{len(files)}.h5"
            recovery.abandon(subject, files[subject.build], death)
        seconds = recovery.recover(subject, files[subject.build])["seconds"]
        return {"chunks_per_s": context.bytes_of(recovery.CHUNKS) / seconds}

    what = f"recovery of {context.bytes_of(recovery.CHUNKS):,} chunks, {case}"
    result = _beside(
        context, f"recovery/{case}", what, recover, metric="chunks_per_s", scale=1, unit="chunks/s"
    )
    for file in files.values():
        file.unlink()
    return result


def of_ranks(context: Context) -> list[Result]:
    return [
        _beside(
            context,
            f"ranks/{frames.name}",
            f"{ranks.RANKS} ranks, bitshuffle-LZ4, one shared file, {frames.name}",
            partial(ranks.ours, ranks=ranks.RANKS, frames=frames, encoding="bslz4"),
        )
        for frames in make_frame_sets(context.tmpfs, context.images)
        if frames.type == "uint16"
    ]
