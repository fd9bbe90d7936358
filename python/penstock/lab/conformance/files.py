"""Promises about files and names, as one or two clients see them without faults."""

import errno
import fcntl
import hashlib
import mmap
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from penstock.lab.conformance.check import (
    MIB,
    BrokenError,
    Place,
    RefusedError,
    bytes_of,
    opened,
    put,
    require,
    write_at,
)

_RACES, _RECORDS, _RECORD_BYTES = 40, 200, 47_008  # a record of no power of two: no block begins with it
_RENAMES_S = 5.0
_FILES, _BIG_BYTES = 10_000, 1 << 30
_REFUSALS = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM)


def _together(*jobs: Callable[[], None]) -> None:
    """All at once. Raises what the first of them raised."""
    errors: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def seen_after_close(place: Place) -> str:
    data = bytes_of(1, 3 * MIB + 5)
    for number in range(20):
        writer, reader = (place.first, place.second) if number % 2 == 0 else (place.second, place.first)
        put(writer / "file", data[number:])
        found = (reader / "file").read_bytes()
        require(found == data[number:], f"after {number + 1} rewrites, the other client read other bytes")
    return "20 rewrites of 3 MiB, read by the other client after each close"


def seen_after_sync(place: Place) -> str:
    data = bytes_of(2, MIB)
    with opened(place.first / "file", os.O_WRONLY | os.O_CREAT) as handle:
        for number in range(20):
            write_at(handle, data, number * MIB)
            os.fsync(handle)
            with opened(place.second / "file", os.O_RDONLY) as reader:
                size = os.fstat(reader).st_size
                require(
                    size >= (number + 1) * MIB, f"the other client saw {size} bytes, not {(number + 1) * MIB}"
                )
                require(os.pread(reader, MIB, number * MIB) == data, "the other client read other bytes")
    return "20 MiB in steps of 1 MiB, read by the other client after each fsync of the open file"


def exclusive_creation(place: Place) -> str:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    for number in range(_RACES):
        won: list[int] = []

        def attempt(client: int, name: str = f"lock-{number}", won: list[int] = won) -> None:
            try:
                os.close(os.open((place.first, place.second)[client] / name, flags))
                won.append(client)
            except FileExistsError:
                pass

        _together(lambda: attempt(0), lambda: attempt(1))
        require(len(won) == 1, f"O_EXCL let {len(won)} of two clients create the same file")
    return f"{_RACES} races of two clients, one winner each"


def rename_over_existing(place: Place) -> str:
    """For a while: a file system that hands rights from client to client takes long for each."""
    put(place.first / "current", b"0" * 64)
    stop, renames, reads = time.monotonic() + _RENAMES_S, [0], [0]

    def replace() -> None:
        while time.monotonic() < stop:
            renames[0] += 1
            put(place.first / "next", str(renames[0] % 10).encode() * 64)
            (place.first / "next").rename(place.first / "current")

    def look() -> None:
        while time.monotonic() < stop:
            found = (place.second / "current").read_bytes()
            require(len(found) == 64 and len(set(found)) == 1, f"a reader found {found[:80]!r}")
            reads[0] += 1

    _together(replace, look)
    return f"{renames[0]} renames over a file that the other client read {reads[0]} times: there, and whole"


def disjoint_writers(place: Place) -> str:
    """Two clients write alternate records of an odd size, so neighbours share blocks and pages."""
    file = "shared"
    put(place.first / file, b"")

    def write(client: int) -> None:
        with opened((place.first, place.second)[client] / file, os.O_WRONLY) as handle:
            for number in range(client, _RECORDS, 2):
                write_at(handle, bytes_of(number, _RECORD_BYTES), number * _RECORD_BYTES)
            os.fsync(handle)

    _together(lambda: write(0), lambda: write(1))
    for at in (place.first, place.second):
        with opened(at / file, os.O_RDONLY) as handle:
            wrong = [
                number
                for number in range(_RECORDS)
                if os.pread(handle, _RECORD_BYTES, number * _RECORD_BYTES) != bytes_of(number, _RECORD_BYTES)
            ]
        require(not wrong, f"{len(wrong)} of {_RECORDS} records of two writers of one file are wrong")
    return f"{_RECORDS} records of {_RECORD_BYTES} bytes in one file by two clients in turn: all right"


