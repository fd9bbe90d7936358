"""The catalogue of runs: an index that several write at once, and that never stands in the way."""

import json
import multiprocessing
import os
import sqlite3
import time
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from bench_documents import searched, step_of, verdict_of
from campaign_documents import made_up_campaign, made_up_run
from conftest import Run as RunCommand
from hypothesis import given, settings
from hypothesis import strategies as st
from report_documents import a_rehearsal
from typer.testing import CliRunner, Result

from penstock.bench.campaign.entries import find_documents, read_entry
from penstock.cli import application
from penstock.cli.documents import Entering
from penstock.files import catalogue as module
from penstock.files.catalogue import Catalogue, Filter, Outcome, default_path
from penstock.model.bench.entries import Entry, Listed
from penstock.model.bench.runs import Check, Run, Step
from penstock.model.errors import PenstockError, UsageError
from penstock.model.text import one_short_line
from penstock.report.entries import entries_lines


def written(folder: Path, name: str = "run.json", run: Run | None = None) -> Path:
    path = folder / name
    path.write_text((run or made_up_run()).model_dump_json() + "\n")
    return path


@pytest.fixture
def known(tmp_path: Path) -> Catalogue:
    return Catalogue(tmp_path / "data" / "catalogue.sqlite")


def invoke(known: Catalogue, *arguments: str) -> Result:
    return CliRunner().invoke(
        application, ["runs", *arguments, "--index", str(known.path)], catch_exceptions=False
    )


def test_a_rehearsal_is_listed_as_a_verdict_is(known: Catalogue, tmp_path: Path) -> None:
    made = {
        "yes": a_rehearsal(),
        "open": a_rehearsal(less_than_hz=None),
        "void": a_rehearsal(answer="invalid"),
    }
    for name, document in made.items():
        (tmp_path / f"{name}.json").write_text(document.model_dump_json(), encoding="utf-8")
    assert invoke(known, "add", str(tmp_path)).stdout == "3 new\n"
    entries = {Path(each.entry.path).stem: each.entry for each in known.documents(Filter(kind="rehearsal"))}
    found = entries["yes"]
    assert (found.name, found.answer, found.validity) == ("PILATUS 6M", "yes", "valid")
    assert (found.host, found.started, found.complete) == ("recorder1", "2026-01-02T03:04:05Z", True)
    assert {name: each.value for name, each in found.values.items()} == {"needed": 25e6, "measured": 50e6}
    assert entries["open"].values["measured"].at_least
    assert entries["void"].validity == "invalid"
    assert len(known.documents(Filter(target="/data", validity="valid"))) == 2
    shown = invoke(known, "list", "--kind", "rehearsal").stdout
    assert "rehearsal PILATUS 6M  yes" in shown
    assert "needed 25 MB/s, measured 50 MB/s" in shown


def test_rehearsals_of_different_recorders_are_listed_as_such(known: Catalogue, tmp_path: Path) -> None:
    for encoding in ("bszstd", "bslz4"):
        job = {"threads": 4, "pool_bytes": 1 << 30, "codec": {"encoding": encoding}}
        document = a_rehearsal(configuration=job, configuration_file=f"{encoding}.yaml")
        (tmp_path / f"{encoding}.json").write_text(document.model_dump_json(), encoding="utf-8")
    invoke(known, "add", str(tmp_path))
    shown = invoke(known, "list").stdout
    assert "rehearsal PILATUS 6M (bszstd, 4 threads, pool 1 GiB)" in shown
    assert "rehearsal PILATUS 6M (bslz4, 4 threads, pool 1 GiB)" in shown


def test_measurements_of_the_network_are_found_by_their_address(known: Catalogue, tmp_path: Path) -> None:
    run = made_up_run().model_copy(update={"target": "tcp://storage1:9920"})
    assert known.add(read_entry(written(tmp_path, "network.json", run))) == "new"
    for target, found in (
        ("storage1", 1),
        ("storage1:9920", 1),
        ("storage", 0),
        ("storage1:99", 0),
        ("/", 0),
    ):
        assert len(known.documents(Filter(target=target))) == found, target


