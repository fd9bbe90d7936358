/// Per-frame metadata as columns: a name has one type in a series, that of its first value.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "frame/array.hpp"
#include "frame/frame.hpp"

namespace penstock::recorder {

using Metadata = std::vector<std::pair<std::string, MetaValue>>;

struct MetaColumn {
  std::string name;
  ElementType type = ElementType::u8;  ///< of numbers
  std::size_t text_bytes = 0;          ///< of text: UTF-8, padded with zeros; 0 for numbers
  /// Of an array; empty for one number. At most meta_array_bytes_max bytes.
  std::vector<std::uint64_t> shape = {};

  std::size_t row_bytes() const {
    std::size_t bytes = text_bytes > 0 ? text_bytes : size_of(type);
    for (const auto extent : shape) bytes *= extent;
    return bytes;
  }
};

/// Whether HDF5 takes it for the name of one object.
bool can_be_column(const std::string& name);

/// The columns that `metadata` (of the first frame) gives rise to. Text, and structures as JSON text,
/// get twice the room of the first value, from 64 to 1024 bytes. Left out are names that HDF5 does
/// not take for one object.
std::vector<MetaColumn> meta_columns(const Metadata& metadata);

/// What `metadata` takes in memory, its names and the allocator's own share included, once shorten_text() was called.
std::uint64_t memory_bytes(const Metadata& metadata);

/// Decodes arrays and makes their elements right. What cannot be decoded is left out, and true comes back.
bool expand_arrays(Metadata& metadata);

/// Text takes no more memory on its way than a column could hold; encode_value still sees that it was longer.
void shorten_text(Metadata& metadata);

/// Writes `value` (null: not sent) as `column.row_bytes()` bytes. A value that was not sent, and a number that
/// does not fit, is NaN, 0 or empty text; so are all numbers of an array of another shape or type. An integer that
/// no double has exactly is rounded in a column of doubles. False where something of the value is lost.
bool encode_value(const MetaValue* value, const MetaColumn& column, std::byte* out);

}  // namespace penstock::recorder
