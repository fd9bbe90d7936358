"""What a workload may ask of storage that is spoken to by its protocol. Each refusal has its reason."""

from penstock.bench.run.run import Access, FramesRequest
from penstock.model.bench.load import Hdf5Access, MetadataWorkload, StreamWorkload
from penstock.model.errors import UsageError
from penstock.model.storage_url import Place, StorageUrl
from penstock.model.units import human_size
from penstock.programs.ranks import Ranks

# Of an object in parts (Amazon S3 User Guide, multipart upload limits).
_PART_BYTES_MIN, _PARTS_MAX = 5 << 20, 10_000
_IN_ORDER = {"http": "WebDAV", "https": "WebDAV", "hdfs": "HDFS", "webhdfs": "HDFS"}
"""protocols that write a file from its beginning to its end"""
_OBJECTS = ("s3", "s3s")


def require_by_protocol(
    place: Place, asked: FramesRequest | StreamWorkload | MetadataWorkload, access: Access, team: Ranks | None
) -> None:
    """Raises UsageError for what the protocol of a URL cannot do; of a path it asks nothing."""
    if not isinstance(place, StorageUrl):
        return
    if team is not None:
        raise _refusal(place, "--ranks", "threads of one process", "use --threads or --writers")
    if isinstance(access.library, Hdf5Access):
        raise _refusal(place, "HDF5", "the protocol itself", "use `penstock bench stream` without --backend")
    if access.store or access.library is not None:
        raise _refusal(place, "--backend", "the protocol itself", "leave it out")
    if access.queue_depth not in (None, 1):
        raise _refusal(place, "--queue-depth", "one transfer of a thread at a time", "use more --threads")
    if isinstance(asked, StreamWorkload):
        _require_stream(place, asked)
    elif isinstance(asked, FramesRequest):
        _require_frames(place, asked)
    else:
        _require_names(place, asked)


def _refusal(url: StorageUrl, option: str, instead: str, remedy: str) -> UsageError:
    return UsageError(f"{option} is not possible on {url.scheme}://, which uses {instead}", remedy)


def _require_stream(url: StorageUrl, stream: StreamWorkload) -> None:
    if stream.shared and url.scheme != "nfs":
        what = "an object" if url.scheme in _OBJECTS else "a file"
        raise _refusal(url, "--shared", f"one writer for {what}", "use --own-files, or nfs://")
    if stream.order == "random" and url.scheme in _IN_ORDER:
        raise _refusal(
            url, "--order random", "files that are written from beginning to end", "use --order sequential"
        )
    parts = stream.thread_bytes // stream.transfer_bytes
    if url.scheme in _OBJECTS and parts > 1:
        if stream.transfer_bytes < _PART_BYTES_MIN:
            raise _refusal(
                url,
                f"--transfer {human_size(stream.transfer_bytes)}",
                f"parts of {human_size(_PART_BYTES_MIN)} or more",
                "use --transfer 8MiB or more",
            )
        if parts > _PARTS_MAX:
            raise _refusal(
                url,
                f"an object of {parts} transfers",
                f"at most {_PARTS_MAX} parts",
                "use a larger --transfer",
            )


def _require_frames(url: StorageUrl, frames: FramesRequest) -> None:
    if frames.rename:
        raise _refusal(url, "--rename", "names that files have from the start", "leave it out")
    if frames.layout == "file_a_writer" and url.scheme in _IN_ORDER:
        # A frame would count as written when the client has its bytes.
        raise _refusal(
            url,
            "--layout file_a_writer",
            "a protocol that confirms complete files only",
            "use --layout file_a_frame",
        )
    if frames.layout == "file_a_writer" and url.scheme in _OBJECTS:
        raise _refusal(url, "--layout file_a_writer", "objects of known size", "use --layout file_a_frame")


def _require_names(url: StorageUrl, names: MetadataWorkload) -> None:
    if not names.remove:
        raise _refusal(url, "--no-remove", "trees that the run removes", "use --remove")
    if url.scheme in _OBJECTS and (names.folders or names.rename):
        raise _refusal(url, "directories and --rename", "names of objects alone", "use --only files")