def test_documents_are_entered_and_found(known: Catalogue, tmp_path: Path) -> None:
    assert known.documents() == []
    assert not known.path.exists(), "looking makes nothing"
    run = written(tmp_path, "run.json", made_up_run(5e8, "warned"))
    verdict = tmp_path / "verdict.json"
    verdict.write_text(
        verdict_of(step_of("rate", made_up_run().document), detector="PILATUS 6M").model_dump_json()
    )
    campaign = tmp_path / "campaign.json"
    campaign.write_text(made_up_campaign(done=3).model_dump_json())
    for path in (run, verdict, campaign):
        assert known.add(read_entry(path)) == "new"
        assert known.add(read_entry(path)) == "known"
    first, second, third = known.documents()
    assert (first.entry.kind, first.entry.validity) == ("run", "warned")
    assert first.entry.values["throughput"].value == 5e8
    assert first.entry.parameters["frame_bytes"] == 10**6
    assert (first.entry.host, first.entry.targets[0].file_system) == ("h", "ext4")
    assert (second.entry.name, second.entry.answer) == ("PILATUS 6M", "likely yes")
    assert (third.entry.runs, third.entry.complete) == (3, False)
    assert {each.state for each in known.documents()} == {"there"}
    for wanted, found in (
        (Filter(kind="verdict"), [second]),
        (Filter(validity="warned"), [first]),
        (Filter(validity="incomplete"), [third]),
        (Filter(validity="incomplete", kind="run"), []),
        (Filter(host="incomplete"), []),
        (Filter(workload="stream"), []),
        (Filter(workload="frames", host="h"), [first, second, third]),
        (Filter(target="/x"), [first, second, third]),
        (Filter(target="/"), [first, second, third]),
        (Filter(target="/x/y"), []),
        (Filter(since="2026-01-01T00:00:00"), [first, second, third]),
        (Filter(since="2026-01-01T00:00:01"), []),
        (Filter(host="h' OR '1"), []),
    ):
        assert known.documents(wanted) == found, wanted


def test_moved_changed_copied_and_missing_are_told_apart(known: Catalogue, tmp_path: Path) -> None:
    path = written(tmp_path)
    known.add(read_entry(path))
    number = known.documents()[0].id
    os.utime(path, (0, 0))
    assert known.documents()[0].state == "there", "the same bytes at another time"
    moved = path.rename(tmp_path / "moved.json")
    assert known.documents()[0].state == "missing"
    assert known.add(read_entry(moved)) == "moved"
    assert [(each.id, each.entry.path) for each in known.documents()] == [(number, str(moved))]
    copy = tmp_path / "copy.json"
    copy.write_bytes(moved.read_bytes())
    assert known.add(read_entry(copy)) == "new"
    written(tmp_path, "moved.json", made_up_run(2e8))
    assert [each.state for each in known.documents()] == ["changed", "there"]
    assert known.add(read_entry(moved)) == "changed"
    assert [each.state for each in known.documents()] == ["there", "there"]
    same_size = moved.read_text().replace("200000000.0", "300000000.0")
    assert len(same_size) == moved.stat().st_size
    moved.write_text(same_size)
    os.utime(moved, (1, 1))
    assert [each.state for each in known.documents()] == ["changed", "there"]


def enter_many(path: Path, document: Path, name: str, count: int, together: Barrier) -> None:
    entry = read_entry(document)
    together.wait(60)
    for number in range(count):
        Catalogue(path).add(
            entry.model_copy(update={"path": f"/{name}/{number}", "sha256": name * 60 + f"{number:04}"})
        )


