/// The recorder without a network: frames go straight into its sink, files are read with plain HDF5.

#include "recorder/service/recorder.hpp"

#include <gtest/gtest.h>
#include <hdf5.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "../support/without_root.hpp"
#include "base/time/clock.hpp"
#include "recorder_test.hpp"

namespace penstock::recorder {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

TEST_F(RecorderTest, FramesInAnyOrderLandInTheirPlaces) {
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(5), nullptr).ok());
  for (std::uint64_t n : {4, 0, 2, 1, 3}) ASSERT_TRUE(recorder->put(frame(n)).ok());
  finish(*recorder);
  const auto read = pixels();
  ASSERT_EQ(read.size(), 5 * rows * columns);
  for (std::uint64_t n = 0; n < 5; ++n)
    for (std::uint64_t i = 0; i < rows * columns; ++i)
      ASSERT_EQ(read[n * rows * columns + i], static_cast<std::uint16_t>(n * 1000 + i)) << n << " " << i;
  EXPECT_EQ(states(), (std::vector<std::uint8_t>{1, 1, 1, 1, 1}));
  EXPECT_EQ(event("series_end")["frames_received"], 5);
  EXPECT_EQ(event("series_end")["late"], 4);
}

/// The right to write is there for root, also in file systems that have no files of users.
TEST_F(RecorderTest, AFolderThatTakesNoFilesIsRefusedAtTheStart) {
  config_.folder = "/proc";
  Recorder recorder(posix_env(), config_, *events_, team_);
  const auto started = recorder.start();
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.error().message().find("cannot create files in /proc"), std::string::npos)
      << started.error().message();
  config_.folder = folder_;
  Recorder another(posix_env(), config_, *events_, team_);
  ASSERT_TRUE(another.start().ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder_)) << "nothing stays of the trial";
}

TEST_F(RecorderTest, MissingFramesReadAsFillAndStandInTheLedger) {
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(4), nullptr).ok());
  ASSERT_TRUE(recorder->put(frame(0)).ok());
  ASSERT_TRUE(recorder->put(frame(2)).ok());
  ASSERT_TRUE(recorder->put(frame(2)).ok()) << "a duplicate is no error";
  finish(*recorder);
  const auto read = pixels();
  ASSERT_EQ(read.size(), 4 * rows * columns);
  EXPECT_EQ(read[1 * rows * columns], 0xFFFF);
  EXPECT_EQ(read[2 * rows * columns], 2000);
  EXPECT_EQ(read[3 * rows * columns], 0xFFFF);
  EXPECT_EQ(states(), (std::vector<std::uint8_t>{1, 0, 1, 0}));
  const auto end = event("series_end");
  EXPECT_EQ(end["missing"], 2);
  EXPECT_EQ(end["duplicate"], 1);
  EXPECT_TRUE(end["problem"].is_null());
}

TEST_F(RecorderTest, OpenEndedSeriesEndsWithItsEndMessage) {
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(0), nullptr).ok());
  for (std::uint64_t n = 0; n < 7; ++n) ASSERT_TRUE(recorder->put(frame(n)).ok());
  finish(*recorder);
  EXPECT_EQ(pixels().size(), 7 * rows * columns);
}

TEST_F(RecorderTest, BadFramesAreRefusedWithFieldAndValueAndNothingElseSuffers) {
  auto recorder = start();
  EXPECT_EQ(recorder->put(frame(0)).error().code(), Errc::out_of_order) << "no start yet";
  ASSERT_TRUE(recorder->begin(series(3), nullptr).ok());
  EXPECT_EQ(recorder->begin(series(3), nullptr).error().code(), Errc::out_of_order) << "a second start";
  auto beyond = recorder->put(frame(3));
  ASSERT_FALSE(beyond.ok());
  EXPECT_NE(beyond.error().message().find("image_id is 3"), std::string::npos) << beyond.error().message();
  auto wrong = frame(1);
  wrong.spec.shape = {rows, columns + 1};
  EXPECT_EQ(recorder->put(std::move(wrong)).error().code(), Errc::mismatch);
  auto shorter = frame(1);
  shorter.payload = shorter.payload.first(10);
  EXPECT_EQ(recorder->put(std::move(shorter)).error().code(), Errc::mismatch);
  auto liar = frame(1);
  liar.encoding = Encoding::bitshuffle_lz4;
  EXPECT_FALSE(recorder->put(std::move(liar)).ok()) << "raw pixels called compressed";
  auto other_channel = frame(1);
  other_channel.channel = 9;
  EXPECT_FALSE(recorder->put(std::move(other_channel)).ok());
  ASSERT_TRUE(recorder->put(frame(0)).ok());
  ASSERT_TRUE(recorder->put(frame(2)).ok());
  EXPECT_EQ(recorder->end({1, "unknown"}).error().code(), Errc::out_of_order);
  finish(*recorder);
  EXPECT_EQ(states(), (std::vector<std::uint8_t>{1, 2, 1})) << "the frame that lied is marked as damaged";
}

