#include "store/seal.hpp"

#include <algorithm>
#include <array>

#include "base/crc32c.hpp"
#include "base/time/clock.hpp"
#include "store/recovery/own_superblock.hpp"
#include "store/recovery/scan.hpp"

namespace penstock::store {
namespace {

/// A checksum covers so much: less tells better what is damaged, more takes less room.
constexpr std::uint64_t piece_bytes_min = 4096;
constexpr std::uint64_t pieces_wanted = 16384;
constexpr std::uint64_t read_bytes = 1 << 20;
/// Between runs of slots there is room for HDF5; a hostile file that says otherwise is not followed.
constexpr std::uint64_t run_step_bytes_min = 1 << 20;
/// A loss of power may leave a part of what was written: some of these, each as a whole.
constexpr std::uint64_t sector_bytes = 512;

std::uint64_t piece_bytes_of(std::uint64_t total) {
  auto bytes = piece_bytes_min;
  while (total / bytes > pieces_wanted) bytes *= 2;
  return bytes;
}

/// Rising, none reaches into the next, and all end at `end`.
std::vector<Extent> merged(std::vector<Extent> extents, std::uint64_t end) {
  std::sort(extents.begin(), extents.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
  std::vector<Extent> all;
  for (auto extent : extents) {
    if (extent.address >= end || extent.bytes == 0) continue;
    extent.bytes = std::min(extent.bytes, end - extent.address);
    if (all.empty() || all.back().end() < extent.address)
      all.push_back(extent);
    else if (all.back().end() < extent.end())
      all.back().bytes = extent.end() - all.back().address;
  }
  return all;
}

/// Cut at multiples of `piece_bytes`.
std::vector<format::Stretch> pieces_of(const std::vector<Extent>& extents, std::uint64_t piece_bytes) {
  std::vector<format::Stretch> pieces;
  for (const auto& extent : extents)
    for (auto at = extent.address; at < extent.end();) {
      const auto next = std::min(extent.end(), align_up(at + 1, piece_bytes));
      pieces.push_back({at, next - at, 0});
      at = next;
    }
  return pieces;
}

Result<void> add_checksums(File& file, std::span<format::Stretch> pieces) {
  std::vector<std::byte> window;
  for (std::size_t first = 0, last = 0; first < pieces.size(); first = last) {
    // Neighbours in one read.
    while (last < pieces.size() && (last == first || pieces[last].address == pieces[last - 1].end()) &&
           (last == first || pieces[last].end() - pieces[first].address <= read_bytes))
      ++last;
    const auto begin = pieces[first].address;
    window.resize(pieces[last - 1].end() - begin);
    PEN_ASSIGN(const auto count, file.read_at(window, begin));
    if (count < window.size()) return make_error(Errc::truncated, "the file ends before {}", begin + window.size());
    for (auto& piece : pieces.subspan(first, last - first))
      piece.crc = crc32c(Bytes(window).subspan(piece.address - begin, piece.bytes));
  }
  return {};
}

}  // namespace

std::vector<Extent> outside(File& file, std::vector<Extent> guarded, std::uint64_t end) {
  guarded = merged(std::move(guarded), end);
  guarded.push_back({end, 0});
  std::vector<Extent> rest;
  std::uint64_t at = 0;
  for (const auto& extent : guarded) {
    while ((at = std::max(at, file.next_data(at))) < extent.address) {
      const auto bytes = std::min(extent.address - at, read_bytes);
      if (!rest.empty() && rest.back().end() == at)
        rest.back().bytes += bytes;
      else
        rest.push_back({at, bytes});
      at += bytes;
    }
    at = std::max(std::min(at, extent.address), extent.end());
  }
  return rest;
}

std::vector<Extent> fixed_extents(File& file, const std::vector<ChunkedNode>& datasets, std::uint64_t end) {
  std::vector<Extent> extents;
  for (const auto& node : datasets) {
    const auto& places = node.places;
    if (places.placement == Placement::log || places.address >= end || places.step_bytes == 0) continue;
    // The places of several datasets lie among each other: a run of each ends with its own last place.
    const auto run = std::max<std::uint64_t>(places.run > 0 ? places.run : node.frames_max, 1);
    const auto bytes = run > end / places.step_bytes ? end : (run - 1) * places.step_bytes + places.place_bytes;
    const bool once = places.run == 0 || places.run_step_bytes < run_step_bytes_min;
    // Only runs in which something may lie: a file of holes may claim any number.
    for (auto at = places.address; at < end; at += places.run_step_bytes) {
      if (const auto data = file.next_data(at); !once && data - at >= bytes) {
        at += (data - at) / places.run_step_bytes * places.run_step_bytes;
        if (at >= end || file.next_data(at) - at >= bytes) continue;
      }
      extents.push_back({at, std::min(bytes, end)});
      if (once) break;
    }
  }
  return extents;
}

Extent guarded_part(const format::SegmentHeader& header) {
  switch (header.kind) {
    case format::SegmentKind::chunks: return {header.address, header.segment_bytes};
    case format::SegmentKind::values:
      return {header.address + header.header_bytes, header.segment_bytes - header.header_bytes};
    case format::SegmentKind::description:
    case format::SegmentKind::journal:
    case format::SegmentKind::seal: return {header.address, 0};
  }
  return {header.address, 0};
}

Result<bool> is_sealed(File& file, const format::FileId& id) {
  PEN_ASSIGN(const auto seal, find_seal(file, id));
  return seal && read_stretches(file, *seal).ok();
}

Result<LeftOfSeal> compare_with_left_seal(File& file, const format::SegmentHeader& seal) {
  LeftOfSeal left;
  PEN_ASSIGN(const auto size, file.size());
  const auto address = seal.address, begin = address + format::header_size_bytes;
  if (begin >= size) return left;
  const auto most =
      std::min(format::header_region_bytes_max, seal.record_count * std::uint64_t{format::stretch_size_bytes});
  std::vector<std::byte> body(std::min(size - begin, most));
  PEN_ASSIGN(const auto read, file.read_at(body, begin));
  std::vector<std::byte> window;
  for (std::size_t at = 0; at + format::stretch_size_bytes <= read; at += format::stretch_size_bytes) {
    const auto from = load_le<std::uint64_t>(body.data() + at), bytes = load_le<std::uint64_t>(body.data() + at + 8);
    // Behind the last one, or damaged.
    if (bytes == 0 || bytes > piece_bytes_of(address) || from >= address || bytes > address - from) continue;
    window.resize(bytes);
    PEN_ASSIGN(const auto count, file.read_at(window, from));
    const bool agrees = count == bytes && crc32c(window) == load_le<std::uint32_t>(body.data() + at + 16);
    const auto entry = begin + at, last = entry + format::stretch_size_bytes - 1;
    if (!agrees && entry / sector_bytes != last / sector_bytes) continue;  // half of it may be missing
    ++(agrees ? left.agree : left.differ);
  }
  return left;
}

Result<FileBefore> look_before(File& file, const format::FileId& id) {
  FileBefore before;
  PEN_ASSIGN(before.end, file.size());
  PEN_ASSIGN(const auto seal, find_seal(file, id));
  if (const auto stretches = seal ? read_stretches(file, *seal) : Result<std::vector<format::Stretch>>({});
      seal && stretches.ok()) {
    for (const auto& stretch : *stretches) before.sealed.push_back({stretch.address, stretch.bytes});
    before.seals.push_back(*seal);
    return before;
  }
  const auto file_bytes = before.end;
  std::vector<Extent> guarded;
  ScanOptions options;
  options.file_id = id;
  PEN_ASSIGN(auto scanner, SegmentScanner::create(file, options));
  while (true) {
    PEN_ASSIGN(const auto header, scanner.next());
    if (!header) break;
    guarded.push_back(guarded_part(*header));
    if (header->kind == format::SegmentKind::seal)
      before.seals.push_back(*header);
    else
      before.end = std::max(before.end, header->address + header->segment_bytes);
  }
  before.sealed = outside(file, std::move(guarded), file_bytes);
  return before;
}

Result<void> write_seal(File& file, const format::FileId& id, std::vector<Extent> extents, std::uint64_t end) {
  PEN_ASSIGN(const auto file_bytes, file.size());
  extents = merged(std::move(extents), std::min(end, file_bytes));
  std::uint64_t total = 0;
  for (const auto& extent : extents) total += extent.bytes;
  const auto piece_bytes = piece_bytes_of(total);
  auto pieces = pieces_of(extents, piece_bytes);
  PEN_TRY(add_checksums(file, pieces));
  std::vector<std::byte> region(format::header_region_bytes(pieces.size() * format::stretch_size_bytes));
  if (region.size() > format::header_region_bytes_max)
    return make_error(Errc::too_large, "the seal of {} ranges has {} bytes", pieces.size(), region.size());
  format::SegmentHeader header;
  header.kind = format::SegmentKind::seal;
  header.file_id = id;
  header.created_ns = realtime_ns();
  header.address = align_up(end, page_bytes);
  header.segment_bytes = region.size();
  format::encode_stretches(header, pieces, region);
  return write_at(file, region, header.address);
}

/// Mostly it is a page or a few.
Result<std::optional<format::SegmentHeader>> find_seal(File& file, const format::FileId& id) {
  const std::optional<format::SegmentHeader> none;
  PEN_ASSIGN(const auto size, file.size());
  if (size % page_bytes != 0) return none;
  const auto furthest = size - std::min(size, format::header_region_bytes_max);
  std::vector<std::byte> window;
  for (auto at = size; at > furthest;) {
    window.resize(std::min(read_bytes, at - furthest));
    at -= window.size();
    PEN_ASSIGN(const auto count, file.read_at(window, at));
    for (auto page = count / page_bytes * page_bytes; page > 0;) {
      page -= page_bytes;
      const auto bytes = Bytes(window).subspan(page, format::header_size_bytes);
      if (!format::starts_segment(bytes)) continue;
      const auto header = format::decode_header(bytes, at + page);
      if (!header.ok() || header->file_id != id) continue;
      const bool ends_file = header->address + header->segment_bytes == size;
      return header->kind == format::SegmentKind::seal && ends_file ? std::optional(*header) : none;
    }
  }
  return none;
}

Result<void> remove_seals(File& file, std::span<const format::SegmentHeader> seals) {
  PEN_ASSIGN(const auto size, file.size());
  PEN_ASSIGN(const auto superblock, read_own_superblock(file));
  for (const auto& seal : seals) {
    // Another program that wrote through HDF5 may have put other things over all but its header.
    const bool is_hdf5s =
        superblock ? seal.address < superblock->end_of_file : seal.address + seal.segment_bytes < size;
    if (is_hdf5s) {
      PEN_TRY(write_at(file, std::vector<std::byte>(format::header_size_bytes), seal.address));
      continue;
    }
    // All of it: what stays could be taken for a part of the next one, which may lie here as well.
    const auto body_bytes = std::min(format::header_region_bytes_max, seal.record_count * format::stretch_size_bytes);
    const auto bytes = std::min(seal.segment_bytes, format::header_region_bytes(body_bytes));
    const auto end = std::min(size, seal.address + bytes);
    for (auto at = seal.address; at < end; at += read_bytes)
      PEN_TRY(write_at(file, std::vector<std::byte>(std::min(end - at, read_bytes)), at));
  }
  return seals.empty() ? Result<void>{} : file.sync();
}

}  // namespace penstock::store
