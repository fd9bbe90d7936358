"""Finds the storage of a place."""

import importlib
from importlib.util import find_spec
from pathlib import Path

from penstock.bench.science.storage.posix import PosixStorage
from penstock.bench.science.storage.storage import Storage
from penstock.bench.science.storage.trust import require_authorities
from penstock.model.errors import UsageError
from penstock.model.storage_url import Place, StorageUrl, place_of

_HERE = __name__.rpartition(".")[0]
INSTALL = "pip install 'penstock[science]'"
_BY_SCHEME = {
    "root": ("xrootd:XrootdStorage", ("fsspec", "fsspec_xrootd", "XRootD")),
    "http": ("dav:DavStorage", ("fsspec", "aiohttp", "requests")),
    "https": ("dav:DavStorage", ("fsspec", "aiohttp", "requests")),
    "s3": ("s3:S3Storage", ("fsspec", "s3fs")),
    "s3s": ("s3:S3Storage", ("fsspec", "s3fs")),
    "hdfs": ("hdfs:HdfsStorage", ("fsspec", "requests")),
    "webhdfs": ("hdfs:HdfsStorage", ("fsspec", "requests")),
}
_REFUSED = {
    "nfs": ("analyses have no client of this protocol: they use the kernel's", "mount the export"),
    "roots": ("fsspec-xrootd has no TLS", "use root://"),
}


def require_libraries(what: str, *names: str, otherwise: str = "") -> None:
    """Raises UsageError that names the first library that is missing, and what to do."""
    for name in names:
        if find_spec(name) is None:
            raise UsageError(
                f"{what} requires the Python package {name}, which is not installed", INSTALL + otherwise
            )


def require_storage(place: Place) -> None:
    """Raises UsageError for a protocol that these workloads cannot use, with the reason."""
    if not isinstance(place, StorageUrl):
        return
    if place.scheme in _REFUSED:
        reason, remedy = _REFUSED[place.scheme]
        raise UsageError(f"{place.scheme}:// is not possible here: {reason}", remedy)
    require_authorities(place.scheme)
    require_libraries(f"{place.scheme}://", *_BY_SCHEME[place.scheme][1])


def storage_for(place: str) -> Storage:
    """Raises UsageError for a protocol that these workloads cannot use, with the reason."""
    found = place_of(place)
    require_storage(found)
    if not isinstance(found, StorageUrl):
        return PosixStorage(Path(found))
    module, _, name = _BY_SCHEME[found.scheme][0].partition(":")
    made: Storage = getattr(importlib.import_module(f"{_HERE}.{module}"), name)(found)
    return made