TEST_F(RecorderTest, DroppedAndDamagedFramesStandInTheLedgerAndLiesAboutTheirNumberDoNot) {
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(0), nullptr).ok());
  ASSERT_TRUE(recorder->put(frame(0)).ok());
  recorder->drop("s1", FrameNumber{1});
  ASSERT_TRUE(recorder->put(frame(3)).ok());
  recorder->damage("s1", FrameNumber{2});
  recorder->damage("s1", FrameNumber{900'000});
  recorder->drop("s1", FrameNumber{std::uint64_t{1} << 62});
  recorder->damage("s1", FrameNumber{std::numeric_limits<std::uint64_t>::max()});
  recorder->drop("unknown", FrameNumber{0});
  finish(*recorder);
  EXPECT_EQ(states(), (std::vector<std::uint8_t>{1, 3, 2, 1}));
  const auto end = event("series_end");
  EXPECT_EQ(end["dropped"], 1);
  EXPECT_EQ(end["damaged"], 1);
}

TEST_F(RecorderTest, DamagedFramesBehindTheLastGoodOneAreInTheLedger) {
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(0), nullptr).ok());
  ASSERT_TRUE(recorder->put(frame(0)).ok());
  recorder->damage("s1", FrameNumber{1});
  recorder->damage("s1", FrameNumber{2});
  finish(*recorder);
  EXPECT_EQ(states(), (std::vector<std::uint8_t>{1, 2, 2}));
  EXPECT_EQ(event("series_end")["damaged"], 2);
}