def appending_writers(place: Place) -> str:
    put(place.first / "log", b"")

    def append(client: int) -> None:
        with opened((place.first, place.second)[client] / "log", os.O_WRONLY | os.O_APPEND) as handle:
            for number in range(100):
                os.write(handle, f"{client} {number:06}\n".encode())

    _together(lambda: append(0), lambda: append(1))
    lines = sorted((place.second / "log").read_text(errors="replace").splitlines())
    expected = sorted(f"{client} {number:06}" for client in (0, 1) for number in range(100))
    require(lines == expected, f"{len(set(expected) - set(lines))} of 200 appended lines are lost or damaged")
    return "200 lines appended by two clients at once: all there"


def sparse_files(place: Place) -> str:
    far = 5 << 30
    with opened(place.first / "sparse", os.O_WRONLY | os.O_CREAT) as handle:
        write_at(handle, b"end", far)
        os.fsync(handle)
    with opened(place.second / "sparse", os.O_RDONLY) as handle:
        found = os.fstat(handle)
        require(found.st_size == far + 3, f"the size is {found.st_size}, not {far + 3}")
        require(os.pread(handle, 4096, 1 << 30) == bytes(4096), "a hole does not read as zeros")
        require(os.pread(handle, 3, far) == b"end", "the data behind the hole are wrong")
    used = found.st_blocks * 512
    return f"3 bytes behind a hole of 5 GiB; the file takes {used} bytes"


def truncation(place: Place) -> str:
    put(place.first / "file", b"x" * 300_000)
    os.truncate(place.first / "file", 100_001)
    require((place.second / "file").stat().st_size == 100_001, "the other client sees another size")
    os.truncate(place.first / "file", 200_000)
    found = (place.second / "file").read_bytes()
    require(found == b"x" * 100_001 + bytes(99_999), "what was cut off came back, or is not zero")
    return "made shorter and longer again: zeros where it was cut"


def unlinked_but_open(place: Place) -> str:
    put(place.first / "file", b"kept")
    with opened(place.first / "file", os.O_RDONLY) as handle:
        (place.first / "file").unlink()
        require(not (place.second / "file").exists(), "the other client still has the name")
        require(os.pread(handle, 4, 0) == b"kept", "an open file lost its data with its name")
    return "a file without a name is read to its end by the client that has it open"


def names(place: Place) -> str:
    tried = [
        b"n" * 255,
        "Ångström β".encode(),
        b"\xff\xfe not UTF-8",
        b"line\nbreak",
        b"a",
        b"A",
        b" ",
        b"~%\"'*",
    ]
    refused = {}
    for number, name in enumerate(map(os.fsdecode, tried)):
        try:
            put(place.first / name, bytes([number]))
        except OSError as error:
            refused[name] = os.strerror(error.errno or 0)
            continue
        found = (place.second / name).read_bytes()
        require(found == bytes([number]), f"{name!r} is another file for the other client")
    listed = {path.name for path in place.second.iterdir()}
    missing = {os.fsdecode(name) for name in tried} - listed - set(refused)
    require(not missing, f"not listed: {sorted(missing)}")
    if refused:
        raise RefusedError("; ".join(f"{name!r}: {why}" for name, why in refused.items()))
    return "255 bytes, other alphabets, bytes that are not UTF-8, line breaks, upper and lower case"


