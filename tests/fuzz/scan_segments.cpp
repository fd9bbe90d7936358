// Scans hostile bytes for segments as if they were a file, and reads the records and the description
// of what it finds. Checks what the scanner promises: rising addresses, chunks within their segment.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/crc32c.hpp"
#include "store/format/description.hpp"
#include "store/recovery/scan.hpp"

namespace {

using namespace penstock;

class MemoryFile final : public File {
 public:
  explicit MemoryFile(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}

  Result<std::size_t> read_at(MutableBytes into, std::uint64_t offset) override {
    if (offset >= bytes_.size()) return std::size_t{0};
    const auto count = std::min<std::uint64_t>(into.size(), bytes_.size() - offset);
    std::memcpy(into.data(), bytes_.data() + offset, count);
    return static_cast<std::size_t>(count);
  }
  Result<std::uint64_t> size() override { return std::uint64_t{bytes_.size()}; }
  Result<void> write_at(std::span<const iovec>, std::uint64_t) override { return read_only(); }
  Result<void> sync() override { return {}; }
  Result<void> sync_name() override { return {}; }
  Result<void> truncate(std::uint64_t) override { return read_only(); }
  bool reserves() const override { return false; }
  Result<void> reserve(std::uint64_t, std::uint64_t) override { return read_only(); }
  Result<void> lock(bool) override { return {}; }
  Result<void> unlock() override { return {}; }
  bool direct() const override { return false; }
  bool still_named() const override { return true; }

 private:
  static Error read_only() { return make_error(Errc::permission, "a file in memory"); }

  std::vector<std::byte> bytes_;
};

/// Makes the start of a page a header whose sizes and checksums hold, of what the fuzzer put there.
void make_plausible(std::byte* to, std::uint64_t address, std::uint64_t bytes_left) {
  const auto choice = [to](std::size_t at, unsigned below) { return std::to_integer<unsigned>(to[at]) % below; };
  const bool chunks = choice(10, 8) > 1, stretches = choice(10, 8) == 1;
  const auto records = chunks || stretches ? choice(48, 8) : 0;
  std::memcpy(to, "\x89PENSEG\n\x01\x00", 10);
  store_le<std::uint16_t>(to + 10, chunks ? 2 : (stretches ? 5 : 1));
  const auto header_bytes = page_bytes * (1 + choice(12, 2));
  store_le(to + 12, static_cast<std::uint32_t>(header_bytes));
  std::memset(to + 16, 7, 16);
  store_le(to + 40, header_bytes + page_bytes * choice(40, 4));
  store_le(to + 48, records);
  store_le(to + 64, chunks ? 40 * records : (stretches ? 24 * records : choice(64, 200)));
  store_le(to + 72, address);
  const auto body_bytes = std::min<std::uint64_t>(load_le<std::uint32_t>(to + 64), bytes_left - 128);
  store_le(to + 68, crc32c(Bytes(to + 128, body_bytes)));
}

/// Spreads the input over pages. Most become segments with right checksums, so that the fuzzer gets
/// past them; some keep a field that is wrong, and some are left as they are.
std::vector<std::byte> as_file(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t used_of_page = 512;
  const auto pages = size / used_of_page + 1;
  std::vector<std::byte> file(pages * page_bytes);
  for (std::size_t page = 0; page < pages; ++page) {
    const auto from = page * used_of_page;
    auto* to = file.data() + page * page_bytes;
    std::memcpy(to, data + from, std::min(used_of_page, size - from));
    const auto choice = std::to_integer<unsigned>(to[0]);
    if (choice % 8 == 0) continue;
    const auto wrong_at = 8 + choice % 116;
    const auto wrong = to[wrong_at];
    make_plausible(to, page * page_bytes, file.size() - page * page_bytes);
    if (choice % 8 == 1) to[wrong_at] = wrong;
    store_le(to + 124, crc32c(Bytes(to, 124)));
  }
  return file;
}

void require(bool holds) {
  if (!holds) std::abort();
}

void read_back(File& file, const store::format::SegmentHeader& header) {
  if (header.kind == store::format::SegmentKind::description) {
    const auto text = store::read_description(file, header);
    if (text.ok()) (void)store::format::parse_description(*text).ok();
    return;
  }
  if (header.kind != store::format::SegmentKind::chunks) {
    (void)store::read_stretches(file, header).ok();
    return;
  }
  const auto records = store::read_records(file, header);
  if (!records.ok()) return;
  std::uint64_t end = header.header_bytes;
  for (const auto& record : *records) {
    require(record.offset >= end);
    end = std::uint64_t{record.offset} + record.size;
    require(end <= header.segment_bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  MemoryFile file(as_file(data, size));
  auto scanner = store::SegmentScanner::create(file, {});
  require(scanner.ok());
  std::uint64_t expected = 0;
  while (true) {
    const auto header = scanner->next();
    require(header.ok());
    if (!*header) break;
    require((*header)->address >= expected);
    expected = (*header)->address + (*header)->segment_bytes;
    read_back(file, **header);
  }
  return 0;
}
