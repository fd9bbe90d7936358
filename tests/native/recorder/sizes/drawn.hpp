/// Recordings drawn at random, dense around the sizes at which the recorder's ways part: a page, a class of the pool,
/// a segment and its fractions, a copy step. The number of a recording determines everything about it.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "codec/codec.hpp"
#include "recorder/series/chunks/blocks.hpp"

namespace penstock::recorder::sizes {

/// Where the pixels of a frame lie when it is put.
enum class Memory {
  unaligned,  ///< somewhere in a message, as ZeroMQ brings it
  aligned,    ///< at a page, and readable to the end of one
  pool,       ///< in the recorder's pool, as from TCP
};

/// A recording of one series.
struct Drawn {
  std::uint64_t number = 0;
  // The frames.
  ElementType type = ElementType::u16;
  std::vector<std::uint64_t> shape;  ///< of a frame, or of an element where a frame has several
  std::uint32_t grid_rows = 1;       ///< of elements
  std::uint32_t grid_columns = 1;
  std::uint64_t channels = 1;
  std::uint64_t frames = 1;
  bool announced = true;
  std::vector<double> random_parts;  ///< of the pixels of each image; the others are 0
  unsigned random_bits = 8;          ///< of each byte of those
  // How they are sent.
  Encoding sent = Encoding::none;
  Memory memory = Memory::unaligned;
  bool with_crc = false;
  unsigned senders = 1;
  // How they are stored.
  CodecSpec codec;
  std::string placement = "log";
  std::uint64_t frames_a_file = 0;  ///< 0: all in one
  std::vector<std::uint64_t> tile;  ///< empty: the frame
  std::uint64_t frames_a_chunk = 1;
  unsigned threads = 1;
  unsigned write_threads = 1;
  std::uint64_t pool_bytes = 64 << 20;
  std::uint64_t segment_bytes = 8 << 20;
  std::uint64_t extent_bytes = 128 << 20;
  std::uint64_t alignment_bytes = 4096;
  bool direct = true;
  bool swmr = true;
  std::string durability = "none";

  std::uint32_t elements() const { return grid_rows * grid_columns; }
  std::uint64_t part_bytes() const {
    return std::accumulate(shape.begin(), shape.end(), std::uint64_t{size_of(type)}, std::multiplies<>());
  }

  nlohmann::json job(const std::string& folder) const {
    nlohmann::json job{{"folder", folder},
                       {"sources", {{{"kind", "tcp"}}}},
                       {"codec", {{"encoding", name(codec.encoding)}, {"level", codec.level}}},
                       {"threads", threads},
                       {"pool_bytes", pool_bytes},
                       {"series_limit", 1},
                       {"end_timeout_s", 10},
                       {"chunk", {{"shape", tile}, {"frames", frames_a_chunk}}},
                       {"store",
                        {{"placement", placement},
                         {"segment_bytes", segment_bytes},
                         {"extent_bytes", extent_bytes},
                         {"alignment_bytes", alignment_bytes},
                         {"write_threads", write_threads},
                         {"direct", direct},
                         {"swmr", swmr},
                         {"durability", durability}}}};
    if (codec.block_bytes > 0) job["codec"]["block_bytes"] = codec.block_bytes;
    if (frames_a_file > 0) job["files"] = {{"layout", "split"}, {"frames", frames_a_file}};
    return job;
  }

  std::string text() const {
    return fmt::format(
        "PENSTOCK_TEST_SEED={}: {} frames{} of {} × {} × {} {}, {} bytes a part, {} channels; random {:.2f} with {} "
        "bits, "
        "sent as {} from memory {} by {}{}; job {}",
        number, frames, announced ? "" : " (not announced)", grid_rows, grid_columns, fmt::join(shape, "·"),
        penstock::name(type), part_bytes(), channels, fmt::join(random_parts, ", "), random_bits, penstock::name(sent),
        static_cast<int>(memory), senders, with_crc ? " with checksums" : "", job("").dump());
  }
};

class Drawing {
 public:
  /// One in `large_every` numbers has parts of up to 64 MiB and takes seconds; the others are small.
  static constexpr std::uint64_t large_every = 16;
  static bool is_large(std::uint64_t number) { return number % large_every == 0; }

