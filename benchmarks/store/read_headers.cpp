// The peer of recovery: nothing but reading every segment's header region, one after another, with plain
// system calls. One JSON document on stdout.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/bytes.hpp"
#include "base/time/clock.hpp"

namespace {

constexpr std::uint64_t step_bytes = 4096;
constexpr char magic[] = "\x89PENSEG\n";

/// docs/reference/format.md, "Segment header".
struct Header {
  char magic[8];
  std::uint16_t version, kind;
  std::uint32_t header_bytes;
  unsigned char file_id[16];
  std::uint64_t sequence, segment_bytes;
  std::uint32_t record_count;
};

int run(const char* path) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    std::cerr << path << ": " << std::strerror(errno) << '\n';
    return 1;
  }
  std::vector<std::byte> region(step_bytes);
  std::uint64_t segments = 0, records = 0, bytes = 0;
  const auto started = penstock::monotonic_ns();
  for (std::uint64_t at = 0;;) {
    if (::pread(file, region.data(), step_bytes, static_cast<off_t>(at)) < static_cast<ssize_t>(step_bytes)) break;
    bytes += step_bytes;
    Header header;
    std::memcpy(&header, region.data(), sizeof header);
    if (std::memcmp(header.magic, magic, sizeof header.magic) != 0) {
      at += step_bytes;
      continue;
    }
    if (header.header_bytes > region.size()) region.resize(header.header_bytes);
    const auto rest = static_cast<std::int64_t>(header.header_bytes - step_bytes);
    if (::pread(file, region.data() + step_bytes, static_cast<std::size_t>(rest),
                static_cast<off_t>(at + step_bytes)) != rest)
      break;
    bytes += static_cast<std::uint64_t>(rest);
    ++segments;
    records += header.record_count;
    at += header.segment_bytes;
  }
  const auto seconds = 1e-9 * static_cast<double>(penstock::monotonic_ns() - started);
  ::close(file);
  std::cout
      << nlohmann::json{{"seconds", seconds}, {"segments", segments}, {"records", records}, {"bytes", bytes}}.dump()
      << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2) return run(argv[1]);
  std::cerr << "usage: read_headers FILE\n";
  return 2;
}
