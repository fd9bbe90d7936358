"""The newest measurements of two targets, out of the run index."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from penstock.bench.campaign.entries import looks_comparable
from penstock.bench.compare.sets import RunSet, named, read_set
from penstock.files.catalogue import Catalogue, Filter
from penstock.model.bench.entries import Entry
from penstock.model.errors import UsageError

# Older measurements of a target may be of another state of it.
_TOGETHER = timedelta(days=1)
# What belongs to the length of a run and not to what it measures.
_EXTENT = {"frames", "ring_frames", "record"}


@dataclass(frozen=True)
class Kind:
    """What documents have to have in common for a comparison."""

    what: str
    """ "verdict PILATUS 6M" or "run of stream"."""
    parameters: tuple[tuple[str, str], ...]


def are_directories(paths: Sequence[Path]) -> bool:
    """Whether each may be the target of measurements, whatever else is in it."""
    return all(path.is_dir() for path in paths)


def is_target(path: Path) -> bool:
    """Whether it is neither a file nor a folder of documents: the run index may know measurements of it."""
    if path.is_dir():
        return not any(looks_comparable(each) for each in path.glob("*.json"))
    return not path.exists()


def newest_sets(targets: Sequence[Path], index: Catalogue) -> list[RunSet]:
    """The newest measurement that all targets have, with others of its kind of the day before it.

    A UsageError names what the index has of each where they have nothing in common.
    """
    known = [_by_kind(target, index) for target in targets]
    common = [kind for kind in known[0] if all(kind in each for each in known)]
    if not common:
        raise UsageError(_nothing_in_common(targets, known), "measure both with the same command")
    kind = max(common, key=lambda each: min(entries[each][-1].started for entries in known))
    return named(
        [
            read_set(str(target), _last_day(entries[kind]), target.absolute())
            for target, entries in zip(targets, known, strict=True)
        ]
    )


def _by_kind(target: Path, index: Catalogue) -> dict[Kind, list[Entry]]:
    """Complete and valid documents that are still there, the oldest first."""
    found: dict[Kind, list[Entry]] = {}
    for listed in index.documents(Filter(target=str(target))):
        entry = listed.entry
        is_valid = entry.validity is not None and "invalid" not in (entry.validity, entry.answer)
        is_comparable = entry.kind != "rehearsal"
        if listed.state == "there" and entry.complete and is_valid and is_comparable:
            found.setdefault(_kind_of(entry), []).append(entry)
    if not found:
        unknown = f"the run index has no valid measurement of {target}"
        where = f"{target} is neither a document nor a folder of documents, and "
        raise UsageError(
            unknown if target.is_dir() else f"{where}{unknown}",
            "measure it first, such as with `penstock verdict DETECTOR PATH --output FILE`; `penstock runs"
            " list` shows the index",
        )
    return found


def _kind_of(entry: Entry) -> Kind:
    what = f"run of {entry.workload}" if entry.kind == "run" else f"{entry.kind} {entry.name}"
    stated = {name: str(value) for name, value in entry.parameters.items() if name not in _EXTENT}
    return Kind(what, tuple(sorted(stated.items())))


def _last_day(entries: Sequence[Entry]) -> list[Path]:
    since = datetime.fromisoformat(entries[-1].started) - _TOGETHER
    return [Path(each.path) for each in entries if datetime.fromisoformat(each.started) >= since]


def _nothing_in_common(targets: Sequence[Path], known: Sequence[dict[Kind, list[Entry]]]) -> str:
    there = (
        f"{target} has {', '.join(dict.fromkeys(f'a {kind.what}' for kind in kinds))}"
        for target, kinds in zip(targets, known, strict=True)
    )
    return f"the run index has no measurement that both targets share: {'; '.join(there)}"