  explicit Drawing(std::uint64_t number) : random_(key_of({0x73697A6573, number})), large_(is_large(number)) {
    drawn_.number = number;
  }

  Drawn draw() {
    draw_store();
    draw_frames();
    draw_chunks();
    draw_sender();
    draw_pool();
    return std::move(drawn_);
  }

 private:
  static constexpr std::uint64_t kibibyte = 1 << 10, mebibyte = 1 << 20;

  std::uint64_t below(std::uint64_t bound) { return random_.next_below(bound); }
  std::uint64_t from_to(std::uint64_t least, std::uint64_t most) { return least + random_.next() % (most - least + 1); }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  template <typename Value>
  Value one_of(std::initializer_list<Value> values) {
    return values.begin()[below(values.size())];
  }
  /// Each octave is as likely as any other.
  std::uint64_t in_octaves(std::uint64_t least, std::uint64_t most) {
    const auto octave = from_to(0, static_cast<std::uint64_t>(std::bit_width(most / least)) - 1);
    return std::min(most, (least << octave) + random_.next() % (least << octave));
  }

  std::uint64_t part_bytes_most() const { return large_ ? 64 * mebibyte : 2 * mebibyte; }
  std::uint64_t series_bytes_most() const { return large_ ? 192 * mebibyte : 4 * mebibyte; }

  void draw_store() {
    auto& d = drawn_;
    const auto segment_most = large_ ? 32 * mebibyte : mebibyte;
    d.segment_bytes =
        one_in(3) ? in_octaves(64 * kibibyte, segment_most) : std::uint64_t{64 * kibibyte} << below(large_ ? 10 : 5);
    d.extent_bytes = std::max(d.segment_bytes, one_of<std::uint64_t>({mebibyte, 8 * mebibyte, 128 * mebibyte}));
    d.alignment_bytes = one_of<std::uint64_t>({4096, 4096, 64 * kibibyte, mebibyte});
    d.write_threads = static_cast<unsigned>(from_to(1, 4));
    d.threads = static_cast<unsigned>(from_to(1, 4));
    d.direct = one_in(2);
    d.swmr = !one_in(4);
    d.durability = one_in(8) ? one_of<const char*>({"interval", "segment"}) : "none";
    d.codec.encoding = one_of({Encoding::none, Encoding::bitshuffle_lz4, Encoding::bitshuffle_lz4,
                               Encoding::bitshuffle_zstd, Encoding::lz4, Encoding::zstd, Encoding::deflate});
    const bool shuffles = d.codec.encoding == Encoding::bitshuffle_lz4 || d.codec.encoding == Encoding::bitshuffle_zstd;
    if (shuffles && one_in(4)) d.codec.block_bytes = static_cast<std::uint32_t>(64 * from_to(1, 1024));
  }

  /// Sizes at which something changes, and their neighbours.
  std::uint64_t draw_part_bytes() {
    const auto most = part_bytes_most();
    const auto segment = drawn_.segment_bytes;
    if (one_in(8)) return from_to(1, 64);
    if (one_in(3)) return in_octaves(1, most);
    const auto octave = std::uint64_t{4096} << below(static_cast<std::uint64_t>(std::bit_width(most / 4096)));
    const auto edge = one_of<std::uint64_t>({4096 * from_to(1, 16), octave + below(4) * (octave / 4), segment,
                                             segment / 2, segment / 3, segment / 16, segment + 4096, segment - 4096,
                                             segment - 8192, 64 * kibibyte, mebibyte, 512});
    const auto near = edge + from_to(0, 2 * 48) - 48;
    return std::clamp<std::uint64_t>(one_in(2) ? edge : near, 1, most);
  }

  /// Exactly this many elements, in one to three dimensions.
  std::vector<std::uint64_t> draw_shape(std::uint64_t count, bool flat) {
    const auto divisor = [&](std::uint64_t of) {
      for (auto tried = from_to(1, std::min<std::uint64_t>(of, 2048)); tried > 1; --tried)
        if (of % tried == 0) return tried;
      return std::uint64_t{1};
    };
    const auto outer = divisor(count);
    if (flat || !one_in(4)) return {outer, count / outer};
    if (one_in(2)) return {count};
    const auto planes = divisor(outer);
    return {planes, outer / planes, count / outer};
  }

