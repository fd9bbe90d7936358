"""Runs a command some of whose system calls are answered with an error, as some file systems answer them.

`python without_calls.py link,renameat2 COMMAND …`: by a seccomp filter, so the kernel itself answers.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

# By kind: the calls' numbers on x86_64, and the error.
CALLS = {"link": ((86, 265), errno.EPERM), "renameat2": ((316,), errno.EINVAL)}
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2


def is_possible() -> bool:
    return platform.machine() == "x86_64"


def _program(kinds: list[str]) -> bytes:
    lines = [(_LOAD, 0, 0, 0)]
    for kind in kinds:
        numbers, error = CALLS[kind]
        for number in numbers:
            lines += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERROR | error)]
    lines.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def main() -> None:
    code = _program(sys.argv[1].split(","))
    kept = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(kept))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in (
        (_NO_NEW_PRIVILEGES, 1, 0, 0, 0),
        (_SECCOMP, _FILTER, ctypes.c_char_p(described), 0, 0),
    ):
        if libc.prctl(*call) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
