"""Ranks of a job that compress into one file: beside one rank, files of their own, and parallel HDF5."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import hdf5plugin
from measure.blocks import Subject, interleaved
from measure.context import GIB, Context
from measure.frames import FrameSet, make_frame_sets
from measure.machine import settle
from measure.process import BenchmarkError, run_json
from measure.results import Result, Sample, beside_best
from peers import fio

RANKS = 2
# Raw bytes of one run; deflate is a tenth as fast.
BYTES = {"bslz4": 8 * GIB, "deflate": 2 * GIB, "none": 4 * GIB}
MPIRUN = ["mpirun.openmpi", "--bind-to", "none", "--oversubscribe"]
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "HDF5_PLUGIN_PATH": hdf5plugin.PLUGIN_PATH,
}
TOGETHER = (1, 8)  # frames of a rank in one collective call: the peer's better way counts


def _run(
    context: Context, program: str, ranks: int, frames: FrameSet, encoding: str, *options: str
) -> Sample:
    settle()
    count = context.bytes_of(BYTES[encoding]) // (frames.elements * frames.element_bytes)
    path = context.disk / "ranks.h5"
    command = [*MPIRUN, "-n", str(ranks), context.program(program), "--path", str(path), "--gate"]
    command += ["--raw", str(frames.raw), "--element-bytes", str(frames.element_bytes)]
    command += ["--frame-elements", str(frames.elements), "--frames", str(count), "--encoding", encoding]
    document, _ = run_json([*command, *options], env=ENVIRONMENT, at_gate=settle)
    for written in path.parent.glob(path.name + "*"):
        written.unlink()
    return {"bytes_per_s": document["raw_bytes"] / document["seconds"], "seconds": document["seconds"]}


def ours(context: Context, ranks: int, frames: FrameSet, encoding: str, *options: str) -> Sample:
    return _run(context, "bench_ranks", ranks, frames, encoding, *options)


def _collective(context: Context, frames: FrameSet, encoding: str, together: int) -> Sample:
    return _run(context, "collective_hdf5", RANKS, frames, encoding, "--together", str(together))


def _fio(path: Path, total: int, direct: bool) -> Sample:
    settle()
    return fio.write_by_jobs(path, total, jobs=RANKS, direct=direct)


def _collectives(context: Context, frames: FrameSet, encoding: str) -> dict[str, Subject]:
    return {
        f"parallel HDF5, {together} frames a collective call": partial(
            _collective, context, frames, encoding, together
        )
        for together in TOGETHER
    }


def _only(samples: dict[str, list[Sample]], prefix: str) -> dict[str, list[Sample]]:
    return {name: found for name, found in samples.items() if name.startswith(prefix)}


def _bitshuffle(context: Context, frames: FrameSet) -> list[Result]:
    subjects: dict[str, Subject] = {
        "one rank": partial(ours, context, 1, frames, "bslz4"),
        "ours": partial(ours, context, RANKS, frames, "bslz4"),
        **_collectives(context, frames, "bslz4"),
    }
    samples = interleaved(f"ranks bslz4 {frames.name}", subjects, context.repetitions)
    what = f"{RANKS} ranks, bitshuffle-LZ4, one shared file, {frames.name}"
    return [
        beside_best(
            f"ranks/scaling/{frames.name}", what, samples["ours"], _only(samples, "one"), at_least=1.85
        ),
        beside_best(
            f"ranks/bslz4/{frames.name}", what, samples["ours"], _only(samples, "parallel"), at_least=1.0
        ),
    ]


def _deflate(context: Context, frames: FrameSet) -> list[Result]:
    subjects: dict[str, Subject] = {
        "ours": partial(ours, context, RANKS, frames, "deflate"),
        "a file for each process": partial(ours, context, RANKS, frames, "deflate", "--own-files"),
        **_collectives(context, frames, "deflate"),
    }
    samples = interleaved(f"ranks deflate {frames.name}", subjects, context.repetitions)
    what = f"{RANKS} ranks, deflate-1, one shared file, {frames.name}"
    bound = _only(samples, "a file")
    return [
        beside_best(
            f"ranks/deflate-bound/{frames.name}",
            what,
            samples["ours"],
            bound,
            at_least=0.97,
        ),
        beside_best(
            f"ranks/deflate/{frames.name}", what, samples["ours"], _only(samples, "parallel"), at_least=1.0
        ),
    ]


def _plain(context: Context, frames: FrameSet) -> Result:
    total = context.bytes_of(BYTES["none"])
    subjects: dict[str, Subject] = {
        "ours": partial(ours, context, RANKS, frames, "none"),
        "fio, 2 jobs, direct": partial(_fio, context.disk / "fio.data", total, True),
        "fio, 2 jobs, buffered": partial(_fio, context.disk / "fio.data", total, False),
    }
    samples = interleaved(f"ranks none {frames.name}", subjects, context.repetitions)
    return beside_best(
        f"ranks/none/{frames.name}",
        f"{RANKS} ranks, uncompressed, one shared file, {frames.name}",
        samples["ours"],
        _only(samples, "fio"),
        at_least=0.95,
    )


def shared_file(context: Context) -> list[Result]:
    """On disk, past the page cache; on two cores, so that two ranks are all that fits."""
    context.need(context.disk, 2 * context.bytes_of(BYTES["none"]))
    if len(context.cores) < RANKS:
        raise BenchmarkError(f"{RANKS} ranks need as many cores; there are {len(context.cores)}")
    results = []
    for frames in make_frame_sets(context.tmpfs, context.images):
        if frames.type == "uint16":
            results += _bitshuffle(context, frames)
            results += _deflate(context, frames)
        if frames.name == "simulated 16 bit":
            results.append(_plain(context, frames))
        frames.raw.unlink()
    return results
