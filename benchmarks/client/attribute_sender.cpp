/// The C++ client with frames that come compressed and bring attributes along:
/// attribute_sender ADDRESS FRAMES ATTRIBUTES RATE. Frames of 512 × 1024 pixels of 16 bit, bitshuffle-LZ4; RATE 0 is as
/// fast as it goes. Prints the seconds from the first frame until the recorder has closed the series, how much
/// the pixels were compressed, and by how much the latest frame was late.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "base/time/pacing.hpp"
#include "client/penstock.hpp"
#include "codec/codec.hpp"

namespace {

using namespace penstock;

constexpr std::size_t rows = 512, columns = 1024, distinct = 64;

using Encoded = std::shared_ptr<const std::vector<std::byte>>;

/// Few counts a pixel, as of weak diffraction.
Encoded image(unsigned seed) {
  std::mt19937 random(seed);
  std::poisson_distribution<unsigned> counts(0.03);
  std::vector<std::uint16_t> pixels(rows * columns);
  for (auto& pixel : pixels) pixel = static_cast<std::uint16_t>(counts(random));
  const CodecSpec spec{.encoding = Encoding::bitshuffle_lz4};
  const Bytes raw(reinterpret_cast<const std::byte*>(pixels.data()), pixels.size() * sizeof(std::uint16_t));
  std::vector<std::byte> encoded(encoded_bound(spec, raw.size(), sizeof(std::uint16_t)));
  CodecScratch scratch;
  const auto bytes = encode(spec, raw, sizeof(std::uint16_t), encoded, scratch);
  if (!bytes.ok()) throw std::runtime_error(bytes.error().message());
  encoded.resize(*bytes);
  return std::make_shared<const std::vector<std::byte>>(std::move(encoded));
}

/// As EPICS attributes are: numbers of both kinds that change from frame to frame.
void set_attributes(client::Map& map, const std::vector<std::string>& names, std::uint64_t frame) {
  map.clear();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i % 2 == 0)
      map.set(names[i], static_cast<double>(frame) * 0.001 + static_cast<double>(i));
    else
      map.set(names[i], static_cast<std::int64_t>(frame * (i + 1)));
  }
}

int run(char** argv) {
  const std::uint64_t frames = std::strtoull(argv[2], nullptr, 10);
  const std::uint64_t attributes = std::strtoull(argv[3], nullptr, 10);
  std::vector<Encoded> images;
  std::size_t encoded_bytes = 0;
  for (unsigned i = 0; i < distinct; ++i) encoded_bytes += images.emplace_back(image(i))->size();
  std::vector<std::string> names;
  for (std::uint64_t i = 0; i < attributes; ++i) names.push_back("attribute_" + std::to_string(i));

  client::Map map;
  client::FrameInfo info;
  if (attributes > 0) info.metadata = &map;
  client::Series series({argv[1], "attributes", client::type_of<std::uint16_t>(), {rows, columns}, frames});
  Pacer pacer(std::strtod(argv[4], nullptr), monotonic_pace_clock());
  pacer.start();
  for (std::uint64_t number = 0; number < frames; ++number) {
    set_attributes(map, names, number);
    pacer.wait_for(number, [] { return false; });
    const auto& encoded = images[number % distinct];
    series.send({{{}, encoded->data(), encoded->size(), PENSTOCK_BSLZ4}}, encoded, info);
  }
  series.end();
  const auto took_ns = monotonic_pace_clock().now_ns() - pacer.start_ns();
  std::printf(
      "{\"seconds\": %.6f, \"acknowledged\": %llu, \"ratio\": %.2f, \"late_max_ms\": %.3f}\n",
      static_cast<double>(took_ns) * 1e-9, static_cast<unsigned long long>(series.acknowledged()),
      static_cast<double>(distinct * rows * columns * sizeof(std::uint16_t)) / static_cast<double>(encoded_bytes),
      static_cast<double>(pacer.stats().late_max_ns) * 1e-6);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  try {
    return run(argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attribute_sender: %s\n", error.what());
    return 1;
  }
}
