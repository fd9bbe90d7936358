/// Headers and control messages of the TCP protocol, as either end reads them. The first byte picks
/// the message kind; the checksum is made right, or no input would come past it.
#include <array>
#include <cstdint>
#include <cstdlib>

#include "base/crc32c.hpp"
#include "stream/tcp/frame.hpp"

using namespace penstock;
using namespace penstock::stream;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1 + tcp_header_bytes) return 0;
  std::array<std::byte, tcp_header_bytes> head;
  std::memcpy(head.data(), data + 1, head.size());
  (void)decode_header(head).ok();
  store_le(&head[60], crc32c(Bytes(head).first(60)));
  if (const auto header = decode_header(head); header.ok()) {
    std::array<std::byte, tcp_header_bytes> again;
    encode_header(*header, again);
    if (!decode_header(again).ok()) std::abort();
  }
  const auto kind = static_cast<TcpKind>(1 + data[0] % 8);
  const auto message = std::as_bytes(std::span(data, size)).subspan(1 + tcp_header_bytes);
  const auto control = parse_control(kind, message);
  if (!control.ok()) return 0;
  const auto encoded = encode_control(kind, 0, *control);
  if (!parse_control(kind, Bytes(encoded).subspan(tcp_header_bytes)).ok()) std::abort();
  return 0;
}
