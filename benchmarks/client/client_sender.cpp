/// The C++ client as fast as it goes: client_sender ADDRESS COLUMNS FRAMES, of rows of 512 pixels of 16 bit. Prints the
/// seconds from the first frame until the recorder has closed the series.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "client/penstock.hpp"

int main(int argc, char** argv) {
  using namespace penstock::client;
  if (argc != 4) return 2;
  const std::uint64_t columns = std::strtoull(argv[2], nullptr, 10);
  const std::uint64_t frames = std::strtoull(argv[3], nullptr, 10);
  // As many as do not fit into the caches together.
  std::vector<std::shared_ptr<const std::vector<std::uint16_t>>> images;
  for (std::uint16_t i = 0; i < 16; ++i)
    images.push_back(std::make_shared<const std::vector<std::uint16_t>>(512 * columns, i));
  try {
    Series series({argv[1], "cpp-client", type_of<std::uint16_t>(), {512, columns}});
    const auto begun = std::chrono::steady_clock::now();
    for (std::uint64_t number = 0; number < frames; ++number) {
      const auto& image = images[number % images.size()];
      series.send(View(*image), image);
    }
    series.end();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    std::printf("{\"seconds\": %.6f, \"acknowledged\": %llu}\n", took.count(),
                static_cast<unsigned long long>(series.acknowledged()));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "client_sender: %s\n", error.what());
    return 1;
  }
  return 0;
}
