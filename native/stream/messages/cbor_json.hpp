/// CBOR as JSON text and back, for fields that Penstock only keeps.
#pragma once

#include <string>

#include "stream/messages/cbor.hpp"

namespace penstock::stream {

/// Takes one item. Byte strings become base64url text without padding, floats that JSON lacks
/// become null, tags are dropped. An item of more than `bytes_max` bytes is taken, and an error
/// (`too_large`) that leaves the reader usable.
Result<std::string> read_as_json(CborReader& reader, std::size_t bytes_max);

/// Appends the JSON text as CBOR; text that is no JSON as a text item.
void write_json(CborWriter& writer, std::string_view json);

}  // namespace penstock::stream
