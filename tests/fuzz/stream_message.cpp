/// Stream V2 messages from hostile peers: whatever the bytes, parsing answers, and what parses
/// encodes to something that parses again.
#include <cstdint>
#include <cstdlib>

#include "stream/messages/message.hpp"

using namespace penstock;
using namespace penstock::stream;

namespace {

Result<Message> parse_again(const Message& message, const MessageLimits& limits) {
  if (const auto* series = std::get_if<Series>(&message)) return parse_message(encode_start(*series), limits);
  if (const auto* end = std::get_if<SeriesEnd>(&message)) return parse_message(encode_end(*end), limits);
  return parse_message(encode_image(std::get<ImageMessage>(message)), limits);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  MessageLimits limits;
  limits.frame_bytes_max = limits.table_bytes_max = 1 << 20;
  const auto bytes = std::as_bytes(std::span(data, size));
  (void)parse_detached(bytes, bytes, limits).ok();
  (void)name_of_start(bytes, limits);
  const auto message = parse_message(bytes, limits);
  // What is an image has a name, whatever the order of its fields.
  if (message.ok() && std::holds_alternative<ImageMessage>(*message) && !name_of_image(bytes, limits)) std::abort();
  if (!message.ok()) return 0;
  // Text that stands for a structure may grow where it is written as text again.
  limits.text_bytes_max *= 16;
  limits.metadata_max += 1;
  const auto again = parse_again(*message, limits);
  if (!again.ok() && again.error().code() != Errc::too_large) std::abort();
  return 0;
}
