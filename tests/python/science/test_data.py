"""A data set is made once, found again, verified, and removed with nothing of the user's."""

import dataclasses
import json
import os
import platform
from pathlib import Path
from typing import Any

import pytest
from warm_command import penstock

from penstock.bench.data.folder import MANIFEST, FileSet
from penstock.bench.science.data.manifest import CONTENTS, CONTENTS_SET, DataSpec
from penstock.bench.science.data.prepare import DataSet, prepared, task
from penstock.model.errors import PenstockError, UsageError


def spec(count: int = 3, **more: Any) -> DataSpec:
    parameters = {"size": 5000, **more}
    files = FileSet(prefix="thing-", count=count)
    return DataSpec("things", parameters, files, "jobs_of_tests:makes_files", 5000 * count)


def prepare(target: Path, wanted: DataSpec, checksums: bool = False) -> tuple[DataSet, list[str]]:
    said: list[str] = []
    with prepared(target, wanted, said.append, checksums) as data:
        return data, said


def clean(target: Path) -> tuple[int, str]:
    done = penstock("bench", "clean", str(target), "--yes")
    return done.returncode, done.stdout + done.stderr


def test_it_is_made_once_and_found_again(tmp_path: Path) -> None:
    made, said = prepare(tmp_path, spec())
    assert len(said) == 1
    assert [(each.name, each.bytes, each.truth) for each in made.files] == [
        (f"thing-{number:09d}.bin", 5000, {"byte": number}) for number in range(3)
    ]
    assert prepare(tmp_path, spec(), checksums=True) == (made, [])
    other, said = prepare(tmp_path, spec(size=4000))
    assert other.place != made.place
    assert len(said) == 1


@pytest.mark.slow
def test_a_data_set_with_too_few_files_is_not_complete(tmp_path: Path) -> None:
    few = dataclasses.replace(spec(os.cpu_count() or 1), make="jobs_of_tests:makes_one_file")
    assert len(prepare(tmp_path, few)[0].files) == few.files.count
    few = dataclasses.replace(few, files=FileSet(prefix="thing-", count=1 + (os.cpu_count() or 1)))
    with pytest.raises(PenstockError, match=rf"{few.files.count - 1} of {few.files.count} files were made"):
        prepare(tmp_path, few)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_data_set_that_another_command_removed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = prepare(tmp_path, spec())
    open_, place = os.open, str(made.place)

    def removed(path: object, *more: Any, **options: Any) -> int:
        if str(path) == place:
            os.rename(place, f"{place}-gone")  # noqa: PTH104
        return open_(path, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("penstock.bench.science.data.prepare.os.open", removed)
    with pytest.raises(UsageError, match="another command has removed"):
        prepare(tmp_path, spec())


@pytest.mark.parametrize("changed", [{"files": []}, {"parameters": {"size": 1}}])
def test_a_data_set_with_other_contents_is_not_used(tmp_path: Path, changed: dict[str, Any]) -> None:
    made, _ = prepare(tmp_path, spec())
    contents = Path(str(made.place)) / CONTENTS
    contents.write_text(json.dumps(json.loads(contents.read_text()) | changed))
    with pytest.raises(PenstockError, match="is not the data set that its name stands for"):
        prepare(tmp_path, spec())


@pytest.mark.slow
def test_a_huge_manifest_is_not_read(tmp_path: Path) -> None:
    made, _ = prepare(tmp_path, spec())
    contents = Path(str(made.place)) / CONTENTS
    os.truncate(contents, 1 << 40)
    with pytest.raises(PenstockError, match=rf"{CONTENTS} has {1 << 40} bytes"):
        prepare(tmp_path, spec())


def test_a_file_that_is_not_as_it_was_made_is_named(tmp_path: Path) -> None:
    made, _ = prepare(tmp_path, spec())
    file = Path(str(made.place)) / "thing-000000001.bin"
    content = file.read_bytes()
    file.write_bytes(b"\0" + content[1:])
    assert prepare(tmp_path, spec())[1] == []
    with pytest.raises(PenstockError, match=r"thing-000000001\.bin is not what was written"):
        prepare(tmp_path, spec(), checksums=True)
    file.write_bytes(content[:-1])
    with pytest.raises(PenstockError, match=r"thing-000000001\.bin has 4999 bytes; 5000 were written"):
        prepare(tmp_path, spec())


def test_one_that_cannot_be_made_is_removed(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match="exit code 9"):
        prepare(tmp_path, spec(dies_at=2))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_incomplete_one_is_made_again(tmp_path: Path) -> None:
    made, _ = prepare(tmp_path, spec())
    folder = Path(str(made.place))
    (folder / CONTENTS).unlink()
    (folder / "thing-000000002.bin").unlink()
    again, said = prepare(tmp_path, spec())
    assert len(said) == 1
    assert again == made


def test_clean_removes_it_unless_a_run_uses_it(tmp_path: Path) -> None:
    with prepared(tmp_path, spec(), lambda _: None) as data:
        code, said = clean(tmp_path)
        assert code == 1
        assert "a run uses" in said
        assert (Path(str(data.place)) / CONTENTS).exists()
    code, said = clean(tmp_path)
    assert code == 0
    assert "data set, 5 files" in said.replace("\n", "")
    assert list(tmp_path.iterdir()) == []


def test_files_of_the_user_stay(tmp_path: Path) -> None:
    made, _ = prepare(tmp_path, spec())
    folder = Path(str(made.place))
    (folder / "thing-mine.bin").write_text("mine")
    (folder / "thing-000000003.bin").write_text("mine")
    code, said = clean(tmp_path)
    assert code == 1
    assert "mine" in said or "thing-000000003" in said
    assert {each.name for each in folder.iterdir()} >= {"thing-mine.bin", "thing-000000003.bin"}


def test_a_directory_of_the_user_with_its_name_is_not_touched(tmp_path: Path) -> None:
    folder = tmp_path / spec().folder
    folder.mkdir()
    (folder / "thing-000000000.bin").write_text("mine")
    with pytest.raises(PenstockError, match="is not the directory of a run"):
        prepare(tmp_path, spec())
    assert clean(tmp_path)[0] == 1
    assert (folder / "thing-000000000.bin").read_text() == "mine"


@pytest.mark.parametrize(("host", "pid", "made"), [(platform.node(), 1, "2026"), ("other", 9, "now")])
def test_one_that_another_command_makes_on_a_server_is_not_removed(
    tmp_path: Path, host: str, pid: int, made: str
) -> None:
    """A server has no locks: the mark says who made it, and when."""
    place, name = tmp_path / "penstock-data-things-0", "penstock-data-things-0"
    task(place, "mark", name=name, bytes=1, sets=[CONTENTS_SET.model_dump()])
    mark = json.loads((place / MANIFEST).read_text())
    moment = mark["made"] if made == "now" else "2026-01-01T00:00:00Z"
    (place / MANIFEST).write_text(json.dumps(mark | {"host": host, "pid": pid, "made": moment}))
    with pytest.raises(PenstockError, match=f"process {pid} on {host} may be making"):
        task(place, "remove", name=name)
    (place / MANIFEST).write_text(json.dumps(mark | {"host": "other", "made": "2026-01-01T00:00:00Z"}))
    task(place, "remove", name=name)
    assert not place.exists()
