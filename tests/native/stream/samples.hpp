/// Series, frames and images that the tests of this folder send.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stream/messages/message.hpp"

namespace penstock::stream::test {

inline Series sample_series(const std::string& unique_id, std::uint64_t rows = 16, std::uint64_t columns = 8) {
  Series series;
  series.id = 7;
  series.unique_id = unique_id;
  series.arm_date = "2026-11-20T10:00:00Z";
  series.frames = 100;
  series.channels = {"threshold_1"};
  series.frame = {ElementType::u16, {rows, columns}};
  return series;
}

/// Pixels that tell which frame they belong to.
inline std::vector<std::byte> sample_pixels(std::uint64_t number, std::size_t size) {
  std::vector<std::byte> pixels(size);
  for (std::size_t i = 0; i < size; ++i) pixels[i] = static_cast<std::byte>(number * 31 + i * 7 + (i >> 8));
  return pixels;
}

inline Frame sample_frame(const Series& series, std::uint64_t number) {
  Frame frame;
  frame.number = FrameNumber{number};
  frame.spec = series.frame;
  auto pixels = std::make_shared<std::vector<std::byte>>(
      sample_pixels(number, series.frame.bytes(std::uint64_t{1} << 30).value()));
  frame.payload = *pixels;
  frame.owner = pixels;
  return frame;
}

inline ImageMessage sample_image(const Series& series, std::uint64_t number, Bytes payload) {
  ImageMessage image;
  image.series_id = series.id;
  image.series_unique_id = series.unique_id;
  image.image_id = number;
  image.channels.push_back({series.channels.front(), series.frame, Encoding::none, payload});
  return image;
}

}  // namespace penstock::stream::test
