#include "store/recovery/complete_chunk.hpp"

#include <algorithm>
#include <vector>

#include "base/crc32c.hpp"
#include "store/recovery/scan.hpp"

namespace penstock::store {
namespace {

constexpr std::uint64_t read_bytes = 1 << 20;

bool has_checksum(File& file, std::uint64_t address, std::uint64_t size, std::uint32_t expected) {
  std::vector<std::byte> window(std::min(size, read_bytes));
  std::uint32_t crc = 0;
  for (std::uint64_t done = 0; done < size; done += window.size()) {
    window.resize(std::min<std::uint64_t>(window.size(), size - done));
    const auto count = file.read_at(window, address + done);
    if (!count.ok() || *count < window.size()) return false;
    crc = crc32c(window, crc);
  }
  return crc == expected;
}

}  // namespace

bool has_complete_chunk(File& file, const format::SegmentHeader& segment) {
  const auto records = read_records(file, segment);
  return records.ok() && std::any_of(records->begin(), records->end(), [&](const auto& record) {
           return has_checksum(file, segment.address + record.offset, record.size, record.crc);
         });
}

}  // namespace penstock::store
