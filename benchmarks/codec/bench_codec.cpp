/// Times the codec on the frames of a raw file, in one or several threads, and prints one JSON
/// document: a driver interleaves it with other codecs.
///
/// Each repetition does all frames `passes` times; threads take the next frame from one counter.
/// Memory is touched, and everything run once, before the clock starts.

#include <CLI/CLI.hpp>
#include <atomic>
#include <barrier>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/time/clock.hpp"
#include "codec/codec.hpp"

namespace penstock {
namespace {

struct Options {
  std::string raw;
  std::size_t element_bytes = 2;
  std::size_t frame_elements = 0;
  std::string encoding = "bslz4";
  int level = 0;
  std::uint32_t block_bytes = 0;
  unsigned threads = 1;
  unsigned repeat = 5;
  unsigned passes = 1;
  std::string mode = "compress";
};

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app("Times the codec on the frames of a raw file.");
  app.add_option("--raw", options.raw, "file of frames, one after another")->required()->check(CLI::ExistingFile);
  app.add_option("--element-bytes", options.element_bytes)->required()->check(CLI::IsMember({1, 2, 4, 8}));
  app.add_option("--frame-elements", options.frame_elements, "elements of a frame")
      ->required()
      ->check(CLI::PositiveNumber);
  app.add_option("--encoding", options.encoding)
      ->check(CLI::IsMember({"none", "bslz4", "bszstd", "lz4", "zstd", "deflate"}));
  app.add_option("--level", options.level);
  app.add_option("--block-bytes", options.block_bytes);
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 256));
  app.add_option("--repeat", options.repeat)->check(CLI::PositiveNumber);
  app.add_option("--passes", options.passes, "times that a repetition does all frames")->check(CLI::PositiveNumber);
  app.add_option("--mode", options.mode)->check(CLI::IsMember({"compress", "decompress", "check"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  return options;
}

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        spec_{.encoding = *encoding_of(options.encoding), .level = options.level, .block_bytes = options.block_bytes},
        frame_bytes_(options.frame_elements * options.element_bytes) {}

  Result<void> prepare() {
    std::ifstream file(options_.raw, std::ios::binary);
    std::vector<std::byte> frame(frame_bytes_);
    while (file.read(reinterpret_cast<char*>(frame.data()), static_cast<std::streamsize>(frame_bytes_)))
      raw_.push_back(frame);
    if (raw_.empty())
      return make_error(Errc::truncated, "{} holds no whole frame of {} bytes", options_.raw, frame_bytes_);
    const std::size_t bound = encoded_bound(spec_, frame_bytes_, options_.element_bytes);
    encoded_.assign(raw_.size(), std::vector<std::byte>(bound));
    encoded_bytes_.assign(raw_.size(), 0);
    decoded_.assign(raw_.size(), std::vector<std::byte>(frame_bytes_));
    CodecScratch scratch;
    for (std::size_t i = 0; i < raw_.size(); ++i) {
      PEN_ASSIGN(encoded_bytes_[i], encode(spec_, raw_[i], options_.element_bytes, encoded_[i], scratch));
      PEN_TRY(decode(spec_.encoding, chunk(i), options_.element_bytes, decoded_[i], scratch));
      if (decoded_[i] != raw_[i]) return make_error(Errc::internal, "frame {} does not come back", i);
    }
    return {};
  }

  /// Seconds of each repetition, from the common start to the end of the last thread.
  std::vector<double> run() {
    std::vector<double> seconds;
    std::int64_t begin_ns = 0;
    std::atomic<std::size_t> next = 0;
    std::barrier start(options_.threads, [&]() noexcept {
      next = 0;
      begin_ns = monotonic_ns();
    });
    std::barrier end(options_.threads,
                     [&]() noexcept { seconds.push_back(static_cast<double>(monotonic_ns() - begin_ns) * 1e-9); });
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < options_.threads; ++t)
      threads.emplace_back([&] {
        CodecScratch scratch;
        for (unsigned repetition = 0; repetition < options_.repeat; ++repetition) {
          start.arrive_and_wait();
          while (true) {
            const std::size_t i = next++;
            if (i >= raw_.size() * options_.passes) break;
            if (!one(i % raw_.size(), scratch).ok()) failed_ = true;
          }
          end.arrive_and_wait();
        }
      });
    threads.clear();
    return seconds;
  }

  nlohmann::json report(const std::vector<double>& seconds) const {
    std::size_t encoded = 0;
    for (const std::size_t bytes : encoded_bytes_) encoded += bytes;
    return {{"encoding", options_.encoding},
            {"mode", options_.mode},
            {"threads", options_.threads},
            {"element_bytes", options_.element_bytes},
            {"frames", raw_.size()},
            {"raw_bytes", raw_.size() * frame_bytes_},
            {"encoded_bytes", encoded},
            {"bytes_per_repetition", raw_.size() * frame_bytes_ * options_.passes},
            {"seconds", seconds}};
  }

  bool failed() const { return failed_; }

 private:
  Bytes chunk(std::size_t i) const { return Bytes(encoded_[i]).first(encoded_bytes_[i]); }

  Result<void> one(std::size_t i, CodecScratch& scratch) {
    if (options_.mode == "check") return check_framing(spec_.encoding, chunk(i), options_.element_bytes, frame_bytes_);
    if (options_.mode == "decompress")
      return decode(spec_.encoding, chunk(i), options_.element_bytes, decoded_[i], scratch);
    PEN_TRY(encode(spec_, raw_[i], options_.element_bytes, encoded_[i], scratch));
    return {};
  }

  const Options options_;
  const CodecSpec spec_;
  const std::size_t frame_bytes_;
  std::vector<std::vector<std::byte>> raw_;
  std::vector<std::vector<std::byte>> encoded_;
  std::vector<std::size_t> encoded_bytes_;
  std::vector<std::vector<std::byte>> decoded_;
  std::atomic<bool> failed_ = false;
};

int run(int argc, char** argv) {
  Bench bench(parse(argc, argv));
  if (const auto ready = bench.prepare(); !ready.ok()) {
    std::fprintf(stderr, "bench_codec: %s\n", ready.error().message().c_str());
    return 1;
  }
  const auto seconds = bench.run();
  std::printf("%s\n", bench.report(seconds).dump().c_str());
  return bench.failed() ? 1 : 0;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) { return penstock::run(argc, argv); }
