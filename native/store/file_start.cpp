#include "store/file_start.hpp"

#include "base/crc32c.hpp"
#include "base/time/clock.hpp"
#include "store/format/description.hpp"

namespace penstock::store {
namespace {

/// Digits of the addresses that are not known when the description's place is taken.
constexpr std::size_t address_digits = 20;

format::SegmentHeader header_at(const format::FileId& id, format::SegmentKind kind, std::uint64_t address) {
  format::SegmentHeader header;
  header.kind = kind;
  header.file_id = id;
  header.created_ns = realtime_ns();
  header.address = address;
  return header;
}

/// Gives large values places behind the segment's header region; the segment's length.
std::uint64_t place_values(FileLayout& layout, std::size_t& count) {
  count = 0;
  for (auto& node : layout.values) {
    const auto bytes = format::large_bytes(node.value);
    if (bytes.empty()) continue;
    node.place = ValuePlace{0, bytes.size(), crc32c(bytes)};
    ++count;
  }
  auto end = format::header_region_bytes(count * format::stretch_size_bytes);
  for (auto& node : layout.values) {
    if (!node.place) continue;
    node.place->address = end;
    end = align_up(end + node.place->bytes, page_bytes);
  }
  return end;
}

/// Returns where its header region is, which is empty where there are no large values.
Result<Extent> write_values(File& file, Space& space, const format::FileId& id, FileLayout& layout) {
  std::size_t count = 0;
  const auto segment_bytes = place_values(layout, count);
  if (count == 0) return Extent{};
  PEN_ASSIGN(const auto address, space.take_segment(segment_bytes));
  std::vector<format::Stretch> stretches;
  for (auto& node : layout.values) {
    if (!node.place) continue;
    node.place->address += address;
    stretches.push_back({node.place->address, node.place->bytes, node.place->crc});
  }
  std::vector<std::byte> region(format::header_region_bytes(count * format::stretch_size_bytes));
  auto header = header_at(id, format::SegmentKind::values, address);
  header.segment_bytes = segment_bytes;
  format::encode_stretches(header, stretches, region);
  // First, so that whatever a kill leaves can be told from somebody's data.
  PEN_TRY(write_at(file, region, address));
  for (const auto& node : layout.values)
    if (node.place) PEN_TRY(write_at(file, format::large_bytes(node.value), node.place->address), "{}", node.path);
  return Extent{address, region.size()};
}

Result<void> write_description(File& file, const format::FileId& id, const std::string& text, std::uint64_t address,
                               std::uint64_t region_bytes) {
  std::vector<std::byte> region(region_bytes);
  format::encode_description(header_at(id, format::SegmentKind::description, address), text, region);
  return write_at(file, region, address);
}

Result<std::uint64_t> region_bytes_of(std::size_t text_bytes) {
  const auto bytes = format::header_region_bytes(text_bytes);
  if (bytes <= format::header_region_bytes_max) return bytes;
  return make_error(Errc::too_large,
                    "the description of the file has {} bytes, which exceeds the maximum of {}: send fewer or shorter "
                    "texts with the start message",
                    text_bytes, format::header_region_bytes_max - format::header_size_bytes);
}

}  // namespace

Result<FileStart> write_start(File& file, Space& space, const format::FileId& id, FileLayout& layout,
                              const std::function<void(FileLayout&)>& lay_out) {
  PEN_TRY(space.lease_front());
  // The description comes first, and has the places of all that follows it.
  std::size_t count = 0;
  (void)place_values(layout, count);
  const auto unknown = address_digits * (count + 8 * layout.chunked.size());
  PEN_ASSIGN(const auto region_bytes, region_bytes_of(format::describe(layout).size() + unknown));
  PEN_ASSIGN(const auto address, space.take_segment(region_bytes));
  PEN_ASSIGN(const auto values, write_values(file, space, id, layout));
  lay_out(layout);
  PEN_TRY(write_description(file, id, format::describe(layout), address, region_bytes));
  return FileStart{address, {{address, region_bytes}, values}};
}

Result<Extent> write_description_again(File& file, Space& space, const format::FileId& id, const FileLayout& layout) {
  const auto text = format::describe(layout);
  PEN_ASSIGN(const auto region_bytes, region_bytes_of(text.size()));
  PEN_ASSIGN(const auto address, space.take_segment(region_bytes));
  PEN_TRY(write_description(file, id, text, address, region_bytes));
  return Extent{address, region_bytes};
}

}  // namespace penstock::store
