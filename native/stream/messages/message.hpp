/// Stream V2 messages (docs/reference/stream-v2.md): start, image and end, from bytes and back.
///
/// Parsing performs no I/O and allocates nothing on the word of a length that the bytes do not bear
/// out. Every error names the field and the value. A start message may lack what an image brings as well: its type,
/// its shape and its channels. A field that the pixels do not need never makes it
/// reject a message, whatever it holds: it is listed in the message's warnings. Views in a parsed message point into
/// the bytes that were parsed and live as long as those.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "frame/array.hpp"
#include "frame/encoding.hpp"
#include "frame/frame.hpp"
#include "frame/series.hpp"

namespace penstock::stream {

struct MessageLimits {
  std::uint64_t frame_bytes_max = std::uint64_t{1} << 30;  ///< of one array, decoded; also of its encoded bytes
  std::uint64_t table_bytes_max = std::uint64_t{1} << 30;  ///< the same, of a mask, flat field or table
  std::size_t channels_max = 64;
  std::size_t dimensions_max = 8;
  std::size_t metadata_max = 1024;           ///< values of metadata of one frame
  std::size_t identifier_bytes_max = 256;    ///< series_unique_id, channel names
  std::size_t text_bytes_max = 1 << 20;      ///< any other text, and user_data as JSON
  std::size_t unknown_bytes_max = 64 << 20;  ///< of all fields of a start message that are only kept
  int nesting_max = 16;

  /// Of one message over ZeroMQ: the pixels of a frame, or the tables of a start message, and 4 MiB for the rest.
  std::uint64_t message_bytes_max() const { return frame_bytes_max + table_bytes_max + (std::uint64_t{4} << 20); }
};

/// The pixels of one channel (a threshold, say) of one exposure.
struct ChannelImage {
  std::string channel;
  ArraySpec spec;  ///< of the decoded pixels, [rows, columns]
  Encoding encoding = Encoding::none;
  Bytes payload;
  WireForm form = {};  ///< of the elements, under `encoding`
};

struct ImageMessage {
  std::uint64_t series_id = 0;
  std::string series_unique_id;
  std::uint64_t image_id = 0;  ///< the frame number
  std::string series_date;     ///< RFC 3339, empty where not sent
  // Nanoseconds since series_date, rounded to the nearest; -1 where not sent.
  std::int64_t start_ns = -1;
  std::int64_t stop_ns = -1;
  std::int64_t real_ns = -1;           ///< a duration
  std::vector<ChannelImage> channels;  ///< at least one
  /// Scalars of a user_data map by key; values that are not scalars, and a user_data that is not a map
  /// (under "user_data"), as JSON text. Unknown top-level fields likewise.
  std::vector<std::pair<std::string, MetaValue>> metadata;
  /// Fields that could not be understood, each with its value: they are left out.
  std::vector<Error> remarks = {};
};

using Message = std::variant<Series, ImageMessage, SeriesEnd>;

/// A whole message, as one ZeroMQ part carries it.
Result<Message> parse_message(Bytes message, const MessageLimits& limits);

/// A message whose pixel byte strings stand apart: each is replaced by [offset, bytes], a range of
/// `pixels` (docs/reference/tcp.md).
Result<Message> parse_detached(Bytes message, Bytes pixels, const MessageLimits& limits);

/// The field that a start message lacks and that the series' first image brings, for messages; empty if the file can be
/// made without an image.
std::string_view lacks(const Series& start);
/// Takes what the start message lacks from an image of the series. Masks and flat fields that do not fit the images
/// then are left out, with a remark.
void complete(Series& start, const ImageMessage& image);

/// Which image a message is, though it could not be parsed or its pixels are not there.
struct ImageName {
  std::string series_unique_id;
  std::uint64_t image_id = 0;
};
/// Returns nullopt if the message is not an image, or ends before its number.
std::optional<ImageName> name_of_image(Bytes message, const MessageLimits& limits);

/// Which series a message begins, though it could not be parsed; empty where it does not say that. Nothing where the
/// message is not a start message.
std::optional<std::string> name_of_start(Bytes message, const MessageLimits& limits);

std::vector<std::byte> encode_start(const Series& series);
std::vector<std::byte> encode_end(const SeriesEnd& end);

/// An image message cut where its pixels belong, so that a sender need not copy them:
/// text[0, cuts[0]), payload of channel 0, text[cuts[0], cuts[1]), payload of channel 1, …
/// Nothing follows the last payload.
struct ImagePieces {
  std::vector<std::byte> text;
  std::vector<std::size_t> cuts;
};

/// Replaces the contents of `into`, reusing its memory.
void encode_image_around(const ImageMessage& image, ImagePieces& into);
/// Appends the message for parse_detached; the payloads stand one after another in the pixel part.
void encode_image_detached(const ImageMessage& image, std::vector<std::byte>& into);
/// In one piece, pixels copied.
std::vector<std::byte> encode_image(const ImageMessage& image);

}  // namespace penstock::stream