TEST_F(RecorderTest, ASegmentWorthAWriteDoesNotWaitForMoreFrames) {
  // Without a recorder, and so without its timer: nothing else would write these segments.
  auto one = series(2);
  auto small = SeriesFile::create(posix_env(), config_, team_, one, folder_ / "small.h5").value();
  one.frame = {ElementType::u16, {1024, 1024}};
  auto large = SeriesFile::create(posix_env(), config_, team_, one, folder_ / "large.h5").value();
  ChunkScratch scratch;
  const auto put = [&](SeriesFile& file, const ArraySpec& spec) {
    auto pixels = std::make_shared<std::vector<std::byte>>(spec.bytes(1 << 30).value());
    Frame frame;
    frame.series_unique_id = "s1";
    frame.spec = spec;
    frame.payload = *pixels;
    frame.owner = pixels;
    file.encode(*file.admit(std::move(frame)).value(), 0, scratch);
    file.flush_if_worthwhile(0);
  };
  put(*small, {ElementType::u16, {rows, columns}});
  put(*large, one.frame);
  for (int wait = 0; wait < 10'000 && large->stats().frames_written == 0; ++wait) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(large->stats().frames_written, 1u);
  EXPECT_EQ(small->stats().store.written_bytes, 0u) << "a kilobyte is worth no write of its own";
  EXPECT_TRUE(small->close(series::EndedBy::message).ok());
  EXPECT_TRUE(large->close(series::EndedBy::message).ok());
}

TEST_F(RecorderTest, FramesOfAThreadThatIsNeverIdleAreWrittenInTime) {
  constexpr std::uint64_t frames = 40;
  config_.codec = {Encoding::deflate, 9};
  auto one = series(frames);
  one.frame = {ElementType::u16, {1024, 1024}};
  auto file = SeriesFile::create(posix_env(), config_, team_, one, folder_ / "busy.h5").value();
  const auto pixels = std::make_shared<std::vector<std::uint16_t>>(1u << 20);
  std::minstd_rand random(1);
  for (auto& pixel : *pixels) pixel = static_cast<std::uint16_t>(random() & 0xff);
  const auto encode = [&](std::uint64_t number, ChunkScratch& scratch) {
    Frame frame;
    frame.series_unique_id = "s1";
    frame.number = FrameNumber{number};
    frame.spec = one.frame;
    frame.payload = std::as_bytes(std::span(*pixels));
    frame.owner = pixels;
    file->encode(*file->admit(std::move(frame)).value(), 0, scratch);
  };
  std::atomic<std::uint64_t> encoded = 0;
  std::atomic<bool> is_tended = false;
  std::jthread worker([&] {
    ChunkScratch scratch;
    for (std::uint64_t number = 0; number < frames && !is_tended; ++number) {
      encode(number, scratch);
      ++encoded;
    }
  });
  while (encoded == 0) std::this_thread::sleep_for(1ms);
  // The worker has a frame in hand at each of these, but for the moments between two frames.
  for (int round = 0; round < 3; ++round, std::this_thread::sleep_for(1ms)) file->tend(monotonic_ns(), 0);
  is_tended = true;
  worker.join();
  for (int wait = 0; wait < 10'000 && file->stats().frames_written == 0; ++wait) std::this_thread::sleep_for(1ms);
  EXPECT_GE(file->stats().frames_written, 1u) << "nothing else writes it until a segment of 8 MiB is full";
  EXPECT_TRUE(file->close(series::EndedBy::message).ok());
}

TEST_F(RecorderTest, RefusesToOverwriteUnlessTold) {
  std::ofstream(folder_ / "s1.h5") << "precious";
  {
    auto recorder = start();
    auto begun = recorder->begin(series(1), std::make_shared<Acks>());  // whoever can be told is refused
    ASSERT_FALSE(begun.ok());
    EXPECT_EQ(begun.error().code(), Errc::already_exists);
  }
  std::ifstream file(folder_ / "s1.h5");
  std::string word;
  file >> word;
  EXPECT_EQ(word, "precious");
  config_.store.overwrite = true;
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(1), nullptr).ok());
  ASSERT_TRUE(recorder->put(frame(0)).ok());
  finish(*recorder);
  EXPECT_EQ(pixels().size(), rows * columns);
}

TEST_F(RecorderTest, TheFirstFrameDecidesFilterAndMetadata) {
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(2), nullptr).ok());
  for (std::uint64_t n = 0; n < 2; ++n) {
    auto with_metadata = frame(n);
    with_metadata.metadata = {{"omega", 0.5 * static_cast<double>(n)}};
    ASSERT_TRUE(recorder->put(std::move(with_metadata)).ok());
  }
  finish(*recorder);
  EXPECT_EQ(read<double>("s1.h5", "/entry/metadata/omega", H5T_NATIVE_DOUBLE), (std::vector<double>{0.0, 0.5}));
}

TEST_F(RecorderTest, TextOfFramesIsAColumnAndSurvivesAMissingFrame) {
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(3), nullptr).ok());
  for (std::uint64_t n : {0, 2}) {
    auto with_metadata = frame(n);
    with_metadata.metadata = {{"note", "frame " + std::to_string(n) + " \u00b5"}, {"x", 1.5}};
    ASSERT_TRUE(recorder->put(std::move(with_metadata)).ok());
  }
  finish(*recorder);
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, 64);
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  H5Tset_cset(type, H5T_CSET_UTF8);
  const auto notes = read<std::array<char, 64>>("s1.h5", "/entry/metadata/note", type);
  H5Tclose(type);
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_STREQ(notes[0].data(), "frame 0 \u00b5");
  EXPECT_STREQ(notes[1].data(), "");
  EXPECT_STREQ(notes[2].data(), "frame 2 \u00b5");
  EXPECT_TRUE(std::isnan(read<double>("s1.h5", "/entry/metadata/x", H5T_NATIVE_DOUBLE)[1]));
}

