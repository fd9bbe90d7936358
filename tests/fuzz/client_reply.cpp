/// What the client library reads from a recorder. The first byte picks the kind of the message; the checksums are made
/// right, or no input would come past them.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" {
#include "client/wire.h"
}

namespace {

/// Views lie within the message.
void check(const pst_view& view, const std::vector<std::uint8_t>& message) {
  if (view.size == 0) return;
  const auto* at = reinterpret_cast<const std::uint8_t*>(view.data);
  if (at < message.data() || at + view.size > message.data() + message.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const char* why = nullptr;
  pst_header header;
  if (size < 2) return 0;
  if (size >= PST_HEADER_BYTES) {
    std::array<std::uint8_t, PST_HEADER_BYTES> head;
    std::memcpy(head.data(), data, head.size());
    const auto crc = pst_crc32c(head.data(), 60);
    for (int i = 0; i < 4; ++i) head[60 + i] = static_cast<std::uint8_t>(crc >> (8 * i));
    if (pst_decode_header(head.data(), &header, &why) == 0 && header.message_bytes > PST_REPLY_BYTES_MAX) std::abort();
  }
  const std::vector<std::uint8_t> message(data + 1, data + size);
  header = {};
  header.kind = 1 + data[0] % 8;
  header.message_bytes = static_cast<std::uint32_t>(message.size());
  header.message_crc = pst_crc32c(message.data(), message.size());
  pst_reply reply;
  if (pst_decode_reply(&header, message.data(), &reply, &why) != 0) return 0;
  check(reply.series, message);
  check(reply.code, message);
  check(reply.text, message);
  return 0;
}
