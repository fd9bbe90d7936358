"""Reads stored chunks as durin does, with Debian's HDF5 1.10.8: python debian_hdf5.py FILE DATASET NUMBER …

Writes each frame's chunk to standard output, behind its length in 8 bytes. A process of its own, without
h5py, whose HDF5 is another one.
"""

import ctypes
import ctypes.util
import sys
from pathlib import Path


def main() -> None:
    path, dataset, *numbers = sys.argv[1:]
    # Its folder has the version in its name; find_library knows the loader's cache.
    library = ctypes.CDLL(ctypes.util.find_library("hdf5_serial") or "libhdf5_serial.so")
    assert "h5py" not in sys.modules
    version = [ctypes.c_uint() for _ in range(3)]
    library.H5get_libversion(*map(ctypes.byref, version))
    assert [number.value for number in version[:2]] == [1, 10], [number.value for number in version]
    for name in ("H5Fopen", "H5Dopen2"):
        getattr(library, name).restype = ctypes.c_int64
    file = ctypes.c_int64(library.H5Fopen(str(Path(path)).encode(), 0, ctypes.c_int64(0)))
    assert file.value > 0, f"{path} is not opened"
    data = ctypes.c_int64(library.H5Dopen2(file, dataset.encode(), ctypes.c_int64(0)))
    assert data.value > 0, f"{dataset} is not opened"
    for number in numbers:
        offset = (ctypes.c_uint64 * 3)(int(number), 0, 0)
        size, mask = ctypes.c_uint64(), ctypes.c_uint32()
        assert library.H5Dget_chunk_storage_size(data, offset, ctypes.byref(size)) >= 0
        assert size.value > 0, f"frame {number} has no chunk"
        chunk = ctypes.create_string_buffer(size.value)
        assert library.H5Dread_chunk(data, ctypes.c_int64(0), offset, ctypes.byref(mask), chunk) >= 0
        sys.stdout.buffer.write(size.value.to_bytes(8, "little") + chunk.raw)


main()