TEST_F(RecorderTest, SessionsHearWhatIsSafeAndThatTheFileIsClosed) {
  auto recorder = start();
  auto acks = std::make_shared<Acks>();
  ASSERT_TRUE(recorder->begin(series(50), acks).ok());
  for (std::uint64_t n = 0; n < 50; ++n) {
    auto mine = frame(n);
    mine.session = acks;
    ASSERT_TRUE(recorder->put(std::move(mine)).ok());
  }
  finish(*recorder);
  EXPECT_EQ(acks->safe, 50u);
  EXPECT_TRUE(acks->is_closed);
  EXPECT_EQ(acks->problem, "");
}

TEST_F(RecorderTest, StoppingCompletesOpenFiles) {
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(100), nullptr).ok());
  for (std::uint64_t n = 0; n < 10; ++n) ASSERT_TRUE(recorder->put(frame(n)).ok());
  recorder->stop();
  EXPECT_EQ(pixels().size(), 100 * rows * columns);
  EXPECT_EQ(event("series_end")["missing"], 90);
}

TEST_F(RecorderTest, SeveralSeriesAtOnceGoIntoTheirOwnFiles) {
  config_.series_limit = 3;
  auto recorder = start();
  for (const auto* id : {"a", "b", "c"}) ASSERT_TRUE(recorder->begin(series(20, id), nullptr).ok());
  for (std::uint64_t n = 0; n < 20; ++n)
    for (const auto* id : {"a", "b", "c"}) ASSERT_TRUE(recorder->put(frame(n, id)).ok());
  for (const auto* id : {"a", "b", "c"}) ASSERT_TRUE(recorder->end({1, id}).ok());
  ASSERT_TRUE(recorder->wait_for_limit(60s));
  recorder->stop();
  for (const auto* file : {"a.h5", "b.h5", "c.h5"}) EXPECT_EQ(pixels(file).at(19 * rows * columns), 19000);
}

TEST_F(RecorderTest, AResumedStartReplacesNothing) {
  config_.store.overwrite = true;
  std::ofstream(folder_ / "s1.h5") << "the only copy";
  auto recorder = start();
  auto resumed = series(1);
  resumed.resumed = true;
  auto begun = recorder->begin(std::move(resumed), nullptr);
  ASSERT_FALSE(begun.ok());
  EXPECT_EQ(begun.error().code(), Errc::already_exists);
  EXPECT_EQ(std::filesystem::file_size(folder_ / "s1.h5"), 13u);
}

TEST_F(RecorderTest, ARemovedOrReplacedFileIsAProblemAndItsReplacementIsLeftAlone) {
  for (const bool replaced : {false, true})
    for (const bool before_the_first_frame : {false, true}) {
      std::filesystem::remove(folder_ / "s1.h5");
      config_.end_timeout_s = before_the_first_frame ? 0.2 : 60;  // its only frame must not complete it
      auto recorder = start();
      auto acks = std::make_shared<Acks>();
      ASSERT_TRUE(recorder->begin(series(1), acks).ok());
      const auto interfere = [&] {
        std::filesystem::remove(folder_ / "s1.h5");
        if (replaced) std::ofstream(folder_ / "s1.h5") << "precious";
      };
      auto with_metadata = frame(0);  // the first frame makes the file anew
      with_metadata.metadata = {{"omega", 0.5}};
      if (before_the_first_frame) interfere();
      (void)recorder->put(std::move(with_metadata));
      if (!before_the_first_frame) interfere();
      finish(*recorder, "s1", true);
      EXPECT_NE(acks->problem.find("removed or replaced"), std::string::npos) << acks->problem;
      EXPECT_EQ(recorder->failed_series(), 1u);
      if (replaced) {
        EXPECT_EQ(std::filesystem::file_size(folder_ / "s1.h5"), 8u);
      }
    }
}

