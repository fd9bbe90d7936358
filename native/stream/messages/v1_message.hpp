/// Stream V1 messages (docs/reference/stream-v1.md): ZeroMQ messages of several parts, JSON and blobs.
///
/// Parsing performs no I/O. Every error names the part, the field and the value.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "frame/frame.hpp"
#include "frame/series.hpp"
#include "stream/messages/message.hpp"

namespace penstock::stream {

/// More parts than this no message has.
constexpr std::size_t v1_parts_max = 16;

/// What a header and the detector's configuration in it contain. The series has no unique id, and a shape only where
/// the configuration has one.
struct V1Header {
  Series series;
  /// What could not be taken as it stands; the rest is good.
  std::vector<Error> remarks;
};

struct V1Image {
  std::uint64_t series = 0;
  std::uint64_t frame = 0;
  ArraySpec spec;  ///< [rows, columns]
  Encoding encoding = Encoding::none;
  WireForm form = {};
  bool is_bare_block = false;  ///< LZ4 with no framing
  std::size_t pixel_part = 2;  ///< which part has the pixels
  // Nanoseconds; -1 where not sent.
  std::int64_t start_ns = -1;
  std::int64_t stop_ns = -1;
  std::int64_t real_ns = -1;
  std::vector<std::pair<std::string, MetaValue>> metadata;  ///< of the appendix
  /// What could not be taken as it stands; the pixels are good without it.
  std::vector<Error> remarks = {};
};

struct V1End {
  std::uint64_t series = 0;
};

using V1Message = std::variant<V1Header, V1Image, V1End>;

/// Whether a message that begins with this part is one of Stream V1.
bool is_v1(Bytes first_part);

/// How many of the parts, from the first, are one message: a sender may put several into one of ZeroMQ.
std::size_t v1_message_parts(std::span<const Bytes> parts);

Result<V1Message> parse_v1(std::span<const Bytes> parts, const MessageLimits& limits);

/// Series and frame of an image that cannot be understood otherwise.
std::optional<std::pair<std::uint64_t, std::uint64_t>> name_of_v1_image(std::span<const Bytes> parts);

/// A block of LZ4 with the framing around it that HDF5's LZ4 filter stores: these bytes stand in front of it.
/// `raw_bytes` is the size that it expands to.
constexpr std::size_t lz4_framing_bytes = 16;
void write_lz4_framing(std::uint64_t raw_bytes, std::uint64_t block_bytes, MutableBytes into);

}  // namespace penstock::stream
