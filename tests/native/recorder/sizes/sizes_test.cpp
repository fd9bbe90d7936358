/// Recordings of sizes that nobody chose, at full rate: each closes without a problem, and plain HDF5 reads the pixels
/// that were sent.
///
/// PENSTOCK_TEST_SEED=N records drawing N alone, which is the number that a failure prints. PENSTOCK_TEST_SECONDS draws
/// for so long, among them large frames; without it, small ones for a second.

#include <cstdlib>
#include <random>
#include <thread>

#include "../recorder_test.hpp"
#include "images.hpp"
#include "stored_chunks.hpp"

namespace penstock::recorder::sizes {
namespace {

hid_t native_type(ElementType type) {
  switch (type) {
    case ElementType::u8: return H5T_NATIVE_UINT8;
    case ElementType::u16: return H5T_NATIVE_UINT16;
    case ElementType::u32: return H5T_NATIVE_UINT32;
    case ElementType::u64: return H5T_NATIVE_UINT64;
    case ElementType::i8: return H5T_NATIVE_INT8;
    case ElementType::i16: return H5T_NATIVE_INT16;
    case ElementType::i32: return H5T_NATIVE_INT32;
    case ElementType::i64: return H5T_NATIVE_INT64;
    case ElementType::f32: return H5T_NATIVE_FLOAT;
    case ElementType::f64: return H5T_NATIVE_DOUBLE;
  }
  return -1;
}

/// Compares the chunks of a channel with the images that were sent.
class Comparison {
 public:
  Comparison(const Drawn& drawn, const Images& images) : drawn_(drawn), images_(images) {
    std::copy(drawn.shape.rbegin(), drawn.shape.rend(), part_.rbegin());
    frame_ = {part_[0], part_[1] * drawn.grid_rows, part_[2] * drawn.grid_columns};
  }

  /// The frames from `first_frame` on are in this dataset.
  void expect_same(const std::string& file, std::uint64_t first_frame, std::uint64_t frames, std::uint64_t channel) {
    const auto dataset = channel == 0 ? std::string("data") : fmt::format("channel_{}_{}", channel, channel);
    StoredFrames stored(file, "/entry/data/" + dataset, native_type(drawn_.type));
    ASSERT_EQ(stored.frames(), frames);
    ASSERT_EQ(stored.frame(), frame_);
    std::uint64_t different = 0;
    const bool is_read = stored.each_chunk([&](const StoredChunk& chunk) {
      for (std::uint64_t i = 0; i < chunk.frames && chunk.frame + i < frames; ++i)
        different += !is_same(chunk, i, first_frame + chunk.frame + i, channel);
    });
    EXPECT_TRUE(is_read) << "a chunk is missing";
    EXPECT_EQ(different, 0u) << "chunks of " << dataset;
  }

 private:
  bool is_same(const StoredChunk& chunk, std::uint64_t i, std::uint64_t number, std::uint64_t channel) const {
    const auto element_bytes = size_of(drawn_.type);
    const auto end = [&](std::size_t axis) { return std::min(chunk.first[axis] + chunk.extent[axis], frame_[axis]); };
    const auto row_bytes = (end(2) - chunk.first[2]) * element_bytes;
    for (auto plane = chunk.first[0]; plane < end(0); ++plane)
      for (auto row = chunk.first[1]; row < end(1); ++row) {
        const auto in_chunk =
            ((i * chunk.extent[0] + plane - chunk.first[0]) * chunk.extent[1] + row - chunk.first[1]) *
            chunk.extent[2] * element_bytes;
        const auto element = row / part_[1] * drawn_.grid_columns + chunk.first[2] / part_[2];
        const auto in_part =
            ((plane * part_[1] + row % part_[1]) * part_[2] + chunk.first[2] % part_[2]) * element_bytes;
        const auto expected = images_.plain(number, static_cast<std::uint32_t>(element), channel);
        if (std::memcmp(chunk.pixels.data() + in_chunk, expected.data() + in_part, row_bytes) != 0) return false;
      }
    return true;
  }

  const Drawn& drawn_;
  const Images& images_;
  Extent part_{1, 1, 1};
  Extent frame_{1, 1, 1};
};

class SizesTest : public RecorderTest {
 protected:
  void record_and_compare(std::uint64_t number) {
    const auto drawn = Drawing(number).draw();
    SCOPED_TRACE(drawn.text());
    const Images images(drawn);
    renew_events();
    const auto config = Config::from_json(drawn.job(folder_));
    ASSERT_TRUE(config.ok()) << config.error().message();
    record(drawn, images, *config);
    if (HasFailure()) return;
    Comparison comparison(drawn, images);
    for (std::uint64_t channel = 0; channel < drawn.channels; ++channel) compare(drawn, comparison, channel);
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) std::filesystem::remove(entry.path());
  }

