"""The seal that ends a recorded file: checksums of everything outside its frames (reference/format.md)."""

import os
from pathlib import Path

_PAGE = 4096
_HEADER_BYTES = 128
_MAGIC = bytes.fromhex("89 50 45 4E 53 45 47 0A")
_KIND_SEAL = 5


def seal_is_damaged(path: Path) -> bool:
    """Returns whether the seal of a finished recording is cut off or overwritten.

    A file that ends where HDF5 ends it has no seal: another program changed it through HDF5.
    """
    with path.open("rb") as stream:
        end = int.from_bytes(stream.read(36)[28:], "little")
        size = os.fstat(stream.fileno()).st_size
        if size <= end:
            return False
        address = -(-end // _PAGE) * _PAGE
        stream.seek(address)
        header = stream.read(_HEADER_BYTES)
    is_seal = header[:8] == _MAGIC and int.from_bytes(header[10:12], "little") == _KIND_SEAL
    return not is_seal or address + int.from_bytes(header[40:48], "little") > size
