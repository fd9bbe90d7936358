"""`penstock compare`: how often it calls one system different from itself, and what it finds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from measure.context import Context
from measure.process import run
from measure.results import Result
from measure.statistics import Estimate, verdict
from scipy.signal import lfilter
from scipy.stats import binomtest

from penstock.bench.compare.sets import Measured, RunSet, read_sets
from penstock.bench.compare.storages import compare
from penstock.bench.statistics.values import Value

TRIALS = 2000
BLOCKS = 6
REAL_RUNS = 60
ALARMS_AT_MOST, FOUND_AT_LEAST = 5.0, 95.0
START = datetime(2026, 1, 1, tzinfo=UTC)

Pair = tuple[RunSet, RunSet]


def _share(
    name: str,
    what: str,
    hits: int,
    trials: int = TRIALS,
    *,
    at_most: float | None = None,
    at_least: float = 0.0,
    apart: int | None = None,
) -> Result:
    """Of the trials, in per cent, with the interval of Clopper and Pearson.

    Trials that share their runs prove no more than those that do not: `apart` is how many there are of these.
    """
    share, proofs = 100 * hits / trials, trials if apart is None else apart
    interval = binomtest(round(share / 100 * proofs), proofs).proportion_ci(0.95, method="exact")
    measured = Estimate(share, 100 * float(interval.low), 100 * float(interval.high))
    remarks = [f"{hits} of {trials} trials"]
    if apart is not None:
        remarks.append(f"trials share runs: {apart} of them would not, and the interval is of so many")
    return Result(
        name=name,
        what=what,
        beside="",
        target=f"≤ {at_most:g} %" if at_most is not None else f"≥ {at_least:g} %",
        unit="%",
        measured=measured,
        is_ratio=False,
        ours=share,
        peer=None,
        verdict=verdict(measured, at_least if at_most is None else at_most, at_least=at_most is None),
        samples={"penstock": [share]},
        remarks=tuple(remarks),
    )


def _differs(pair: Pair) -> bool:
    return any(row.outcome in ("better", "worse") for row in compare(*pair).values)


def _in_turn(runs: list[Measured], numbers: np.random.Generator) -> Pair:
    """Each two that follow each other, one for each set."""
    first = [2 * block + int(numbers.integers(2)) for block in range(len(runs) // 2)]
    second = [place for place in range(2 * (len(runs) // 2)) if place not in first]
    return RunSet("A", [runs[at] for at in first]), RunSet("B", [runs[at] for at in second])


def _apart(runs: list[Measured]) -> Pair:
    half = len(runs) // 2
    return RunSet("A", runs[:half]), RunSet("B", runs[half:])


def _real_runs(context: Context, folder: Path, count: int) -> list[Measured]:
    """`penstock bench frames` on memory, again and again."""
    programs = str(Path(context.program("penstock-load")).parent)
    frames = str(context.bytes_of(4000))
    documents = context.tmpfs / "documents"
    documents.mkdir()
    for number in range(count):
        output = str(documents / f"{number:03}.json")
        command = [sys.executable, "-m", "penstock", "bench", "frames", str(folder), "--frame-size", "64KiB"]
        run(
            [*command, "--rate", "0", "--frames", frames, "--yes", "--output", output],
            env={"PENSTOCK_BIN": programs},
        )
    (found,) = read_sets([documents])
    return found.runs


def real(context: Context) -> list[Result]:
    """Disjoint sets of six out of real runs, in windows that begin anywhere.

    In turn, which of two runs is whose is drawn anew in each trial, whatever the runs are. One set after the
    other, nothing is drawn: windows that overlap say nearly the same.
    """
    folder = context.tmpfs / "compare"
    folder.mkdir()
    runs = _real_runs(context, folder, REAL_RUNS // (4 if context.quick else 1))
    numbers = np.random.default_rng(1)
    starts = range(len(runs) - 2 * BLOCKS + 1)
    windows = [runs[first : first + 2 * BLOCKS] for first in starts]
    in_turn = sum(
        _differs(_in_turn(windows[int(numbers.integers(len(windows)))], numbers)) for _ in range(TRIALS)
    )
    apart = sum(_differs(_apart(window)) for window in windows)
    what = "two sets of six runs of one system on tmpfs that are called different"
    return [
        _share("compare/alarms/real/in turn", f"{what}, measured in turn", in_turn, at_most=ALARMS_AT_MOST),
        _share(
            "compare/alarms/real/apart",
            f"{what}, one set after the other",
            apart,
            len(windows),
            at_most=ALARMS_AT_MOST,
            apart=len(runs) // (2 * BLOCKS),
        ),
    ]


def _noise(numbers: np.random.Generator, count: int) -> np.ndarray:
    """Autocorrelated, skewed and with heavy tails, on a drift through the day."""
    steps = 0.03 * numbers.standard_t(3, count + 50) + 0.03 * numbers.lognormal(0, 1, count + 50)
    line: np.ndarray = lfilter([1], [1, -0.5], steps)[50:]
    return line + numbers.normal(0, 0.02) * np.arange(count)


def _plain_noise(numbers: np.random.Generator, count: int) -> np.ndarray:
    return numbers.normal(0, 0.05, count)


def _simulated(
    numbers: np.random.Generator, noise: Callable[[np.random.Generator, int], np.ndarray]
) -> list[Measured]:
    """Twelve runs with two values of their own."""
    throughput, latency = (np.exp(noise(numbers, 2 * BLOCKS)) for _ in range(2))
    return [
        Measured(
            case="simulated",
            block=None,
            document=str(place),
            started=START + timedelta(minutes=place),
            host="simulated",
            validity="valid",
            values={
                "throughput": Value(1e9 * float(throughput[place]), "B/s", "higher"),
                "latency p50": Value(float(latency[place]), "ms", "lower"),
            },
            parameters={},
            conditions={},
        )
        for place in range(2 * BLOCKS)
    ]


def _slower(set_: RunSet, factor: float) -> RunSet:
    def changed(run: Measured) -> Measured:
        value = run.values["throughput"]
        return replace(run, values=run.values | {"throughput": replace(value, value=value.value / factor)})

    return RunSet(set_.name, [changed(run) for run in set_.runs])


def simulated(_: Context) -> list[Result]:
    """What is known beforehand: that nothing differs, or by how much."""
    numbers = np.random.default_rng(2)
    alarms = sum(_differs(_in_turn(_simulated(numbers, _noise), numbers)) for _ in range(TRIALS))
    found = 0
    for _ in range(TRIALS):
        base, other = _in_turn(_simulated(numbers, _plain_noise), numbers)
        rows = {row.value: row.outcome for row in compare(base, _slower(other, 1.2)).values}
        found += rows["throughput"] == "worse"
    return [
        _share(
            "compare/alarms/simulated",
            "the same of simulated runs: autocorrelated, skewed, heavy tails, drift; in turn",
            alarms,
            at_most=ALARMS_AT_MOST,
        ),
        _share(
            "compare/found",
            "a fifth less bandwidth that is found in six blocks with 5 % of noise, among two values",
            found,
            at_least=FOUND_AT_LEAST,
        ),
    ]