@pytest.mark.slow
def test_processes_that_enter_at_once_lose_nothing(known: Catalogue, tmp_path: Path) -> None:
    """They also make the catalogue at once."""
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(3)
    document = written(tmp_path)
    processes = [
        context.Process(target=enter_many, args=(known.path, document, name, 40, together)) for name in "abc"
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    found = [each.entry.path for each in known.documents()]
    assert sorted(found) == sorted(f"/{name}/{number}" for name in "abc" for number in range(40))


def test_foreign_broken_and_newer_databases_are_left_alone(known: Catalogue, tmp_path: Path) -> None:
    entry = read_entry(written(tmp_path))
    known.path.parent.mkdir()
    foreign = sqlite3.connect(known.path)
    foreign.execute("CREATE TABLE documents (id INTEGER)")
    foreign.commit()
    foreign.close()
    broken, newer = tmp_path / "broken", tmp_path / "newer"
    broken.write_text("precious, and no database" * 100)
    Catalogue(newer).add(entry)
    later = sqlite3.connect(newer)
    later.execute("PRAGMA user_version = 99")
    later.close()
    for path, words in (
        (known.path, "not a run index"),
        (broken, "cannot use the run index"),
        (newer, "newer version"),
    ):
        before = path.read_bytes()
        for act in (
            lambda path=path: Catalogue(path).add(entry),
            lambda path=path: Catalogue(path).documents(),
        ):
            with pytest.raises(PenstockError, match=words) as refused:
                act()
            assert str(path) in str(refused.value)
            assert refused.value.remedy
        assert path.read_bytes() == before


def test_an_older_catalogue_is_brought_up_to_date(
    known: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known.add(read_entry(written(tmp_path)))
    before = known.documents()
    step = "ALTER TABLE documents ADD COLUMN comment TEXT; UPDATE documents SET comment = 'old';"
    monkeypatch.setattr(module, "_STEPS", (*module._STEPS, step))
    assert known.documents() == before, "looking is enough"
    database = sqlite3.connect(known.path)
    assert database.execute("SELECT comment FROM documents").fetchall() == [("old",)]
    assert database.execute("PRAGMA user_version").fetchone() == (2,)
    database.close()
    assert known.add(read_entry(written(tmp_path, "b.json", made_up_run(2e6)))) == "new"
    monkeypatch.setattr(module, "_STEPS", (*module._STEPS, "NONSENSE"))
    with pytest.raises(PenstockError, match="cannot use the run index"):
        known.documents()
    monkeypatch.undo()
    with pytest.raises(PenstockError, match="newer version"):
        known.documents()


def test_a_path_is_told_whole_however_long_it_is(known: Catalogue, tmp_path: Path) -> None:
    """Beyond the 80 columns of a terminal, and of what is none."""
    deep = tmp_path / ("long folder " * 8).strip() / ("another " * 8).strip()
    deep.mkdir(parents=True)
    path = written(deep, "a.json")
    assert invoke(known, "add", str(tmp_path)).stdout == "1 new\n"
    lines = invoke(known, "list").stdout.splitlines()
    assert [line.strip() for line in lines[1:]] == ["of /x", str(path)]
    assert lines[0].startswith("1  2026")


def test_the_commands(known: Catalogue, tmp_path: Path) -> None:
    deep = tmp_path / "results" / "deep"
    deep.mkdir(parents=True)
    written(deep, "a.json")
    written(tmp_path / "results", "b.json", made_up_run(2e6, "invalid"))
    (deep / "other.json").write_text('{"format": "something else"}')
    (deep / "notes.txt").write_text("x")
    os.mkfifo(deep / "pipe.json")
    added = invoke(known, "add", str(tmp_path / "results"))
    assert (added.exit_code, added.stdout) == (0, "2 new\n")
    assert invoke(known, "add", str(tmp_path / "results")).stdout == "2 known\n"
    listed = json.loads(invoke(known, "list", "--validity", "invalid", "--json").stdout)
    assert [Path(each["entry"]["path"]).name for each in listed] == ["b.json"]
    assert invoke(known, "list", "--validity", "incomplete").stdout == ""
    shown = invoke(known, "list").stdout
    assert f"   {deep / 'a.json'}\n" in shown, "whole, on a line of its own"
    assert "invalid" in shown
    sheet = invoke(known, "show", str(deep / "a.json"))
    assert "SHA-256" in sheet.stdout
    assert json.loads(invoke(known, "show", "1", "--json").stdout)["state"] == "there"
    (deep / "a.json").unlink()
    assert "(missing)" in invoke(known, "list").stdout
    assert invoke(known, "forget", "--missing").stdout == "1 forgotten\n"
    assert invoke(known, "forget", str(tmp_path / "results" / "b.json")).stdout == "1 forgotten\n"
    assert (tmp_path / "results" / "b.json").exists()
    assert known.documents() == []
    for arguments, words in (
        (("show", "7"), "no document 7"),
        (("forget",), "give either"),
        (("forget", "1", "--missing"), "give either"),
        (("add", str(deep / "other.json")), "cannot be read"),
        (("add", str(deep / "pipe.json")), "is not a document"),
        (("add", "absent.json"), "absent.json"),
        (("list", "--since", "yesterday"), "yesterday"),
        (("list", "--since", "9" * 30 + "d"), "is neither a date nor an age"),
    ):
        refused = invoke(known, *arguments)
        assert refused.exit_code == 2, arguments
        assert words in " ".join(refused.stderr.split()), refused.stderr


def test_a_path_that_the_catalogue_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not UTF-8"):
        read_entry(written(tmp_path, os.fsdecode(b"\xff.json")))


def test_damaged_documents_in_a_folder_are_left_out(known: Catalogue, tmp_path: Path) -> None:
    written(tmp_path)
    whole = made_up_run().model_dump_json()
    (tmp_path / "cut.json").write_text(whole[: len(whole) // 2])
    added = invoke(known, "add", str(tmp_path))
    assert added.exit_code == 1
    assert added.stdout == "1 new\n"
    assert "cut.json" in added.stderr


def test_what_documents_say_cannot_move_the_cursor(known: Catalogue, tmp_path: Path) -> None:
    run = made_up_run()
    hostile = "\x1b[2J\x07[bold]\u202e" + "long" * 1000
    conditions = run.conditions.model_copy(update={"host": hostile, "file_system": hostile})
    path = written(tmp_path, "h.json", run.model_copy(update={"target": hostile, "conditions": conditions}))
    known.add(read_entry(path))
    damaged = tmp_path / "damaged.json"
    damaged.write_text(run.model_dump_json()[:-1] + ',"\\u001b[2J\\u0007[bold]": 1}')
    for arguments in (("list",), ("show", "1"), ("add", str(damaged))):
        result = invoke(known, *arguments)
        shown = result.stdout + result.stderr
        assert not set(shown) & {"\x1b", "\x07", "\u202e"}
        assert "[bold]" in shown
        assert len(shown) < 8000


@given(text=st.text())
def test_printable_text_is_printable_and_short(text: str) -> None:
    assert one_short_line(text).isprintable()
    assert len(one_short_line(text)) <= 500
    if text.isprintable() and len(text) <= 500:
        assert one_short_line(text) == text


@given(head=st.binary(max_size=60), tail=st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_a_document_or_refused(
    head: bytes, tail: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    for text in (
        head + tail,
        b'{"format":"penstock-run 1",' + tail,
        b'{"format":"penstock-campaign 1"' + tail,
    ):
        path.write_bytes(text)
        with pytest.raises(UsageError):
            read_entry(path)
        assert list(find_documents(path)) == [path]


def test_a_verdict_is_as_sound_as_what_it_rests_on(tmp_path: Path) -> None:
    """A first look that was too short makes no verdict invalid."""
    document = made_up_run().document
    bad = Check(name="c", outcome="failed", expected="e", actual="a", bias="better", advice="do")
    path = tmp_path / "verdict.json"

    def entered(*steps: Step, problem: str | None = None) -> Entry:
        path.write_text(verdict_of(*steps, problem=problem).model_dump_json())
        return read_entry(path)

    rate, look = step_of("rate", document), step_of("probe", document, bad)
    warned = step_of("soak", document, bad.model_copy(update={"outcome": "warning"}))
    assert entered(rate, look).validity == "valid"
    assert entered(rate, look, warned).validity == "warned"
    assert entered(step_of("rate", document, bad)).validity == "invalid"
    assert entered(rate).complete
    assert not entered(rate, problem="it was interrupted").complete


def test_lower_bound_is_marked_and_invalid_metrics_are_left_out(tmp_path: Path) -> None:
    document, path = made_up_run().document, tmp_path / "verdict.json"
    rate, full = step_of("rate", document), step_of("full speed", document)
    open_end = verdict_of(rate, full, search=searched(held_hz=20.0, not_held_hz=None, ended="top"))
    path.write_text(open_end.model_dump_json())
    entry = read_entry(path)
    assert entry.values["measured"].at_least

    def shown(entry: Entry) -> str:
        listed = Listed(id=1, entered="", state="there", entry=entry)
        return entries_lines([listed])[0].plain

    assert "measured at least " in shown(entry)
    assert "measured" not in shown(entry.model_copy(update={"validity": "invalid"}))


def test_what_to_do_about_a_catalogue_depends_on_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a damaged one is to be moved away."""
    monkeypatch.setattr("penstock.files.catalogue._WAITS_S", 0.05)
    path, run = tmp_path / "c.sqlite", tmp_path / "run.json"
    run.write_text(made_up_run().model_dump_json())
    Catalogue(path).add(read_entry(run))

    def remedy_of(catalogue: Catalogue) -> str:
        with pytest.raises(PenstockError) as error:
            catalogue.add(read_entry(run))
        assert str(catalogue.path) in error.value.message
        return error.value.remedy

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "another command is using it" in remedy_of(Catalogue(path))
        other.execute("ROLLBACK")
    assert "PENSTOCK_CATALOGUE" in remedy_of(Catalogue(Path("/proc/none/c.sqlite")))
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    assert "move it away" in remedy_of(Catalogue(path))


def test_a_catalogue_that_is_locked_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A campaign goes on, and its document is entered at the end."""
    monkeypatch.setattr("penstock.files.catalogue._WAITS_S", 0.5)
    path, document = tmp_path / "c.sqlite", tmp_path / "campaign.json"
    monkeypatch.setenv("PENSTOCK_CATALOGUE", str(path))
    document.write_text(made_up_campaign(done=4).model_dump_json())
    Catalogue(path).add(read_entry(written(tmp_path)))
    waited = []

    class Counting(Catalogue):
        def add(self, entry: Entry) -> Outcome:
            waited.append(entry.path)
            return super().add(entry)

    monkeypatch.setattr("penstock.cli.documents.Catalogue", Counting)
    with Entering(document) as entering:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            begin = time.monotonic()
            for done in range(5):
                entering.enter(made_up_campaign(done=done))
            assert len(waited) == 1
            assert time.monotonic() - begin > 0.4
            other.execute("ROLLBACK")
        assert len(Catalogue(path).documents()) == 1
        entering.enter(made_up_campaign(done=4))
    said = capsys.readouterr().err
    assert said.count("could not add") == 1
    assert "another attempt follows at the end" in said
    assert [listed.entry.kind for listed in Catalogue(path).documents()] == ["run", "campaign"]
    with Entering(document) as entering:  # and one that is free is up to date after each run
        entering.enter(made_up_campaign(done=4))
        assert len(Catalogue(path).documents()) == 2
    assert capsys.readouterr().err == ""


def test_where_the_catalogue_is(tmp_path: Path) -> None:
    assert default_path({"PENSTOCK_CATALOGUE": "/a/b"}) == Path("/a/b")
    assert default_path({"XDG_DATA_HOME": "/c"}) == Path("/c/penstock/catalogue.sqlite")
    assert default_path({}) == Path.home() / ".local/share/penstock/catalogue.sqlite"


@pytest.mark.slow
def test_measurements_are_entered_and_a_catalogue_stops_none(
    run: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same measurement with a catalogue, with a broken one, and with one that cannot be made."""
    broken = tmp_path / "broken.sqlite"
    broken.write_text("precious")
    good, target = tmp_path / "good.sqlite", tmp_path / "target"
    target.mkdir()
    for path in (good, broken, Path("/proc/none/catalogue.sqlite")):
        monkeypatch.setenv("PENSTOCK_CATALOGUE", str(path))
        output = tmp_path / f"{path.stem}.json"
        finished = run("bench", "stream", str(target), "--size", "1MiB", "--yes", "--output", str(output))
        assert finished.returncode == 4, finished.stderr  # a run of a moment is invalid
        assert Run.model_validate_json(output.read_text()).workload == "stream"
        assert ("could not add" in finished.stderr) == (path != good)
    assert broken.read_text() == "precious"
    small = ("--rows", "16", "--columns", "16", "--rate", "20", "--seconds", "1", "--quick", "--yes")
    monkeypatch.setenv("PENSTOCK_CATALOGUE", str(tmp_path / "verdicts.sqlite"))
    run("verdict", "custom", str(target), *small, "--output", str(tmp_path / "verdict.json"))
    (verdict,) = Catalogue(tmp_path / "verdicts.sqlite").documents()
    assert (verdict.entry.kind, verdict.entry.name, verdict.state) == (
        "verdict",
        "custom detector of 16 x 16 uint16",
        "there",
    )
    (entered,) = Catalogue(good).documents()
    assert entered.entry == Entry.model_validate(read_entry(tmp_path / "good.json"))
