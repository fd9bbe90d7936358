"""Whatever a user or a system does, a command ends with an error in words and a documented exit code."""

import codecs
import ctypes
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import h5py
import numpy
import pytest
from report_documents import a_verdict

from penstock.cli import main, words
from penstock.cli.application import COMMANDS
from penstock.cli.bench import verdict
from penstock.cli.documents import written_first
from penstock.cli.lazy import Later, LaterGroup
from penstock.model.bench.runs import Verdict
from penstock.model.errors import PenstockError
from penstock.model.problems import in_words
from penstock.programs import signals

CAPABILITIES_OF_ROOT = (1 << 1) | (1 << 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
CUSTOM = "custom --rows 4 --columns 4 --rate 1"

# Every way in which a command takes a path of the user.
WITH_PATH = [
    "init PATH",
    "doctor PATH",
    "record PATH",
    "record --folder PATH",
    "record --folder . --listen 0.0.0.0:9900 --token-file PATH",
    "record --folder . --layout PATH --dry-run",
    "pva X --to tcp://127.0.0.1:9900 --start PATH",
    f"simulate {CUSTOM} --to files:PATH/x",
    f"simulate {CUSTOM} --replay PATH",
    "simulate PATH",
    "collect --folder PATH",
    "demo --folder PATH",
    "info PATH",
    "view PATH",
    "check PATH",
    "check . --against PATH",
    "recover PATH",
    "join PATH x.h5",
    "join new.h5 PATH",
    "attach PATH values.pnval",
    "export PATH --for xds",
    "export x.h5 --for xds --output PATH",
    "verdict pilatus-6m PATH",
    "verdict pilatus-6m . --quick --space 1GB --dry-run --output PATH",
    "verdict pilatus-6m . --quick --space 1GB --dry-run --report PATH",
    "rehearse pilatus-6m PATH",
    "rehearse pilatus-6m . --config PATH",
    "bench frames PATH --rate 1",
    "bench analysis PATH",
    "bench clean PATH",
    "bench stream PATH",
    "bench hdf5 PATH",
    "bench metadata PATH",
    f"bench acquire-and-analyse PATH {CUSTOM}",
    "bench seismic-sort PATH",
    "bench seismic-sort . --scratch PATH --dry-run",
    "bench uvbuffer PATH",
    "bench imaging PATH",
    "bench imaging . --images PATH --dry-run",
    "bench network 127.0.0.1 --token-file PATH",
    "campaign PATH",
    "campaign pilatus-6m-rates --target PATH --dry-run",
    "campaign pilatus-6m-rates --target . --output PATH --yes",
    "compare PATH PATH",
    "compare --trend PATH",
    "report PATH --output x.html",
    "report x.json --output PATH",
    "layout check PATH",
    "layout show PATH",
    "runs show PATH",
    "describe PATH",
    "describe . --markdown PATH",
    "plan --beamlines PATH",
    "plan pilatus-6m --markdown PATH",
    "plan pilatus-6m --report PATH",
    "plan pilatus-6m --measured PATH",
    "advise eiger2-4m --folder PATH",
    "advise eiger2-4m --images PATH",
    "lab run PATH -- true",
    "lab exec PATH -- true",
]

# Commands that only print, at once.
PRINTING = [
    "--help",
    "--version",
    "help bench stream",
    "detectors",
    "detectors --json",
    "detectors pilatus-6m",
    "layout list",
    "layout show nxmx",
    "layout check nxmx --json",
    "filters",
    "filters --json",
    "runs list --json",
    "campaign --list",
    "plan eiger2-16m",
    "plan eiger2-16m --json",
    "advise eiger2-4m",
    "doctor . --json",
    "describe .",
    "verdict custom --rows 99 --columns 99 --rate 1 . --quick --space 1MB --dry-run",
    f"simulate {CUSTOM} --frames 1 --dry-run",
    "bench stream . --size 1MiB --dry-run",
]


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: bytes
    err: str


Run = Callable[..., Ended]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the whole command in this process, with files for its streams."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def run_main(line: str, *, encoding: str = "utf-8", out: str = "", err: str = "") -> Ended:
        paths = Path(out or tmp_path / "out"), Path(err or tmp_path / "err")
        streams: list[IO[str]] = [path.open("w", encoding=encoding) for path in paths]
        monkeypatch.setattr(sys, "argv", ["penstock", *line.split()])
        monkeypatch.setattr(sys, "stdout", streams[0])
        monkeypatch.setattr(sys, "stderr", streams[1])
        code: Any = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        finally:
            monkeypatch.setattr(sys, "stdout", sys.__stdout__)
            monkeypatch.setattr(sys, "stderr", sys.__stderr__)
            for stream in streams:
                stream.close()
        printed = [b"" if str(path) == "/dev/full" else path.read_bytes() for path in paths]
        return Ended(int(code), printed[0], printed[1].decode(encoding))

    return run_main


@pytest.fixture
def _as_a_user() -> Iterator[None]:
    """Root may enter every directory; this thread gives that up for the time of a test."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this thread
    sets = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    before = sets[0]
    sets[0] = before & ~CAPABILITIES_OF_ROOT
    assert libc.capset(header, sets) == 0
    yield
    sets[0] = before
    assert libc.capset(header, sets) == 0


def require_words(line: str, ended: Ended) -> None:
    """Asserts an error in words, with a documented exit code."""
    assert "Traceback" not in ended.err, f"{line}\n{ended.err}"
    assert "error:" in ended.err, f"{line}\n{ended}"
    assert "Errno" not in ended.err, f"{line}\n{ended.err}"
    assert ended.code in codes_of(line) - {0}, f"{line}\n{ended}"


def codes_of(line: str) -> set[int]:
    """Returns the documented exit codes of a command."""
    names = line.split()
    later: Any = COMMANDS.get(names[0])
    if isinstance(later, LaterGroup):
        later = later.commands[names[1]]
    exit_codes = later.exit_codes if isinstance(later, Later) else words.EXIT_CODES
    (column,) = [each for each in words.ALL if each.line == exit_codes]
    return set(column.meanings)


@pytest.mark.usefixtures("_as_a_user")
@pytest.mark.parametrize("line", WITH_PATH)
def test_path_in_a_directory_that_the_user_may_not_enter_is_an_error_in_words(
    line: str, run: Run, tmp_path: Path
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o000)
    try:
        ended = run(line.replace("PATH", str(closed / "x.h5")))
        require_words(line, ended)
        assert (ended.code, "what to do: " in ended.err) == (2, True), f"{line}\n{ended.err}"
    finally:
        closed.chmod(0o700)


@pytest.mark.usefixtures("_as_a_user")
@pytest.mark.parametrize(
    "line", [each for each in WITH_PATH if not each.startswith(("lab", "bench", "demo"))]
)
def test_file_that_the_user_may_not_read_is_wrong_usage(line: str, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    path.touch(mode=0o000)
    ended = run(line.replace("PATH", str(path)))
    require_words(line, ended)
    assert (ended.code, "what to do: " in ended.err) == (2, True), f"{line}\n{ended.err}"


@pytest.mark.parametrize(
    "command", ["check", "recover", "info", "view", "export --for xds --copy", "bench clean"]
)
def test_name_that_is_not_utf8_is_no_traceback(command: str, run: Run, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"Me\xdf.h5")
    with h5py.File(path, "w") as file:
        file["/entry/data/data"] = numpy.zeros((2, 3, 4), "uint16")
    before = path.read_bytes()
    ended = run(f"{command} {path}")
    assert "Traceback" not in ended.err
    assert "error:" in ended.err or ended.code == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize("line", WITH_PATH)
def test_name_that_is_too_long_is_an_error_in_words(line: str, run: Run) -> None:
    require_words(line, run(line.replace("PATH", "x" * 300)))


@pytest.mark.parametrize("line", PRINTING)
def test_output_that_cannot_be_written_is_an_error_in_words(line: str, run: Run) -> None:
    ended = run(line, out="/dev/full")
    require_words(line, ended)
    assert "standard output cannot be written: no space left" in ended.err


@pytest.mark.parametrize("line", ["detectors", "layout check nxmx", "plan eiger2-16m"])
def test_errors_and_progress_that_cannot_be_written_stop_nothing(line: str, run: Run) -> None:
    assert run(line, err="/dev/full").code == 0
    assert run("info absent.h5", err="/dev/full").code == 2


@pytest.mark.parametrize("encoding", ["ascii", "iso8859-15"])
@pytest.mark.parametrize("line", PRINTING)
def test_output_falls_back_to_ascii(line: str, encoding: str, run: Run) -> None:
    plain = run(line)
    ended = run(line, encoding=encoding)
    assert ended.code == plain.code, ended.err
    assert "error:" not in ended.err
    ended.out.decode(encoding)  # not UTF-8 in spite of the encoding
    assert ended.out.isascii() or encoding != "ascii"
    assert bool(ended.out) == bool(plain.out)


def test_characters_that_an_encoding_lacks_have_substitutes() -> None:
    shown = "12 µs × 3 … ≥ 5 Å · Meßreihe 字 \udcff".encode("ascii", "penstock-in-ascii")
    assert shown == b"12 us x 3 ... >= 5 A . Me?reihe ? ?"
    with pytest.raises(UnicodeDecodeError):
        codecs.decode(b"\xff", "ascii", "penstock-in-ascii")


@pytest.fixture
def in_missing_directory(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a working directory, and removes it once `run` has left the one of before."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()


@pytest.mark.usefixtures("in_missing_directory")
@pytest.mark.parametrize("line", PRINTING)
def test_working_directory_that_is_gone_is_an_error_in_words(line: str, run: Run) -> None:
    ended = run(line)
    assert "Traceback" not in ended.err
    assert ended.code in codes_of(line), ended


@pytest.mark.usefixtures("in_missing_directory")
@pytest.mark.parametrize("line", ["info x.h5", "check x.h5", "view x.h5"])
def test_relative_path_in_a_working_directory_that_is_gone_is_not_called_wrong(line: str, run: Run) -> None:
    assert "the working directory no longer exists" in run(line).err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("line", [each for each in PRINTING if not each.startswith(("-", "help"))])
def test_signal_before_the_command_starts_ends_it(line: str, number: signal.Signals, run: Run) -> None:
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        signals.hold_signals()
        signal.raise_signal(number)
        ended = run(line)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    require_words(line, ended)
    assert "error: interrupted" in ended.err
    assert ended.out == b""


def test_signal_that_came_before_python_had_started_is_held() -> None:
    """The signal is pending from the first instruction on, as `.venv/bin/penstock` starts Python."""
    command = [sys.executable, "-m", "penstock", "detectors"]
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.send_signal(signal.SIGINT)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, handler)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (1, "", "error: interrupted\n")


def test_second_early_signal_ends_the_process_at_once() -> None:
    program = (
        "import signal\nfrom penstock.programs.signals import hold_signals\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\nhold_signals()\n"
        "signal.raise_signal(signal.SIGINT)\nprint('held', flush=True)\n"
        "signal.raise_signal(signal.SIGINT)\nprint('not reached')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "held\n", "")


@pytest.mark.parametrize("closed", ["0<&-", ">&-", "2>&-", ">&- 2>&-"])
def test_closed_standard_stream_is_no_traceback(closed: str) -> None:
    command = ["sh", "-c", f"exec {sys.executable} -m penstock --version {closed}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == (1 if closed.startswith(">") else 0)
    assert ended.stderr in (
        "",
        "error: standard output cannot be written: it is closed\n"
        "what to do: redirect it to a file that can be written\n",
    )


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (PermissionError(errno.EACCES, "", "/etc/shadow"), "/etc/shadow: permission denied"),
        (OSError(errno.ENOSPC, ""), "the system refused an operation: no space left on the storage"),
        (OSError(errno.ENOSPC, "", b"/data/x"), "/data/x: no space left on the storage"),
        (
            OSError(errno.ENOSPC, "write failed: errno = 28, error message = 'No space', buf = 0x40", "/x"),
            "/x: no space left on the storage",
        ),
        (OSError(errno.EIO, "", 7), "7: the storage reports an input/output error"),
        (OSError("words of a library"), "the system refused an operation: words of a library"),
        (FileNotFoundError(errno.ENOENT, ""), "the system refused an operation: it does not exist"),
        (MemoryError(), "this machine is out of memory"),
        (PenstockError("as it was"), "as it was"),
    ],
)
def test_errors_of_the_system_have_words(error: Exception, text: str) -> None:
    assert in_words(error).message == text
    if error.__class__ is not PenstockError:
        assert in_words(error).remedy


@pytest.mark.slow
def test_results_are_in_their_files_before_they_are_printed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a measurement of minutes, standard output turns out to be full."""
    monkeypatch.setattr(verdict, "_measure", lambda *_: a_verdict())
    line = "verdict custom . --rows 9 --columns 9 --rate 1 --quick --space 1MB --yes"
    ended = run(f"{line} --output {tmp_path}/v.json --report {tmp_path}/v.html", out="/dev/full")
    assert ended.code == 5
    assert "standard output cannot be written" in ended.err
    assert Verdict.model_validate_json((tmp_path / "v.json").read_text(encoding="utf-8")) == a_verdict()
    assert "sustain" in (tmp_path / "v.html").read_text(encoding="utf-8")


def test_results_that_cannot_be_written_are_printed() -> None:
    shown: list[str] = []

    def fail() -> None:
        raise PenstockError("no space left")

    def show() -> None:
        with written_first(lambda: shown.append("written")), written_first(fail):
            shown.append("printed")

    with pytest.raises(PenstockError, match="no space left"):
        show()
    assert shown == ["written", "printed"]


def test_all_commands_are_tried() -> None:
    tried = {" ".join(line.split()[:2]) for line in (*WITH_PATH, *PRINTING)} | {
        line.split()[0] for line in (*WITH_PATH, *PRINTING)
    }
    below = {
        f"{name} {each}"
        for name, group in COMMANDS.items()
        if isinstance(group, LaterGroup) and name != "lab"  # they ask for root
        for each in group.commands
    }
    assert {*COMMANDS, *below} - tried == {"runs add", "runs forget"}
