"""The bandwidth of a block out of documents of earlier measurements."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from pydantic import BaseModel, ValidationError

from penstock.bench.values import values_of
from penstock.model.blocks import MeasuredBandwidth
from penstock.model.campaigns import Campaign
from penstock.model.errors import ExitCode, PenstockError, UsageError
from penstock.model.runs import Run, Verdict

_BYTES_MAX = 1 << 30
_KINDS: dict[str, type[BaseModel]] = {
    "penstock-run 1": Run,
    "penstock-verdict 1": Verdict,
    "penstock-campaign 1": Campaign,
}


def measured_bandwidth(paths: Sequence[Path]) -> MeasuredBandwidth:
    """The median over the runs that were as fast as it goes, in documents of runs, verdicts and campaigns.

    Runs at a detector's rate tell what was asked for and not what is possible; they are left out. A
    UsageError names a document that has no such run; a PenstockError (INVALID) one whose run is invalid.
    """
    runs = [(path, run) for path in paths for run in _runs_in(path)]
    for path, run in runs:
        if run.validity == "invalid":
            raise PenstockError(
                f"{path} has an invalid run: its figures are not the storage's",
                "its table of checks says why; measure again",
                ExitCode.INVALID,
            )
    found = [values_of(run) for _, run in runs]
    writes = [values[name].value for values in found for name in ("carried", "write") if name in values]
    reads = [values["read"].value for values in found if "read" in values]
    if not all(math.isfinite(value) and value > 0 for value in (*writes, *reads)):
        raise UsageError(
            f"{', '.join(map(str, paths))}: a run carried nothing", "measure again, or leave it out"
        )
    return MeasuredBandwidth(
        write_bytes_per_s=median(writes),
        read_bytes_per_s=median(reads) if reads else None,
        source=f"median of {len(writes)} runs in " + ", ".join(path.name for path in paths)
        if len(writes) > 1
        else paths[0].name,
        validity="warned" if any(run.validity == "warned" for _, run in runs) else "valid",
    )


def _runs_in(path: Path) -> list[Run]:
    """Those as fast as it goes."""
    document = _read(path)
    runs: list[Run] = []
    if isinstance(document, Run):
        runs = [document]
    elif isinstance(document, Verdict):
        runs = document.runs
    elif isinstance(document, Campaign):
        if len(document.cases) != 1:
            raise UsageError(
                f"{path} is a campaign of {len(document.cases)} cases, which differ in something",
                "name a document with one case",
            )
        runs = [each.run for each in document.runs]
    fast = [run for run in runs if run.frames is None or run.frames.needed_hz == 0]
    fast = [run for run in fast if {"carried", "write"} & values_of(run).keys()]
    if not fast:
        raise UsageError(
            f"{path} has no run that was as fast as it goes",
            "`penstock verdict` makes one after that at the rate; so does `penstock bench frames --rate 0`",
        )
    return fast


def _read(path: Path) -> BaseModel:
    try:
        if path.stat().st_size > _BYTES_MAX:
            raise UsageError(f"{path} is larger than 1 GiB; that is no document of a run", "check the path")
        text = path.read_text(encoding="utf-8")
        plain = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{path} cannot be read as a document: {error}", "name one that --output wrote"
        ) from error
    kind = plain.get("format") if isinstance(plain, dict) else None
    model = _KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise UsageError(
            f"{path} has the format {kind!r}", f"a document of {', '.join(_KINDS)}, as --output writes it"
        )
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{path}: {where}: {first['msg']}", "name one that --output wrote") from error