 private:
  /// Each recording is asked for its own alone.
  void renew_events() {
    events_.reset();
    std::fclose(out_);
    out_ = std::tmpfile();
    events_ = std::make_unique<Events>(out_);
  }

  static Series series_of(const Drawn& drawn, std::uint32_t element) {
    Series series;
    series.id = 1;
    series.unique_id = "s1";
    series.frames = drawn.announced ? drawn.frames : 0;
    for (std::uint64_t channel = 0; channel < drawn.channels; ++channel)
      series.channels.push_back(std::to_string(channel));
    series.frame = {drawn.type, drawn.shape};
    if (drawn.elements() > 1) series.element = ElementPlace{drawn.grid_rows, drawn.grid_columns, element};
    return series;
  }

  void record(const Drawn& drawn, const Images& images, const Config& config) {
    Recorder recorder(posix_env(), config, *events_, team_);
    const auto started = recorder.start();
    ASSERT_TRUE(started.ok()) << started.error().message();
    std::vector<std::shared_ptr<Acks>> sessions;
    for (std::uint32_t element = 0; element < drawn.elements(); ++element) {
      sessions.push_back(std::make_shared<Acks>());
      const auto begun = recorder.begin(series_of(drawn, element), sessions.back());
      ASSERT_TRUE(begun.ok()) << begun.error().message();
    }
    std::vector<std::thread> senders;
    for (std::uint32_t element = 0; element < drawn.elements(); ++element)
      for (unsigned sender = 0; sender < drawn.senders; ++sender)
        senders.emplace_back([&, element, sender] {
          send(recorder, drawn, images, element, sender, drawn.senders == 1 ? sessions[element] : nullptr);
        });
    for (auto& sender : senders) sender.join();
    for (std::uint32_t element = 0; element < drawn.elements(); ++element) {
      SeriesEnd end{1, "s1"};
      if (drawn.elements() > 1) end.element = element;
      EXPECT_TRUE(recorder.end(end).ok());
    }
    EXPECT_TRUE(recorder.wait_for_limit(120s));
    recorder.stop();
    EXPECT_EQ(recorder.failed_series() + recorder.refused_series(), 0u);
    const auto ended = event("series_end");
    ASSERT_TRUE(ended.is_object()) << "no series_end";
    EXPECT_TRUE(ended["problem"].is_null()) << ended.dump();
    EXPECT_EQ(ended["lost"], 0) << ended.dump();
    for (const auto& session : sessions) {
      EXPECT_EQ(session->problem, "");
      EXPECT_EQ(session->safe, drawn.senders == 1 ? drawn.frames : 0);
    }
  }

  static void send(Recorder& recorder, const Drawn& drawn, const Images& images, std::uint32_t element, unsigned sender,
                   const std::shared_ptr<Acks>& session) {
    for (std::uint64_t number = sender; number < drawn.frames; number += drawn.senders)
      for (std::uint64_t channel = 0; channel < drawn.channels; ++channel) {
        auto frame = images.frame(number, element, channel, recorder.pool());
        frame.series_unique_id = "s1";
        frame.received_ns = realtime_ns();
        frame.session = session;
        const auto put = recorder.put(std::move(frame));
        EXPECT_TRUE(put.ok()) << put.error().message();
      }
  }

  void compare(const Drawn& drawn, Comparison& comparison, std::uint64_t channel) const {
    EXPECT_EQ(states(), std::vector<std::uint8_t>(drawn.frames, 1));
    const auto a_file = drawn.frames_a_file > 0 ? drawn.frames_a_file : drawn.frames;
    for (std::uint64_t first = 0; first < drawn.frames; first += a_file) {
      const auto* pattern = drawn.frames_a_file > 0 ? "s1_member_{}.h5" : "s1.h5";
      const auto file = fmt::format(fmt::runtime(pattern), first / a_file);
      comparison.expect_same(folder_ / file, first, std::min(a_file, drawn.frames - first), channel);
    }
  }
};

const char* given(const char* name) { return std::getenv(name); }

TEST_F(SizesTest, AnySizeIsRecordedWithoutAProblem) {
  if (const auto* seed = given("PENSTOCK_TEST_SEED")) return record_and_compare(std::stoull(seed));
  const auto* seconds = given("PENSTOCK_TEST_SECONDS");
  const auto end = std::chrono::steady_clock::now() +
                   (seconds == nullptr ? 1000ms : std::chrono::milliseconds(1000 * std::stoull(seconds)));
  int recorded = 0;
  for (std::uint64_t number = std::random_device()(); std::chrono::steady_clock::now() < end; ++number) {
    if (seconds == nullptr && Drawing::is_large(number)) continue;
    record_and_compare(number);
    if (HasFailure()) break;
    ++recorded;
  }
  RecordProperty("recorded", recorded);
  std::printf("%d recordings\n", recorded);
}

}  // namespace
}  // namespace penstock::recorder::sizes