  void draw_frames() {
    auto& d = drawn_;
    d.type = one_of({ElementType::u8, ElementType::u16, ElementType::u16, ElementType::u32, ElementType::u64,
                     ElementType::i8, ElementType::i16, ElementType::i32, ElementType::i64, ElementType::f32,
                     ElementType::f64});
    if (one_in(6)) {
      d.grid_rows = static_cast<std::uint32_t>(from_to(1, 4));
      d.grid_columns = static_cast<std::uint32_t>(from_to(1, 4));
    }
    if (one_in(6)) d.channels = 2;
    const auto bytes = std::min(draw_part_bytes(), series_bytes_most() / d.elements() / d.channels);
    const auto count = std::max<std::uint64_t>(1, bytes / size_of(d.type));
    d.shape = draw_shape(count, d.elements() > 1);
    const auto frame_bytes = d.part_bytes() * d.elements() * d.channels;
    d.frames = std::clamp<std::uint64_t>(series_bytes_most() / frame_bytes, 1, 400 / (d.elements() * d.channels));
    if (one_in(4)) d.frames = from_to(1, d.frames);
    d.announced = !one_in(4);
    const auto images = from_to(1, d.part_bytes() > mebibyte ? 2 : 5);
    for (std::uint64_t i = 0; i < images; ++i)
      d.random_parts.push_back(one_in(3) ? 1.0 : static_cast<double>(below(101)) / 100);
    d.random_bits = static_cast<unsigned>(one_in(2) ? 8 : from_to(1, 8));
  }

  void draw_chunks() {
    auto& d = drawn_;
    const bool single_parts = d.elements() == 1;
    const auto kind = below(6);
    if (kind == 0 && single_parts) {
      d.placement = "slots";
    } else if (kind == 1 && single_parts) {
      d.frames_a_file = from_to(1 + d.frames / 10, d.frames + 1);
    } else if (kind == 2) {
      for (const auto extent : d.shape) {
        auto cut = std::max<std::uint64_t>(1, std::min(extent, extent / from_to(1, 4) + below(2)));
        while (!single_parts && extent % cut != 0) ++cut;  // each element begins at a chunk
        d.tile.push_back(cut);
      }
    }
    const bool gathers = single_parts && d.placement == "log" && d.frames_a_file == 0 && one_in(3);
    const auto most = std::min<std::uint64_t>(32, series_bytes_most() / 2 / d.part_bytes());
    if (gathers && most > 1) d.frames_a_chunk = from_to(2, most);
  }

  void draw_sender() {
    auto& d = drawn_;
    d.memory = one_of({Memory::unaligned, Memory::aligned, Memory::pool});
    d.with_crc = one_in(3);
    if (one_in(4)) d.sent = d.codec.encoding;
    if (one_in(8)) d.sent = one_of({Encoding::bitshuffle_lz4, Encoding::lz4, Encoding::zstd});
    // A chunk of several frames waits for frames of its own sender alone.
    if (d.frames_a_chunk == 1 && d.elements() == 1) d.senders = static_cast<unsigned>(from_to(1, 3));
  }

  /// The least that the recorder takes for these chunks, as often as not.
  void draw_pool() {
    auto& d = drawn_;
    auto chunk = d.part_bytes() * d.frames_a_chunk;
    auto encoded = std::max(chunk, encoded_bound(d.codec, chunk, size_of(d.type)));
    // What comes in another encoding is stored in that, if the recorder has none of its own.
    for (const auto other : {Encoding::bitshuffle_lz4, Encoding::lz4, Encoding::zstd})
      if (d.sent == other) encoded = std::max(encoded, encoded_bound({.encoding = other}, chunk, size_of(d.type)));
    const std::uint64_t shares = d.frames_a_chunk > 1 ? 16 : 8;
    auto least = std::max(2 * d.part_bytes(), shares * (encoded + 2 * page_bytes));
    if (d.frames_a_chunk > 1)
      least = std::max(least, shares * (2 * d.channels + 1) * Blocks::buffer_bytes(d.frames_a_chunk * d.part_bytes()));
    least = std::max<std::uint64_t>(least, 64 * mebibyte);
    d.pool_bytes = one_in(2) ? least : least + random_.next() % least;
  }

  RandomStream random_;
  const bool large_;
  Drawn drawn_;
};

}  // namespace penstock::recorder::sizes
