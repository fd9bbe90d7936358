/// The pixels of a drawn recording: a few images that its frames show in turn, so that a sender makes none while it
/// sends.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "base/crc32c.hpp"
#include "drawn.hpp"
#include "recorder/service/recorder.hpp"

namespace penstock::recorder::sizes {

class Images {
 public:
  explicit Images(const Drawn& drawn) : drawn_(drawn) {
    CodecScratch scratch;
    for (std::size_t i = 0; i < drawn.random_parts.size(); ++i) {
      plain_.push_back(make_plain(i));
      sent_.push_back(lay_out(encoded(plain_.back(), scratch)));
    }
  }

  /// Of an element in a channel of a frame.
  Bytes plain(std::uint64_t number, std::uint32_t element, std::uint64_t channel) const {
    return plain_[image(number, element, channel)];
  }

  /// The same as it is sent.
  Frame frame(std::uint64_t number, std::uint32_t element, std::uint64_t channel, BufferPool& pool) const {
    const auto& sent = sent_[image(number, element, channel)];
    Frame frame;
    frame.number = FrameNumber{number};
    frame.channel = static_cast<std::uint32_t>(channel);
    if (drawn_.elements() > 1) frame.element = element;
    frame.spec = {drawn_.type, drawn_.shape};
    frame.encoding = drawn_.sent;
    frame.payload = sent.payload;
    frame.capacity = sent.capacity;
    frame.owner = sent.memory;
    if (drawn_.with_crc && frame.encoding == Encoding::none) frame.payload_crc = sent.crc;
    if (drawn_.memory == Memory::pool) move_to(pool, frame);
    return frame;
  }

 private:
  struct Sent {
    std::shared_ptr<std::vector<std::byte>> memory;
    Bytes payload;
    std::size_t capacity = 0;
    std::uint32_t crc = 0;
  };

  std::size_t image(std::uint64_t number, std::uint32_t element, std::uint64_t channel) const {
    return static_cast<std::size_t>((number + 3 * element + 7 * channel) % plain_.size());
  }

  /// Random bytes and zeros by turns, in stretches as the image's part says.
  std::vector<std::byte> make_plain(std::size_t image) const {
    constexpr std::size_t pattern_bytes = 1 << 20, stretch_bytes = 4096;
    std::vector<std::byte> pixels(drawn_.part_bytes());
    RandomStream random(key_of({drawn_.number, image}));
    std::vector<std::byte> pattern(std::min(pattern_bytes, pixels.size()));
    const auto mask = std::byte{static_cast<unsigned char>((1u << drawn_.random_bits) - 1)};
    for (auto& byte : pattern) byte = std::byte{static_cast<unsigned char>(random.next())} & mask;
    const auto random_bytes = static_cast<std::size_t>(drawn_.random_parts[image] * stretch_bytes);
    for (std::size_t at = 0; at < pixels.size(); at += stretch_bytes) {
      const auto from = at % pattern.size();
      const auto size = std::min({random_bytes, pixels.size() - at, pattern.size() - from});
      std::memcpy(pixels.data() + at, pattern.data() + from, size);
    }
    return pixels;
  }

  std::vector<std::byte> encoded(const std::vector<std::byte>& plain, CodecScratch& scratch) const {
    if (drawn_.sent == Encoding::none) return plain;
    const CodecSpec spec{.encoding = drawn_.sent};
    std::vector<std::byte> bytes(encoded_bound(spec, plain.size(), size_of(drawn_.type)));
    const auto size = penstock::encode(spec, plain, size_of(drawn_.type), bytes, scratch);
    EXPECT_TRUE(size.ok());
    bytes.resize(size.ok() ? *size : 0);
    return bytes;
  }

  Sent lay_out(const std::vector<std::byte>& bytes) const {
    Sent sent;
    sent.memory = std::make_shared<std::vector<std::byte>>(align_up(bytes.size(), page_bytes) + 2 * page_bytes);
    auto* first = sent.memory->data();
    const auto page = align_up(reinterpret_cast<std::uintptr_t>(first), page_bytes);
    first += page - reinterpret_cast<std::uintptr_t>(first);
    if (drawn_.memory == Memory::unaligned) first += 1 + drawn_.number % 97;
    sent.capacity = drawn_.memory == Memory::aligned ? align_up(bytes.size(), page_bytes) : 0;
    if (!bytes.empty()) std::memcpy(first, bytes.data(), bytes.size());
    sent.payload = Bytes(first, bytes.size());
    sent.crc = crc32c(sent.payload);
    return sent;
  }

  static void move_to(BufferPool& pool, Frame& frame) {
    auto buffer = pool.acquire(frame.payload.size(), std::chrono::minutes(2));
    ASSERT_TRUE(buffer.ok()) << buffer.error().message();
    std::memcpy((*buffer)->bytes().data(), frame.payload.data(), frame.payload.size());
    frame.payload = (*buffer)->bytes();
    frame.capacity = (*buffer)->capacity();
    frame.owner = std::move(*buffer);
  }

  const Drawn& drawn_;
  std::vector<std::vector<std::byte>> plain_;
  std::vector<Sent> sent_;
};

}  // namespace penstock::recorder::sizes
