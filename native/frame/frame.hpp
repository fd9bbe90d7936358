/// One exposure on its way from the network to the file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.hpp"
#include "frame/array.hpp"
#include "frame/encoding.hpp"
#include "frame/wire_form.hpp"

namespace penstock {

/// Place of a frame in its series, from 0; fixes its place in the dataset.
enum class FrameNumber : std::uint64_t {};
constexpr std::uint64_t value(FrameNumber number) { return static_cast<std::uint64_t>(number); }

class AckListener;

/// An array that a frame brings along, as it was sent.
struct MetaArray {
  ArraySpec spec;  ///< once decoded
  std::vector<std::byte> data = {};
  Encoding encoding = Encoding::none;
  WireForm form = {};

  bool operator==(const MetaArray&) const = default;
};
/// Decoded. Rows wait in memory before they are written, thousands of them.
constexpr std::uint64_t meta_array_bytes_max = 4096;

/// One value of per-frame metadata.
using MetaValue = std::variant<std::int64_t, std::uint64_t, double, std::string, MetaArray>;

struct Frame {
  std::string series_unique_id;
  std::uint64_t generation = 0;  ///< as in Series; 0: of whichever series of that name is open
  FrameNumber number{};
  std::uint32_t channel = 0;             ///< index into Series::channels
  std::optional<std::uint32_t> element;  ///< of the detector, where each has a stream of its own
  ArraySpec spec;                        ///< of the decoded pixels
  Encoding encoding = Encoding::none;
  WireForm form;             ///< of the elements, under `encoding`
  Bytes payload;             ///< in `encoding`; alive as long as `owner`
  std::size_t capacity = 0;  ///< bytes that may be read from payload.data() on; 0: payload.size()
  /// Memory right before the payload that whoever holds `owner` may write, so that a message's head
  /// and its pixels lie in one piece; empty where there is none.
  MutableBytes headroom;
  std::shared_ptr<const void> owner;
  /// CRC-32C of the payload, where the source made it while the bytes were in the cache.
  std::optional<std::uint32_t> payload_crc;

  std::string series_date;  ///< as sent, RFC 3339; empty where it was not
  // From the source, nanoseconds since the series' date; -1 if the source sent none.
  std::int64_t exposure_start_ns = -1;
  std::int64_t exposure_stop_ns = -1;
  std::int64_t exposure_real_ns = -1;
  // Realtime clock, nanoseconds since 1970.
  std::int64_t received_ns = 0;

  std::vector<std::pair<std::string, MetaValue>> metadata;

  /// Whom to notify when the frame is safe: what the source gave to FrameSink::begin; null for nobody.
  std::shared_ptr<AckListener> session;
  std::uint64_t message = 0;  ///< the session's number of the message that brought it
  bool more = false;          ///< another frame of the same message follows
  bool waited = false;        ///< for the file of its series
};

}  // namespace penstock
