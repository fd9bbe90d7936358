"""Which chunks, codec and alignment suit a detector and the ways in which its files are read, and why."""

from collections.abc import Sequence
from itertools import product

from pydantic import BaseModel, Field

from penstock.model.configuration import Configuration
from penstock.model.plan.access import Chunk, Geometry, Pattern, Reading, reading
from penstock.model.plans import GIB, ChunkPlan, CodecPlan, Encoding, StorePlan
from penstock.model.storage import NETWORK_KINDS, StorageFacts, describe_facts, settle_store
from penstock.model.units import format_size, human_bytes, human_number

# Orders of magnitude; only their relations choose a chunk. A request to storage costs as much time as a
# transfer of this many bytes: about 0.1 ms at 1 GB/s here, ten times that over a network.
_REQUEST_BYTES_LOCAL = 100_000
_REQUEST_BYTES_REMOTE = 1_000_000
# A chunk is expanded at some 2 GB/s while storage gives about 1 GB/s.
_EXPANDING = 0.5
# Below it a chunk's share of the index and of a segment's header, and the codec's loss at its ends, are felt.
_CHUNK_BYTES_MIN = 64 * 1024
# What the one indexer takes without being felt.
_CHUNKS_A_SECOND_MAX = 100_000
_CHUNKS_A_FRAME_MAX = 65536
_ALTERNATIVES = 4
# A recorder keeps this part of its memory for the segments of one series: a chunk must fit, with the worst
# case of a codec.
_POOL_PARTS = 8
_CHUNK_OVERHEAD = 1.02
# Where a chunk has several frames, half of that part is for the buffers in which they gather: three at least.
_FRAMES_A_CHUNK = (1, 2, 4, 8, 16, 32)
_GATHER_PARTS = 2
_GATHER_BUFFERS = 3
_GATHER_OVERHEAD = 1.25
# Of the frames of one chunk: more memory is hardly worth it.
_GATHERED_BYTES_MAX = 64 * 1024 * 1024


class Ratios(BaseModel):
    """How many times smaller images become, by codec: measured in chunks of a frame, or stated."""

    by_codec: dict[Encoding, float] = {}
    images: int = 0

    def of(self, encoding: Encoding) -> float:
        return self.by_codec.get(encoding, 1.0)


class Cost(BaseModel):
    """What a pattern costs with a chunk."""

    pattern: str
    weight: float
    wanted_bytes: int
    chunks: float = Field(description="that an access touches")
    stored_bytes: float = Field(description="that an access reads from storage")
    amplification: float = Field(description="uncompressed bytes of the chunks read, for each byte wanted")
    storage_amplification: float = Field(
        description="bytes read from storage for each (uncompressed) byte wanted"
    )


class Choice(BaseModel):
    chunk: Chunk
    bytes: int
    chunks_a_frame: int
    padding: float
    costs: list[Cost]
    relative_cost: float = Field(
        description="weighted mean over the patterns; 1 is the best chunk for each of them"
    )

    @property
    def is_frame(self) -> bool:
        return self.chunks_a_frame == 1 and self.chunk.frames == 1


class Advice(BaseModel):
    geometry: Geometry
    storage: StorageFacts
    ratios: Ratios
    codec: CodecPlan
    chunk: ChunkPlan
    store: StorePlan
    pool_bytes: int | None = Field(description="where the default is too little")
    recommended: Choice
    alternatives: list[Choice]
    reasons: list[str]

    def configuration(self) -> str:
        """For a file of `penstock record`."""
        shape = ", ".join(map(str, self.chunk.shape))
        lines = [] if self.pool_bytes is None else [f"pool_bytes: {format_size(self.pool_bytes)}"]
        lines += ["chunk:", f"  shape: [{shape}]" + ("" if shape else "          # whole frames")]
        lines += [f"  frames: {self.chunk.frames}"] if self.chunk.frames > 1 else []
        lines += ["codec:", f"  encoding: {self.codec.encoding}"]
        lines += ["store:", f"  alignment_bytes: {format_size(self.store.alignment_bytes)}"]
        lines += [f"  segment_bytes: {format_size(self.store.segment_bytes)}"]
        lines += [f"  extent_bytes: {format_size(self.store.extent_bytes)}"]
        return "\n".join(lines) + "\n"


def advise(
    geometry: Geometry, patterns: Sequence[Pattern], storage: StorageFacts, ratios: Ratios, rate_hz: float = 0
) -> Advice:
    codec, why_codec = _codec(ratios)
    ratio = ratios.of(codec.encoding)
    expanding = 0.0 if codec.encoding == "none" else _EXPANDING
    choices = _weigh(_candidates(geometry, patterns, rate_hz), geometry, patterns, storage, ratio, expanding)
    best = choices[0]
    whole = next(choice for choice in choices if choice.is_frame)
    store, why_store = _store(best.bytes, storage)
    pool, why_pool = _pool(best, geometry)
    shape = [] if best.chunks_a_frame == 1 else [best.chunk.rows, best.chunk.columns]
    shown = [choice for choice in choices[1:] if _differs(choice, best)][: _ALTERNATIVES - 1]
    if whole is not best and whole not in shown:
        shown.append(whole)
    return Advice(
        geometry=geometry,
        storage=storage,
        ratios=ratios,
        codec=codec,
        chunk=ChunkPlan(shape=shape, frames=best.chunk.frames),
        store=store,
        pool_bytes=pool,
        recommended=best,
        alternatives=shown,
        reasons=[*_why_chunk(best, whole, patterns, geometry, rate_hz), why_codec, *why_store, *why_pool],
    )


