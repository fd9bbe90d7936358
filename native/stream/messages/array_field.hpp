/// Arrays within Stream V2 messages: RFC 8746 typed arrays, their shape (tags 40 and 1040) and compressed byte
/// strings (tag 56500).
#pragma once

#include <optional>

#include "stream/messages/cbor.hpp"
#include "stream/messages/message.hpp"

namespace penstock::stream {

constexpr std::uint64_t tag_self_described = 55799;
constexpr std::uint64_t tag_date_time = 0;
constexpr std::uint64_t tag_row_major = 40;
constexpr std::uint64_t tag_column_major = 1040;
constexpr std::uint64_t tag_compressed = 56500;

/// The typed array tag of elements that are sent in this form.
std::uint64_t typed_array_tag(ElementType type, const WireForm& form = {});

struct ArrayContext {
  const MessageLimits& limits;
  /// Where [offset, bytes] points, in messages whose pixels stand apart.
  std::optional<Bytes> pixels;
};

/// An array as it stands in the message. `payload` points into the message or the pixels.
struct ArrayField {
  ArraySpec spec;
  Encoding encoding = Encoding::none;
  WireForm form = {};
  Bytes payload;
};

/// Whether an item of this tag is one of arrays.
bool is_array_tag(std::uint64_t tag);

/// Takes one array. With no compression its size is that of shape × type; otherwise the claim of
/// shape × type is within the limits, and whether the payload expands to it is checked by the codec.
Result<ArrayField> read_array(CborReader& reader, const ArrayContext& context);

}  // namespace penstock::stream
