"""URLs as targets: what is one, and what each protocol refuses."""

from pathlib import Path

import pytest
from conftest import Run

from penstock.bench.data.remote_folder import RemoteFolder
from penstock.model.errors import UsageError
from penstock.model.storage_url import StorageUrl, mounted, place_of


def test_a_path_is_no_url() -> None:
    assert place_of("/data") == Path("/data")
    assert place_of("a:b") == Path("a:b")
    assert place_of("root://h//p") == StorageUrl("root://h//p")


@pytest.mark.parametrize(
    "text",
    [
        "ftp://h/x",
        "root://",
        "root:///x",
        "http://h:99999/x",
        "http://h/a b",
        "nfs://h/\x1b[0m",
        "http://u:p@h/x",
        "http://u%3Ap@h/x",
        "ftp://u:p@h/x",
        "http://u:?p@h/x",
        "http://u:#p@h/x",
        "http://u:p@h?p@=",
        "https://p@h/x",
        "HTTPS://p@h/x",
        "s3s://p@h/b",
        "hdfs://p@h/x",
        "nfs://p@h/x",
        "root://u:p@h//x",
        "root://p.p@h//x",
        "roots://P@h//x",
        "root://abcdefghijklmnopp@h//x",
        "http://h/x#y",
        "http://h/x?p@=",
        "root://h//x?authz=p@",
        "nfs://h/x#y",
        "http://h/a/../b",
        "root://h",
        "root://h/relative",
        "nfs://h/",
        "s3://h:1",
        "s3s://h/",
    ],
)
def test_a_url_that_cannot_be_used_is_named(text: str) -> None:
    with pytest.raises(UsageError) as found:
        StorageUrl.parse(text)
    assert found.value.remedy
    assert "p@" not in found.value.message.lower()


def test_a_user_of_xrootd_may_be_named() -> None:
    assert str(StorageUrl.parse("root://some-one@h//x")) == "root://some-one@h//x"


def test_names_go_before_the_options_of_a_url() -> None:
    url = StorageUrl.parse("nfs://h/export/?version=4") / "a"
    assert str(url) == "nfs://h/export/a?version=4"
    assert (url.name, str(url.parent), url.scheme) == ("a", "nfs://h/export?version=4", "nfs")


@pytest.mark.parametrize(
    "text", ["http://h", "http://[::1]:80/x", "s3://bucket", "hdfs://h/", "http://h/%20"]
)
def test_a_url_may_name_a_root_or_an_address(text: str) -> None:
    assert str(StorageUrl.parse(text)) == text


def test_names_in_other_alphabets_are_encoded_where_http_carries_them() -> None:
    assert str(StorageUrl.parse("s3://h:1/b/ü")) == "s3://h:1/b/%C3%BC"
    assert str(StorageUrl.parse("http://h/a%20b/x=1")) == "http://h/a%20b/x=1"
    assert str(StorageUrl.parse("root://h//ü")) == "root://h//ü"


@pytest.mark.parametrize("name", ["..", ".", "", "a b", "ä", "a#b", "a?b", "a/b"])
def test_a_name_that_a_url_cannot_hold_is_an_error_of_the_user(name: str) -> None:
    with pytest.raises(UsageError):
        StorageUrl.parse("http://h/p") / name


def test_variables_of_a_laboratory_are_not_shown() -> None:
    assert "secret" not in repr(StorageUrl("s3://h:1/b", variables=(("AWS_SECRET_ACCESS_KEY", "secret"),)))


def test_what_requires_a_mount_says_so() -> None:
    with pytest.raises(UsageError, match="--background"):
        mounted(StorageUrl("root://h//p"), "--background")
    assert mounted(Path("/x"), "anything") == Path("/x")


def test_commands_that_require_a_mount_say_so_of_a_url(run: Run) -> None:
    done = run("describe", "https://user:secret@h/p")
    assert done.returncode == 2
    assert "a URL (https://) is not possible here" in done.stderr
    assert "secret" not in done.stderr


def test_no_two_runs_have_one_directory() -> None:
    names = {RemoteFolder(StorageUrl("root://h//p")).path.name for _ in range(100)}
    assert len(names) == 100


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("stream root://h//p --shared", "--shared"),
        ("stream root://h//p --ranks 2", "--ranks"),
        ("stream root://h//p --backend store", "--backend"),
        ("hdf5 root://h//p", "HDF5"),
        ("stream root://h//p --queue-depth 4", "--queue-depth"),
        ("stream root://h//p --profile", "--profile"),
        ("stream root://h//p --background stream", "--background"),
        ("stream http://h/p --order random", "--order"),
        ("stream hdfs://h/p --order random", "--order"),
        ("stream s3://h:1/b --transfer 1MiB", "--transfer"),
        ("stream s3://h:1/b --size 100GiB --transfer 8MiB", "12800"),
        ("frames s3://h:1/b --rate 1 --frame-size 1MiB --layout file_a_writer", "--layout"),
        ("frames http://h/p --rate 1 --frame-size 1MiB --layout file_a_writer", "confirms"),
        ("frames hdfs://h/p --rate 1 --frame-size 1MiB --layout file_a_writer", "confirms"),
        ("frames root://h//p --rate 1 --frame-size 1MiB --rename", "--rename"),
        ("metadata s3://h:1/b", "directories"),
        ("metadata root://h//p --no-remove", "--no-remove"),
    ],
)
def test_what_a_protocol_cannot_do_is_refused_before_anything_is_asked(
    run: Run, words: str, named: str
) -> None:
    done = run("bench", *words.split(), "--dry-run")
    assert done.returncode == 2, done.stderr
    assert named in done.stderr


@pytest.mark.parametrize(
    "words", ["verdict pilatus-6m root://h//p --dry-run", "rehearse pilatus-6m root://h//p --dry-run"]
)
def test_commands_without_protocols_ask_for_a_directory(run: Run, words: str) -> None:
    done = run(*words.split())
    assert done.returncode == 2, done.stderr
    assert "root://h//p is a URL" in done.stderr
