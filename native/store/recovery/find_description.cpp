#include "store/recovery/find_description.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace penstock::store {
namespace {

/// The second copy comes right behind HDF5's first structures: no need to look through all of a large file.
constexpr int segments_max = 64;
/// Of zeros that are looked at.
constexpr std::uint64_t zeros_max = std::uint64_t{1} << 30;

}  // namespace

Result<FoundDescription> find_description(File& file, ScanOptions options) {
  PEN_ASSIGN(auto scanner, SegmentScanner::create(file, std::move(options)));
  std::optional<Error> damage;
  for (int i = 0; i < segments_max; ++i) {
    PEN_ASSIGN(const auto header, scanner.next());
    if (!header) break;
    if (header->kind != format::SegmentKind::description) continue;
    auto text = read_description(file, *header);
    auto description = text.ok() ? format::parse_description(*text) : Result<format::Description>(text.error());
    if (description.ok()) return FoundDescription{*header, std::move(*description)};
    if (!damage) damage = description.error();
  }
  if (damage) return *damage;
  return make_error(Errc::not_found, "it does not start like a file that Penstock recorded");
}

std::string obstacle_to_resume(const format::Description& description) {
  if (description.members) return "its frames are in several files, which cannot be resumed";
  if (description.member) return "it is a part of another series, which cannot be resumed";
  for (const auto& node : description.datasets) {
    if (node.places.placement != Placement::log)
      return "its frames have fixed offsets (store.placement), which cannot be resumed";
    if (!node.is_chunk_a_frame())
      return "its chunks are not single frames, or its frames belong to a scan; such files cannot be resumed";
  }
  return {};
}

Result<bool> is_only_begun(File& file) {
  PEN_ASSIGN(const auto size, file.size());
  std::array<std::byte, page_bytes> page;
  bool described = false;
  std::uint64_t zeros = 0;
  for (std::uint64_t at = 0; zeros <= zeros_max;) {
    at = std::max(at, file.next_data(at) / page_bytes * page_bytes);
    PEN_ASSIGN(const auto count, at < size ? file.read_at(page, at) : Result<std::size_t>(0));
    if (count == 0) return true;
    const auto bytes = Bytes(page).first(count);
    const auto header = format::decode_header(bytes, at);
    if (std::all_of(bytes.begin(), bytes.end(), [](auto byte) { return byte == std::byte{0}; })) {
      at += page_bytes;
      zeros += page_bytes;
    } else if (header.ok() && header->kind == format::SegmentKind::values) {
      at += header->segment_bytes;
    } else if (format::starts_segment(bytes) && !std::exchange(described, true)) {
      if (header.ok() && (header->kind != format::SegmentKind::description || read_description(file, *header).ok()))
        return false;
      at += header.ok() ? header->header_bytes : page_bytes;
    } else {
      return false;
    }
  }
  return false;
}

}  // namespace penstock::store
