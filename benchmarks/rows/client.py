"""The Python client beside the C++ one, to a sink that acknowledges and stores nothing."""

from __future__ import annotations

import subprocess
from functools import partial

from measure.blocks import Subject, interleaved
from measure.context import GIB, Context, size_name
from measure.machine import settle
from measure.process import BenchmarkError, pinned, run_json
from measure.results import Result, Sample, beside_best

ROWS = 512
FRAME_BYTES = (64 << 10, 1 << 20, 4 << 20)
RAW_BYTES = 2 * GIB
AT_LEAST = 0.8


def _send(context: Context, command: list[str], frame_bytes: int) -> Sample:
    settle()
    client_core, sink_core = context.cores[0], context.cores[-1]
    frames = max(64, context.bytes_of(RAW_BYTES if frame_bytes >= 1 << 20 else RAW_BYTES // 4) // frame_bytes)
    with subprocess.Popen(
        pinned([context.program("client_sink")], [sink_core]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as sink:
        try:
            assert sink.stdout is not None
            address = sink.stdout.readline().partition("tcp://")[2].partition('"')[0]
            columns = frame_bytes // 2 // ROWS
            document, finished = run_json([*command, address, str(columns), str(frames)], cores=[client_core])
            sink.communicate("", timeout=60)
        finally:
            sink.kill()
    if document["acknowledged"] != frames:
        raise BenchmarkError(f"{document['acknowledged']} of {frames} frames were acknowledged")
    total = frames * frame_bytes
    return {"bytes_per_s": total / document["seconds"], "cpu_s_per_gb": finished.cpu_seconds / total * 1e9}


def python_beside_cpp(context: Context) -> list[Result]:
    """A client on one core, the sink on the other."""
    if len(context.cores) < 2:
        raise BenchmarkError("a client and its sink need a core each; there is one")
    results = []
    for frame_bytes in FRAME_BYTES:
        subjects: dict[str, Subject] = {
            "python": partial(_send, context, context.peer("client_sender.py"), frame_bytes),
            "C++": partial(_send, context, [context.program("client_sender")], frame_bytes),
        }
        name = size_name(frame_bytes)
        samples = interleaved(f"client {name}", subjects, context.repetitions)
        results.append(
            beside_best(
                f"client/{name}",
                f"Python client, numpy frames of {name}, acknowledged by a sink",
                samples["python"],
                {"C++ client": samples["C++"]},
                at_least=AT_LEAST,
            )
        )
    return results