TEST_F(RecorderTest, AFileThatSomebodyMovesIsRecordedToItsEnd) {
  auto recorder = start();
  auto acks = std::make_shared<Acks>();
  ASSERT_TRUE(recorder->begin(series(3), acks).ok());
  const auto put = [&](std::uint64_t number) {
    auto of_client = frame(number);
    of_client.session = acks;
    ASSERT_TRUE(recorder->put(std::move(of_client)).ok());
    for (int i = 0; i < 6000 && acks->safe <= number; ++i) std::this_thread::sleep_for(10ms);
    ASSERT_GT(acks->safe, number);
  };
  recorder->expect("s1", acks);
  put(0);
  std::filesystem::rename(folder_ / "s1.h5", folder_ / "moved.h5");
  std::this_thread::sleep_for(1100ms);  // it is looked for once a second
  put(1);
  put(2);
  finish(*recorder);
  EXPECT_EQ(acks->problem, "");
  EXPECT_EQ(recorder->failed_series(), 0u);
  EXPECT_EQ(states("moved.h5"), (std::vector<std::uint8_t>{1, 1, 1}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "s1.h5"));
}

TEST_F(RecorderTest, AFrameIsReceivedWhenEveryChannelIsThere) {
  auto recorder = start();
  auto two = series(3);
  two.channels = {"low", "high"};
  ASSERT_TRUE(recorder->begin(std::move(two), nullptr).ok());
  for (const auto& [number, channel] : {std::pair{0u, 0u}, {0u, 1u}, {1u, 0u}, {2u, 1u}, {2u, 0u}}) {
    auto one = frame(number);
    one.channel = channel;
    ASSERT_TRUE(recorder->put(std::move(one)).ok());
  }
  finish(*recorder);
  EXPECT_EQ(states(), (std::vector<std::uint8_t>{1, 5, 1}));
  EXPECT_EQ(event("series_end")["partial"], 1);
  EXPECT_EQ(event("series_end")["missing"], 1);
  EXPECT_EQ(event("note")["message"],
            "series \"s1\": 1 frames lack channel \"high\", the first is frame 1: their other channels are recorded, "
            "and their state is 5 (partial)");
}

TEST_F(RecorderTest, NamesOfMetadataWithNulsAreNotTaken) {
  auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(1), nullptr).ok());
  auto one = frame(0);
  one.metadata = {{std::string("omega\0x", 7), 0.5}, {"omega", 1.5}, {"new\nline", 2.5}};
  ASSERT_TRUE(recorder->put(std::move(one)).ok());
  finish(*recorder);
  EXPECT_EQ(read<double>("s1.h5", "/entry/metadata/omega", H5T_NATIVE_DOUBLE), std::vector<double>{1.5});
}

TEST_F(RecorderTest, MasksBeyondTheMemoryForThemAndOfOtherChannelsAreLeftOut) {
  config_.pool_bytes = 64 << 20;
  config_.tables_bytes = 16 << 20;
  config_.frame_bytes_max = 1 << 30;
  auto recorder = start();
  auto masked = series(1);
  NamedArray mask;
  mask.channel = "1";
  mask.spec = {ElementType::u32, {rows, columns}};
  mask.data.assign(rows * columns * 4, std::byte{0});
  auto foreign = mask, vast = mask;
  foreign.channel = "2";
  vast.encoding = Encoding::bitshuffle_lz4;
  vast.spec.shape = {4096, 4096};
  vast.data.assign(64, std::byte{0});
  masked.pixel_mask = {foreign, vast, mask};
  ASSERT_TRUE(recorder->begin(std::move(masked), nullptr).ok());
  ASSERT_TRUE(recorder->put(frame(0)).ok());
  finish(*recorder);
  EXPECT_NE(
      event("note")["message"].get<std::string>().find(
          "pixel_mask of channel \"1\" is left out: shape [4096, 4096] of uint32 exceeds the limit of 16777216 bytes; "
          "16777216 of the 16777216 bytes of tables_bytes remain; increase tables_bytes"),
      std::string::npos)
      << event("note");
  EXPECT_EQ(read<std::uint32_t>("s1.h5", "/entry/instrument/detector/pixel_mask", H5T_NATIVE_UINT32).size(),
            rows * columns);
}

