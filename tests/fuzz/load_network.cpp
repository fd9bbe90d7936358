/// Messages of a network workload from hostile hands: whatever the bytes, parsing answers, and what parses comes out as
/// a message that parses to the same.
#include <cstdint>
#include <cstdlib>

#include "load/network/message.hpp"

using namespace penstock;
using namespace penstock::load;

namespace {

template <typename Parsed, typename Parse>
void comes_out_as_it_went_in(const Result<Parsed>& parsed, Parse parse) {
  if (!parsed.ok()) return;
  const auto again = parse(to_json(*parsed));
  if (!again.ok() || to_json(*again) != to_json(*parsed)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  if (size >= network_head_bytes) (void)parse_head(bytes.first(network_head_bytes), small_message_bytes_max).ok();
  const auto message = parse_json(as_text(bytes), "the message");
  if (!message.ok()) return 0;
  (void)type_of(*message).ok();
  comes_out_as_it_went_in(parse_hello(*message), parse_hello);
  comes_out_as_it_went_in(parse_order(*message), parse_order);
  const auto side = [](const Json& json) { return parse_side(json, 1); };
  comes_out_as_it_went_in(side(*message), side);
  return 0;
}
