/// What the readers of start and image messages share.
#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "stream/messages/array_field.hpp"
#include "stream/messages/cbor.hpp"
#include "stream/messages/message.hpp"

namespace penstock::stream {

inline Result<std::string> read_text(CborReader& reader, std::size_t bytes_max) {
  std::string scratch;
  PEN_ASSIGN(const auto text, reader.text(scratch));
  if (text.size() > bytes_max)
    return make_error(Errc::too_large, "text of {} bytes exceeds the limit of {}", text.size(), bytes_max);
  return std::string(text);
}

/// Text that names something: not empty.
inline Result<std::string> read_identifier(CborReader& reader, const MessageLimits& limits) {
  PEN_ASSIGN(auto text, read_text(reader, limits.identifier_bytes_max));
  if (text.empty()) return make_error(Errc::malformed, "empty");
  return text;
}

/// A date and time, with its tag or without.
inline Result<std::string> read_date(CborReader& reader, const MessageLimits& limits) {
  if (reader.peek() == CborKind::tag) {
    PEN_ASSIGN(const auto tag, reader.tag());
    if (tag != tag_date_time) return make_error(Errc::malformed, "tag {} instead of a date (tag 0)", tag);
  }
  return read_text(reader, limits.identifier_bytes_max);
}

/// Calls `read(key)` for each entry of a map; `read` takes the entry's value.
template <typename Read>
Result<void> for_each_entry(CborReader& reader, Read read) {
  PEN_ASSIGN(auto map, reader.enter_map());
  std::string scratch;
  for (;;) {
    PEN_ASSIGN(const bool another, reader.more(map));
    if (!another) return {};
    PEN_ASSIGN(const auto key, reader.text(scratch));
    PEN_TRY(read(key), "\"{}\"", key.substr(0, 64));
  }
}

/// Takes an item with `read(reader)`, or, where that is an error, passes over the item and returns the error as a
/// value.
template <typename Read>
Result<std::optional<Error>> attempt(CborReader& reader, Read read) {
  auto trial = reader;
  Result<void> outcome = read(trial);
  if (outcome.ok()) {
    reader.catch_up(trial);
    return std::optional<Error>();
  }
  PEN_TRY(reader.skip());
  return std::optional(std::move(outcome).error());
}

/// Calls `read(key, reader)` for each entry of a map. One that is wrong costs the others nothing: the first error is
/// returned when all of them have been read.
template <typename Read>
Result<void> for_each_good_entry(CborReader& reader, Read read) {
  PEN_ASSIGN(auto map, reader.enter_map());
  std::string scratch;
  std::optional<Error> first;
  for (;;) {
    PEN_ASSIGN(const bool another, reader.more(map));
    if (!another) break;
    PEN_ASSIGN(const auto key, reader.text(scratch));
    PEN_ASSIGN(const auto problem, attempt(reader, [&](CborReader& item) { return read(key, item); }));
    if (problem && !first) first = problem->with_context(fmt::format("\"{}\"", key.substr(0, 64)));
  }
  if (first) return *std::move(first);
  return {};
}

/// A field and its value, for messages: `count_time is "fast"`. Of a long value the field alone.
std::string shown_field(std::string_view field, Bytes item);
/// A text that stands for a JSON object, as control software passes one on; nothing where it is any other, or
/// nested deeper than a message may be.
std::optional<std::string> object_in_text(std::string_view text, const MessageLimits& limits);

/// The value of `type`, which is known already: once in a message, or it is not clear what that is.
inline Result<void> pass_type(CborReader& reader, bool& seen) {
  if (std::exchange(seen, true)) return make_error(Errc::malformed, "type: twice");
  return reader.skip();
}

// Each kind of message reads all fields of its map, in any order.
Result<Series> read_start(CborReader& reader, CborContainer& fields, const MessageLimits& limits);
Result<ImageMessage> read_image(CborReader& reader, CborContainer& fields, const ArrayContext& context);
Result<SeriesEnd> read_end(CborReader& reader, CborContainer& fields, const MessageLimits& limits);

}  // namespace penstock::stream
