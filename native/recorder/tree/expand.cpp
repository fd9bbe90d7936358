#include "recorder/tree/expand.hpp"

namespace penstock::recorder {

Result<void> expand(const Sent& sent, const ArraySpec& spec, Bytes bytes, MutableBytes into, CodecScratch& scratch) {
  const auto element_bytes = sent.form.element_bytes(spec.type);
  if (sent.form.plain()) return decode(sent.encoding, bytes, element_bytes, into, scratch);
  std::vector<std::byte> elements;
  if (sent.encoding != Encoding::none) {
    elements.resize(sent.form.sent_bytes(into.size()));
    PEN_TRY(decode(sent.encoding, bytes, element_bytes, elements, scratch));
    bytes = elements;
  }
  straighten(sent.form, spec, bytes, into);
  return {};
}

}  // namespace penstock::recorder