def _candidates(geometry: Geometry, patterns: Sequence[Pattern], rate_hz: float) -> list[Chunk]:
    """Whole frames and tiles that are neither too small nor too many, of one frame or of several."""
    rows = _extents(geometry.rows, [pattern.rows for pattern in patterns if pattern.kind != "frames"])
    columns = _extents(geometry.columns, [pattern.columns for pattern in patterns if pattern.columns])
    several = [n for n in _FRAMES_A_CHUNK if n <= geometry.frames]
    tiles = [Chunk(frames=n, rows=r, columns=c) for n, r, c in product(several, rows, columns)]
    return [chunk for chunk in tiles if _possible(chunk, geometry, rate_hz)]


def _extents(whole: int, wanted: Sequence[int]) -> list[int]:
    halves = {-(-whole // 2**i) for i in range(12)}
    powers = {2**i for i in range(4, 15)}
    return sorted(extent for extent in halves | powers | set(wanted) if extent <= whole)


def _possible(chunk: Chunk, geometry: Geometry, rate_hz: float) -> bool:
    count = chunk.a_frame(geometry)
    if chunk.frames > 1 and chunk.frames * geometry.frame_bytes > _GATHERED_BYTES_MAX:
        return False
    if count == 1:
        return chunk.rows == geometry.rows and chunk.columns == geometry.columns
    return (
        chunk.raw_bytes(geometry) >= _CHUNK_BYTES_MIN
        and count <= _CHUNKS_A_FRAME_MAX
        and count * rate_hz / chunk.frames <= _CHUNKS_A_SECOND_MAX
    )


def _weigh(
    chunks: Sequence[Chunk],
    geometry: Geometry,
    patterns: Sequence[Pattern],
    storage: StorageFacts,
    ratio: float,
    expanding: float,
) -> list[Choice]:
    """The cheapest first; `expanding` a byte costs as much as reading this many bytes from storage."""
    request = _REQUEST_BYTES_REMOTE if storage.kind in NETWORK_KINDS else _REQUEST_BYTES_LOCAL
    readings = [[reading(pattern, chunk, geometry) for pattern in patterns] for chunk in chunks]

    def spent(one: Reading) -> float:
        return one.chunks * request + one.expanded_bytes / ratio + one.expanded_bytes * expanding

    least = [min(spent(row[i]) for row in readings) for i in range(len(patterns))]
    weights = sum(pattern.weight for pattern in patterns)
    choices = []
    for chunk, row in zip(chunks, readings, strict=True):
        relative = sum(p.weight * spent(one) / low for p, one, low in zip(patterns, row, least, strict=True))
        choices.append(
            Choice(
                chunk=chunk,
                bytes=chunk.raw_bytes(geometry),
                chunks_a_frame=chunk.a_frame(geometry),
                padding=chunk.padding(geometry),
                costs=[_cost(p, one, ratio) for p, one in zip(patterns, row, strict=True)],
                relative_cost=relative / weights,
            )
        )
    return sorted(choices, key=lambda choice: (choice.relative_cost * choice.padding, choice.chunks_a_frame))


def _cost(pattern: Pattern, one: Reading, ratio: float) -> Cost:
    stored = one.expanded_bytes / ratio
    return Cost(
        pattern=pattern.text,
        weight=pattern.weight,
        wanted_bytes=one.wanted_bytes,
        chunks=one.chunks,
        stored_bytes=stored,
        amplification=one.amplification,
        storage_amplification=stored / one.wanted_bytes,
    )


def _differs(choice: Choice, best: Choice) -> bool:
    """Worth a line of its own: another size, not the next neighbour."""
    return not 0.6 < choice.bytes / best.bytes < 1.7


def _why_chunk(
    best: Choice, whole: Choice, patterns: Sequence[Pattern], geometry: Geometry, rate_hz: float
) -> list[str]:
    ways = "; ".join(f"{p.meaning} (weight {p.weight:g})" for p in patterns)
    reasons = [f"the file is read so: {ways}. HDF5 reads and expands whole chunks"]
    if best is whole:
        reasons.append(
            "chunks of whole frames: nothing smaller costs these readers less, frames that come compressed"
            " are stored as they are, and a frame is one request"
        )
    else:
        gain = max(
            zip(whole.costs, best.costs, strict=True),
            key=lambda two: (two[0].chunks / two[1].chunks) * (two[0].amplification / two[1].amplification),
        )
        of = "" if best.chunk.frames == 1 else f" of {best.chunk.frames} frames"
        reasons.append(
            f"chunks of {best.chunk.rows} x {best.chunk.columns} pixels{of}: {gain[1].pattern} then reads"
            f" {gain[1].amplification:.1f} bytes for each that is wanted, in {gain[1].chunks:,.0f} requests;"
            f" with chunks of one whole frame {gain[0].amplification:.1f}, in {gain[0].chunks:,.0f}"
        )
        reasons.append(
            f"not smaller ones: each chunk is a request, an entry in the index and"
            f" {human_bytes(best.bytes)} for the codec; a frame has {best.chunks_a_frame} of them"
        )
        reasons.append(
            "frames that arrive compressed are expanded and compressed again, as a chunk is not a frame: plan"
            " the recorder's cores for it"
        )
    if best.chunk.frames > 1:
        dearer = max(best.costs, key=lambda cost: cost.amplification)
        reasons.append(
            f"{best.chunk.frames} frames gather before they are written and acknowledged, and a frame that"
            f" comes after its chunk was written is dropped; {dearer.pattern} reads"
            f" {dearer.amplification:.1f} bytes for each that is wanted"
        )
    if rate_hz and best.chunks_a_frame > 1:
        reasons.append(
            f"at {human_number(rate_hz, 6)} frames a second that makes"
            f" {best.chunks_a_frame * rate_hz / best.chunk.frames:,.0f} chunks a second"
            f" (at most {_CHUNKS_A_SECOND_MAX:,} are advised)"
        )
    if best.padding > 1.005:
        reasons.append(
            f"the frame is not a multiple of the chunk: the chunks hold {best.padding:.2f} times its pixels;"
            f" a"
            " codec takes that away, without one the file grows by it"
        )
    through = [p for p in patterns if p.kind in ("pixel", "rows")]
    if through and geometry.frames > 1 and best.chunk.frames == 1:
        reasons.append(
            "not several frames in a chunk, though reading through all frames is then a request a frame and"
            " chunk: the other ways of reading would lose more, or the frames are too large to gather"
        )
    return reasons


def _codec(ratios: Ratios) -> tuple[CodecPlan, str]:
    fast, dense = ratios.of("bslz4"), ratios.of("bszstd")
    if not ratios.by_codec:
        return CodecPlan(encoding="bslz4"), (
            "bslz4: readers of the field expect it and it expands at gigabytes a second; how well these"
            " images compress is not known, so figures are for uncompressed bytes (give --images or --ratio)"
        )
    if fast < 1.1:
        return CodecPlan(encoding="none"), (
            f"no codec: these images compress {fast:.2f} times only, which is not worth the time to expand;"
            " of chunks above the reader's cache (1 MiB by default) HDF5 then reads the wanted runs alone"
        )
    if dense > 1.4 * fast:
        return CodecPlan(encoding="bszstd"), (
            f"bszstd: it makes these images {dense:.1f} times smaller, bslz4 {fast:.1f} times; it takes about"
            " three times the processor time, so choose bslz4 where cores are short"
        )
    reported = f"; bszstd would make it {dense:.1f}" if "bszstd" in ratios.by_codec else ""
    return CodecPlan(encoding="bslz4"), (
        f"bslz4: {fast:.1f} times smaller{reported}; readers of the field expect it, and it expands at"
        f" gigabytes"
        " a second"
    )


def _pool(best: Choice, geometry: Geometry) -> tuple[int | None, list[str]]:
    """Room for two of the largest chunks in the segments of a series, and for the frames that gather."""
    default = int(Configuration.model_fields["pool_bytes"].default)
    least = _POOL_PARTS * best.bytes * _CHUNK_OVERHEAD
    what = (
        f"a chunk takes {human_bytes(best.bytes)}, and an eighth of the pool is for the segments of a series"
    )
    if best.chunk.frames > 1:
        gathered = best.chunk.frames * geometry.frame_bytes
        needed = max(best.bytes * _CHUNK_OVERHEAD, _GATHER_BUFFERS * gathered * _GATHER_OVERHEAD)
        least = _POOL_PARTS * _GATHER_PARTS * needed
        what = (
            f"{best.chunk.frames} frames take {human_bytes(gathered)}, at least {_GATHER_BUFFERS} times, and"
            " a sixteenth of the pool is for the frames of a series that gather"
        )
    if least <= default:
        return None, []
    pool = 1 << (int(2 * least) - 1).bit_length()
    return pool, [
        f"a pool of {format_size(pool)}: {what}; with the default of {format_size(default)} the recorder"
        " would refuse it"
    ]


def _store(chunk_bytes: int, storage: StorageFacts) -> tuple[StorePlan, list[str]]:
    suited, reason = settle_store(StorePlan.model_validate({}), storage)
    alignment = suited.alignment_bytes
    segment = min(GIB, max(suited.segment_bytes, -(-chunk_bytes // alignment) * alignment))
    plan = suited.model_copy(
        update={"segment_bytes": segment, "extent_bytes": max(suited.extent_bytes, 4 * segment)}
    )
    why = [
        f"segments aligned to {format_size(alignment)}: {describe_facts(storage)}: {reason}",
        f"segments of {format_size(segment)}: chunks are gathered into writes of that size",
    ]
    return plan, why