def many_files(place: Place) -> str:
    folder = place.first / "many"
    folder.mkdir()
    for number in range(_FILES):
        os.close(os.open(folder / f"{number:05}", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    listed = [path.name for path in (place.second / "many").iterdir()]
    require(
        len(listed) == len(set(listed)) == _FILES, f"the other client lists {len(listed)} of {_FILES} files"
    )
    for name in listed:
        (folder / name).unlink()
    (place.second / "many").rmdir()
    return f"{_FILES} files in one folder: listed by the other client, each once"


def big_file(place: Place) -> str:
    block = bytes_of(3, 4 * MIB)
    written, read = hashlib.blake2b(), hashlib.blake2b()
    with opened(place.first / "big", os.O_WRONLY | os.O_CREAT) as handle:
        for number in range(_BIG_BYTES // len(block)):
            data = number.to_bytes(8, "little") + block[8:]
            write_at(handle, data, number * len(block))
            written.update(data)
        os.fsync(handle)
    with opened(place.second / "big", os.O_RDONLY) as handle:
        while data := os.read(handle, 4 * MIB):
            read.update(data)
    require(read.digest() == written.digest(), "the other client read other bytes")
    return "1 GiB, read back by the other client: same digest"


def locks(place: Place) -> str:
    put(place.first / "lock", b"")
    program = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'r+')\n"
        "try:\n    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except BlockingIOError:\n    print('locked')\nelse:\n    print('free')\n"
    )

    def other() -> str:
        command = [sys.executable, "-c", program, str(place.second / "lock")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        return done.stdout.strip() or done.stderr.strip().splitlines()[-1]

    with (place.first / "lock").open("r+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise _refusal(error) from error
        held = other()
        fcntl.lockf(file, fcntl.LOCK_UN)
    after = other()
    require(held == "locked", f"a record lock of one client does not hold the other one off: {held}")
    require(after == "free", f"a lock that was given back still holds: {after}")
    return "fcntl() record locks hold off the other client"


def direct_writes(place: Place) -> str:
    memory = mmap.mmap(-1, MIB)  # is aligned to a page
    memory[:] = bytes_of(4, MIB)
    try:
        handle = os.open(place.first / "direct", os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    except OSError as error:
        raise _refusal(error) from error
    try:
        written = os.pwrite(handle, memory, 0)
    except OSError as error:
        raise _refusal(error) from error
    finally:
        os.close(handle)
    require(written == MIB, f"{written} of {MIB} bytes were written")
    require((place.second / "direct").read_bytes() == memory[:], "the other client read other bytes")
    return "O_DIRECT is accepted, and the other client reads the same"


def shared_memory(place: Place) -> str:
    put(place.first / "mapped", bytes(MIB))
    with opened(place.first / "mapped", os.O_RDWR) as handle:
        try:
            mapped = mmap.mmap(handle, MIB)
        except OSError as error:
            raise _refusal(error) from error
        mapped[1000:1004] = b"mmap"
        mapped.flush()
        mapped.close()
        os.fsync(handle)
    require((place.second / "mapped").read_bytes()[1000:1004] == b"mmap", "the other client read other bytes")
    return "a shared mapping is written, and the other client reads it after msync"


def extended_attributes(place: Place) -> str:
    put(place.first / "file", b"")
    try:
        os.setxattr(place.first / "file", "user.penstock", b"value")
    except OSError as error:
        raise _refusal(error) from error
    require(
        os.getxattr(place.second / "file", "user.penstock") == b"value", "the other client has another value"
    )
    return "user.* attributes are kept"


def links_and_modes(place: Place) -> str:
    put(place.first / "file", b"1")
    (place.first / "file").chmod(0o640)
    mode = stat.S_IMODE((place.second / "file").stat().st_mode)
    require(mode == 0o640, f"the other client sees mode {mode:o}, not 640")
    (place.first / "symbolic").symlink_to("file")
    require((place.second / "symbolic").read_bytes() == b"1", "a symbolic link does not lead to its file")
    try:
        os.link(place.first / "file", place.first / "hard")
    except OSError as error:
        raise _refusal(error) from error
    require((place.second / "hard").stat().st_nlink == 2, "a hard link does not count")
    return "modes, symbolic and hard links"


def _refusal(error: OSError) -> Exception:
    if error.errno in _REFUSALS:
        return RefusedError(os.strerror(error.errno))
    return BrokenError(str(error))