TEST_F(RecorderTest, TablesHaveABudgetBesideThePool) {
  EXPECT_GE(Config().tables_bytes, std::uint64_t{4} * 4 * 4362 * 4148) << "EIGER2 16M, two thresholds";
  config_.pool_bytes = 64 << 20;
  auto recorder = start();
  auto two = series(1);
  two.channels = {"low", "high"};
  two.frame = {ElementType::u16, {1024, 1152}};
  for (const auto& channel : two.channels) {
    NamedArray mask{channel, {ElementType::u32, two.frame.shape}, {}};
    mask.data.assign(std::size_t{4} * 1024 * 1152, std::byte{1});
    two.flatfield.push_back(mask);
    two.flatfield.back().spec.type = ElementType::f32;
    two.pixel_mask.push_back(std::move(mask));
  }
  ASSERT_TRUE(recorder->begin(std::move(two), nullptr).ok());
  finish(*recorder);
  for (const auto* name : {"pixel_mask", "pixel_mask_high", "flatfield", "flatfield_high"})
    EXPECT_EQ(
        read<std::uint32_t>("s1.h5", fmt::format("/entry/instrument/detector/{}", name).c_str(), H5T_NATIVE_UINT32)
            .size(),
        std::size_t{1024} * 1152)
        << name;
}

TEST_F(RecorderTest, FramesThatThePoolCannotHoldAreRefusedAtTheStart) {
  config_.pool_bytes = 64 << 20;
  auto recorder = start();
  auto large = series(1);
  large.frame.shape = {4096, 4096};
  auto begun = recorder->begin(large, nullptr);
  ASSERT_FALSE(begun.ok());
  EXPECT_NE(begun.error().message().find("pool_bytes"), std::string::npos) << begun.error().message();
  EXPECT_EQ(recorder->refused_series(), 1u);
  EXPECT_EQ(recorder->snapshot().failed_series, 1u);
  EXPECT_TRUE(recorder->wait_for_limit(0s)) << "whoever waits for it waits in vain";
}

TEST_F(RecorderTest, EachRefusedSeriesHasItsEventWhateverElseIsRejected) {
  constexpr unsigned refused = 40;
  config_.pool_bytes = 64 << 20;
  auto recorder = start();
  for (unsigned i = 0; i < 20; ++i)
    recorder->reject("tcp://a:1", make_error(Errc::malformed, "{} is not a message", std::string(1 + i, 'x')));
  for (unsigned i = 0; i < refused; ++i) {
    auto large = series(1, "refused-" + std::to_string(i));
    large.frame.shape = {4096, 4096};
    ASSERT_FALSE(recorder->begin(std::move(large), nullptr).ok()) << i;
  }
  const auto events = all_events(out_, "series_refused");
  ASSERT_EQ(events.size(), refused);
  for (unsigned i = 0; i < refused; ++i) EXPECT_EQ(events[i].at("series_unique_id"), "refused-" + std::to_string(i));
}

TEST_F(RecorderTest, TheSmallestPoolRecords) {
  config_.pool_bytes = 64 << 20;
  auto recorder = start();
  auto large = series(8);
  large.frame.shape = {1024, 512};
  ASSERT_TRUE(recorder->begin(large, nullptr).ok());
  const auto pixels = std::make_shared<std::vector<std::uint16_t>>(1024 * 512, 7);
  for (std::uint64_t n = 0; n < 8; ++n) {
    auto one = frame(n);
    one.spec = large.frame;
    one.payload = std::as_bytes(std::span(*pixels));
    one.owner = pixels;
    ASSERT_TRUE(recorder->put(std::move(one)).ok());
  }
  finish(*recorder);
  EXPECT_EQ(states(), std::vector<std::uint8_t>(8, 1));
}

TEST_F(RecorderTest, AFolderThatCannotBeWrittenIsNamed) {
  std::filesystem::permissions(folder_, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  Recorder recorder(posix_env(), config_, *events_, team_);
  const auto started = [&] {
    const penstock::testing::WithoutRoot nobody;
    return recorder.start();
  }();
  std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.error().message().find(folder_.string()), std::string::npos);
}

TEST_F(RecorderTest, MissingFolderIsNamed) {
  config_.folder = folder_ / "nowhere";
  Recorder recorder(posix_env(), config_, *events_, team_);
  auto started = recorder.start();
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.error().message().find("nowhere"), std::string::npos);
}

}  // namespace
}  // namespace penstock::recorder
