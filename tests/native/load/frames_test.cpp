#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <vector>

#include "../support/fault_env.hpp"
#include "../support/whole_file.hpp"
#include "load/workloads/content.hpp"
#include "load_fixture.hpp"
#include "one_file_fails.hpp"

namespace penstock::load {
namespace {

Json frozen_plan(std::uint64_t frames, double rate_hz, std::uint64_t buffer_frames, double freeze_at_s,
                 double freeze_s) {
  return {{"backend", {{"kind", "null"}, {"delay_s", 0.001}, {"freeze_at_s", freeze_at_s}, {"freeze_s", freeze_s}}},
          {"workload",
           {{"kind", "frames"},
            {"frames", frames},
            {"frame_bytes", 1000},
            {"rate_hz", rate_hz},
            {"writers", 1},
            {"buffer_frames", buffer_frames},
            {"late_after_s", 0.07}}},
          {"interval_s", 0.25}};
}

/// What one writer must make of frames that are offered at these times, written by someone else: a buffer with room
/// for `capacity`, a write of 1 ms, and storage that stands still from `freeze` on.
struct Truth {
  std::uint64_t dropped = 0;
  std::uint64_t late = 0;
};

Truth truth_of(const std::vector<std::int64_t>& due, std::size_t capacity, std::int64_t freeze_begin,
               std::int64_t freeze_end, std::int64_t late_after) {
  Truth truth;
  std::deque<std::int64_t> ends;  // of frames that are held, in order
  std::int64_t free_from = 0;
  for (const auto now : due) {
    while (!ends.empty() && ends.front() <= now) ends.pop_front();
    if (ends.size() >= capacity) {
      ++truth.dropped;
      continue;
    }
    const auto begin = std::max(now, free_from);
    auto end = begin + millisecond;
    if (begin < freeze_end && end >= freeze_begin) end += freeze_end - std::max(begin, freeze_begin);
    free_from = end;
    ends.push_back(end);
    if (end - now > late_after) ++truth.late;
  }
  return truth;
}

std::vector<std::int64_t> due_times(std::uint64_t frames, double rate_hz) {
  std::vector<std::int64_t> due(frames);
  for (std::uint64_t i = 0; i < frames; ++i) due[i] = std::llround(static_cast<double>(i) * 1e9 / rate_hz);
  return due;
}

class Frames : public LoadTest {
 protected:
  /// Whether the machine left the run in peace: no frame was offered so late that another count might be right.
  static bool is_undisturbed(const Json& document, std::int64_t allowed_ns) {
    const std::int64_t late_ns = document["times"]["jitter"]["max_ns"];
    return late_ns < allowed_ns && document["generator"]["writers"][0]["waited_ns"] < allowed_ns;
  }

  /// What is true of one writer's run at 20 Hz on any machine, by the times that the run recorded.
  static void expect_consistent(const Json& document, std::int64_t freeze_begin, std::int64_t freeze_end) {
    const auto& counts = document["frames"];
    const auto times = [&](const char* name) { return document["records"][name].get<std::vector<std::int64_t>>(); };
    const auto offered = times("offered_ns"), start = times("start_ns"), done = times("done_ns");
    ASSERT_EQ(done.size(), counts["due"].get<std::size_t>());
    std::uint64_t dropped = 0, late = 0;
    std::int64_t latency_max = 0, stall_min = 0, before = 0;
    for (std::size_t i = 0; i < done.size(); ++i) {
      const auto due = static_cast<std::int64_t>(i) * 50 * millisecond;
      EXPECT_GE(offered[i], due) << i;
      if (done[i] < 0) {
        ++dropped;
        continue;
      }
      EXPECT_GE(done[i], start[i] + millisecond) << i;
      if (start[i] >= freeze_begin && start[i] < freeze_end) {
        EXPECT_GE(done[i], freeze_end + millisecond) << i;
      }
      late += done[i] - due > 70 * millisecond ? 1 : 0;
      latency_max = std::max(latency_max, done[i] - due);
      stall_min = std::max(stall_min, done[i] - std::max(offered[i], before));
      before = done[i];
    }
    EXPECT_EQ(counts["dropped"], dropped);
    EXPECT_EQ(counts["late"], late);
    EXPECT_EQ(counts["written"], done.size() - dropped);
    EXPECT_EQ(counts["unfinished"], 0);
    EXPECT_EQ(document["times"]["latency"]["max_ns"], latency_max);
    EXPECT_GE(document["buffer"]["stall_s"].get<double>(), static_cast<double>(stall_min) * 1e-9 - 1e-6);
    const auto series = document["series"]["dropped"].get<std::vector<std::uint64_t>>();
    EXPECT_EQ(std::accumulate(series.begin(), series.end(), std::uint64_t{0}), dropped);
  }
};

TEST_F(Frames, AFreezeIsReportedExactly) {
  // 20 Hz; from 0.525 s to 1.525 s storage stands still. Frames 11 to 30 become due meanwhile. Whatever is counted
  // stays the same where each of these times is 20 ms off; where they are further off the records must agree.
  for (const std::uint64_t buffer : {5U, 12U, 100U}) {
    Json document;
    bool undisturbed = false;
    for (int attempt = 0; attempt < 3 && !undisturbed; ++attempt) {
      document = document_of(frozen_plan(45, 20, buffer, 0.525, 1));
      undisturbed = is_undisturbed(document, 20 * millisecond);
      expect_consistent(document, 525 * millisecond, 1525 * millisecond);
    }
    if (!undisturbed) continue;
    const auto truth = truth_of(due_times(45, 20), buffer, 525 * millisecond, 1525 * millisecond, 70 * millisecond);
    ASSERT_EQ(truth.dropped, buffer >= 20 ? 0U : 20 - buffer) << "the truth is known by hand, too";
    const auto& counts = document["frames"];
    EXPECT_EQ(counts["dropped"], truth.dropped) << buffer;
    EXPECT_EQ(counts["late"], truth.late) << buffer;
    EXPECT_EQ(counts["written"], 45 - truth.dropped);
    EXPECT_EQ(counts["due"], 45);
    EXPECT_EQ(counts["unfinished"], 0);
    // Frame 11 was due at 0.55 s, and done when storage came back.
    EXPECT_NEAR(document["buffer"]["stall_s"].get<double>(), 0.975, 0.02);
    EXPECT_NEAR(document["times"]["latency"]["max_ns"].get<double>(), 0.976e9, 0.02e9);
  }
}

TEST_F(Frames, EachFramesTimesComeInTheirOrderAfterItWasDue) {
  const auto plan = frozen_plan(40, 100, 40, 0, 0);
  const auto document = document_of(plan);
  for (const auto& [name, count] : {std::pair("jitter", 40), std::pair("latency", 40)})
    EXPECT_EQ(document["times"][name]["count"], count);
  const auto& records = document["records"];
  for (std::size_t i = 0; i < 40; ++i) {
    const auto due = static_cast<std::int64_t>(i) * 10 * millisecond;
    EXPECT_GE(records["offered_ns"][i].get<std::int64_t>(), due);
    EXPECT_GE(records["start_ns"][i].get<std::int64_t>(), records["offered_ns"][i].get<std::int64_t>());
    EXPECT_GE(records["done_ns"][i].get<std::int64_t>(), records["start_ns"][i].get<std::int64_t>() + millisecond);
  }
}

TEST_F(Frames, APacerThatHardlySleepsLeavesTheProcessorsToOthers) {
  const auto document = document_of(frozen_plan(50, 5000, 50, 0, 0));
  EXPECT_EQ(document["generator"]["pacer_goes_first"], false);
}

TEST_F(Frames, HistogramsAreThoseOfTheRecords) {
  auto plan = frozen_plan(300, 500, 20, 0.1, 0.1);
  plan["backend"]["straggler_every"] = 7;
  plan["backend"]["straggler_s"] = 0.01;
  const auto document = document_of(plan);
  const auto done = document["records"]["done_ns"].get<std::vector<std::int64_t>>();
  std::vector<std::int64_t> latencies;
  for (std::size_t i = 0; i < done.size(); ++i)
    if (done[i] >= 0) latencies.push_back(done[i] - static_cast<std::int64_t>(i) * 2 * millisecond);
  const auto& histogram = document["times"]["latency"];
  ASSERT_EQ(histogram["count"], latencies.size());
  for (const auto& bucket : histogram["buckets"]) {
    const auto lowest = bucket[0].get<std::int64_t>(), highest = bucket[1].get<std::int64_t>();
    const auto inside = std::count_if(latencies.begin(), latencies.end(),
                                      [&](std::int64_t ns) { return ns >= lowest && ns <= highest; });
    EXPECT_EQ(bucket[2].get<std::int64_t>(), inside);
    EXPECT_LE(static_cast<double>(highest - lowest), 0.004 * static_cast<double>(highest) + 1);
  }
  EXPECT_EQ(histogram["max_ns"], *std::max_element(latencies.begin(), latencies.end()));
}

Json stored_plan(const std::filesystem::path& folder, const char* layout, const char* sync, bool direct) {
  return {{"backend", {{"kind", "posix"}, {"folder", folder.string()}, {"direct", direct}, {"sync", sync}}},
          {"workload",
           {{"kind", "frames"},
            {"frames", 20},
            {"frame_bytes", 10'000},
            {"rate_hz", 0},
            {"writers", 3},
            {"buffer_frames", 4},
            {"layout", layout}}},
          {"seed", 5},
          {"prefix", "frame-"}};
}

TEST_F(Frames, FilesHoldWhatTheSeedSays) {
  const auto document = document_of(stored_plan(folder_, "file_a_frame", "none", false));
  EXPECT_EQ(document["frames"]["written"], 20);
  EXPECT_EQ(document["frames"]["bytes"], 200'000);
  const Content content(ContentKind::random, 5, 10'000, 20);
  std::vector<std::byte> ground(content.ground_bytes()), stored(10'000);
  content.lay(ground);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const auto path = folder_ / fmt::format("frame-{:09}.bin", i);
    ASSERT_EQ(std::filesystem::file_size(path), 10'000U);
    std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(stored.data()), 10'000);
    EXPECT_EQ(first_difference(stored, content.block(ground, i, 0)), std::nullopt) << path;
  }
}

TEST_F(Frames, AnUnpacedRunEndsInTime) {
  auto plan = frozen_plan(1'000'000, 0, 4, 0, 0);  // of 1 ms each
  plan["workload"].update({{"seconds_max", 0.3}});
  const auto document = document_of(plan);
  EXPECT_EQ(document["interrupted"], false);
  EXPECT_EQ(document["frames"]["planned"], 1'000'000);
  EXPECT_GT(document["frames"]["written"], 0);
  EXPECT_LT(document["frames"]["written"], 400);
  EXPECT_EQ(document["frames"]["written"], document["frames"]["due"]);
}

TEST_F(Frames, AWriterAppendsItsFramesToOneFileInWholePages) {
  const auto document = document_of(stored_plan(folder_, "file_a_writer", "end", true));
  EXPECT_EQ(document["frames"]["stored_bytes_each"], 12'288);
  EXPECT_EQ(document["frames"]["bytes"], 200'000);
  std::uintmax_t bytes = 0;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    bytes += entry.file_size();
    ++files;
  }
  EXPECT_EQ(files, 3U);
  EXPECT_EQ(bytes, 20U * 12'288);
}

TEST_F(Frames, EachSyncIsAsked) {
  for (const auto& [layout, sync, syncs] :
       {std::tuple("file_a_frame", "each", 20U), std::tuple("file_a_frame", "none", 0U),
        std::tuple("file_a_writer", "each", 23U), std::tuple("file_a_writer", "end", 3U)}) {
    testing::FaultEnv env;
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    document_of(stored_plan(folder_, layout, sync, false), env);
    EXPECT_EQ(env.faults->syncs.load(), syncs) << layout << " " << sync;
    EXPECT_EQ(env.faults->writes.load(), 20U);
  }
}

TEST_F(Frames, ImagesAreTheTemplateWithPixelsOfTheirOwn) {
  for (const bool differences : {false, true}) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    const std::string head(701, 'h'), tail(299, 't');
    std::ofstream(folder_ / "template") << head << std::string(9000, '\x80') << tail;
    auto plan = stored_plan(folder_, "file_a_frame", "none", differences);
    plan["workload"]["image"] = {{"template", (folder_ / "template").string()},
                                 {"suffix", "cbf"},
                                 {"pixels_at", 701},
                                 {"pixels_bytes", 9000},
                                 {"differences", differences}};
    EXPECT_EQ(document_of(plan)["frames"]["written"], 20);
    std::vector<std::byte> pixels(9000);
    const Content content(ContentKind::random, 5, 9000, 20);
    content.lay(pixels);
    for (std::uint64_t i = 0; i < 20; ++i) {
      const auto stored = whole_file(folder_ / fmt::format("frame-{:09}.cbf", i));
      ASSERT_EQ(stored.size(), differences ? 12'288U : 10'000U) << "direct files are whole pages";
      EXPECT_EQ(stored.substr(0, 701), head);
      EXPECT_EQ(stored.substr(9701), tail + std::string(stored.size() - 10'000, '\0'));
      content.stamp(pixels, i, 0);
      auto expected = std::string(as_text(pixels));
      if (differences) std::replace(expected.begin(), expected.end(), '\x80', '\x7F');
      EXPECT_TRUE(stored.substr(701, 9000) == expected) << i;
    }
  }
}

TEST_F(Frames, WholeImagesAreWrittenInTurnAsTheyAre) {
  for (const bool direct : {false, true}) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    const std::string first(10'000, '1'), second(10'000, '\x80'), third(10'000, '3');
    std::ofstream(folder_ / "template", std::ios::binary) << first << second << third;
    auto plan = stored_plan(folder_, "file_a_frame", "none", direct);
    plan["content"] = "file";
    plan["content_file"] = "a folder of images";
    plan["workload"]["image"] = {{"template", (folder_ / "template").string()},
                                 {"images", 3},
                                 {"suffix", "tif"},
                                 {"pixels_at", 0},
                                 {"pixels_bytes", 0}};
    EXPECT_EQ(document_of(plan)["frames"]["written"], 20);
    for (std::uint64_t i = 0; i < 20; ++i) {
      const auto stored = whole_file(folder_ / fmt::format("frame-{:09}.tif", i));
      const auto& image = i % 3 == 0 ? first : i % 3 == 1 ? second : third;
      ASSERT_TRUE(stored == image + std::string(direct ? 2'288 : 0, '\0')) << i;
    }
  }
}

TEST_F(Frames, FewerImagesThanThePlanSaysAreNamed) {
  std::ofstream(folder_ / "template") << std::string(10'000, '1');
  auto plan = stored_plan(folder_, "file_a_frame", "none", false);
  plan["workload"]["image"] = {{"template", (folder_ / "template").string()},
                               {"images", 2},
                               {"suffix", "tif"},
                               {"pixels_at", 0},
                               {"pixels_bytes", 0}};
  const auto failed = run(plan);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message().find("expected 2 times workload.frame_bytes, 10000"), std::string::npos)
      << failed.error().message();
}

TEST_F(Frames, ATemplateOfAnotherSizeIsNamed) {
  std::ofstream(folder_ / "template") << "short";
  auto plan = stored_plan(folder_, "file_a_frame", "none", false);
  plan["workload"]["image"] = {
      {"template", (folder_ / "template").string()}, {"suffix", "tif"}, {"pixels_at", 0}, {"pixels_bytes", 5}};
  const auto failed = run(plan);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message().find("has 5 bytes, expected workload.frame_bytes, 10000"), std::string::npos);
}

TEST_F(Frames, AFileHasItsNameOnceItIsComplete) {
  testing::FaultEnv env;
  std::vector<std::string> seen;
  env.faults->on_write = [&](auto, auto) -> Result<void> {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) seen.push_back(entry.path().filename());
    return {};
  };
  auto plan = stored_plan(folder_, "file_a_frame", "each", false);
  plan["workload"]["rename"] = true;
  plan["workload"]["writers"] = 1;
  plan["workload"]["frames"] = 2;
  EXPECT_EQ(document_of(plan, env)["frames"]["written"], 2);
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<std::string>{"frame-000000000.bin", "frame-000000000.bin.partial",
                                            "frame-000000001.bin.partial"}));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "frame-000000001.bin"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "frame-000000001.bin.partial"));
  const auto again = document_of(plan, env);
  EXPECT_NE(again["problem"].get<std::string>().find("frame-00000000"), std::string::npos) << "the name is taken";
  EXPECT_EQ(again["frames"]["written"], 0);
}

TEST_F(Frames, AFileThatIsThereIsNotOverwritten) {
  std::ofstream(folder_ / "frame-000000003.bin") << "somebody's";
  const auto document = document_of(stored_plan(folder_, "file_a_frame", "none", false));
  EXPECT_NE(document["problem"].get<std::string>().find("frame-000000003.bin"), std::string::npos);
  EXPECT_EQ(whole_file(folder_ / "frame-000000003.bin"), "somebody's");
  EXPECT_GE(document["frames"]["failed"].get<int>(), 1);
}

TEST_F(Frames, AFullDiskEndsTheRunWithWhatWasMeasured) {
  testing::FaultEnv env;
  std::atomic<int> writes{0};
  env.faults->on_write = [&](auto, auto) -> Result<void> {
    if (++writes > 7) return make_error(Errc::no_space, "no space left on the device");
    return {};
  };
  const auto document = document_of(stored_plan(folder_, "file_a_frame", "none", false), env);
  const auto& counts = document["frames"];
  EXPECT_EQ(counts["written"], 7);
  EXPECT_LT(counts["due"].get<int>(), 20);
  EXPECT_EQ(counts["due"].get<int>(), counts["written"].get<int>() + counts["failed"].get<int>());
  EXPECT_NE(document["problem"].get<std::string>().find("no space"), std::string::npos);
}

TEST_F(Frames, AWriterInTheMiddleThatFailsEndsTheRunAndTheOthersFramesCount) {
  OneFileFailsEnv env("frame-000000001.bin", 5);
  auto plan = stored_plan(folder_, "file_a_writer", "none", false);
  plan["workload"]["frames"] = 5000;
  const auto document = document_of(plan, env);
  EXPECT_EQ(document["problem"], "the device of frame-000000001.bin is gone");
  const auto& counts = document["frames"];
  EXPECT_EQ(counts["failed"], 1);
  EXPECT_LT(counts["due"], 5000) << "it ended before it was done";
  std::uint64_t written = 0;
  for (const auto& writer : document["generator"]["writers"]) written += writer["written"].get<std::uint64_t>();
  EXPECT_EQ(counts["written"], written);
  EXPECT_EQ(counts["due"], written + counts["failed"].get<std::uint64_t>());
  for (const unsigned file : {0U, 2U})
    EXPECT_EQ(std::filesystem::file_size(folder_ / fmt::format("frame-{:09}.bin", file)),
              document["generator"]["writers"][file]["written"].get<std::uint64_t>() * 10'000);
}

TEST_F(Frames, WhatAFileSystemTellsWhenAFileIsClosedIsAFailure) {
  testing::FaultEnv env;
  env.faults->on_call = [](testing::Call call) -> Result<void> {
    if (call == testing::Call::close) return make_error(Errc::no_space, "no quota left");
    return {};
  };
  for (const auto* layout : {"file_a_frame", "file_a_writer"}) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    const auto document = document_of(stored_plan(folder_, layout, "none", false), env);
    ASSERT_TRUE(document["problem"].is_string()) << layout;
    EXPECT_NE(document["problem"].get<std::string>().find("no quota left"), std::string::npos) << layout;
    if (std::string_view(layout) == "file_a_frame") {
      EXPECT_EQ(document["frames"]["written"], 0);
    }
  }
}

TEST_F(Frames, ARingKeepsTheNewestFiles) {
  for (const auto* layout : {"file_a_frame", "file_a_writer"}) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    auto plan = stored_plan(folder_, layout, "none", false);
    plan["workload"].update({{"frames", 1000}, {"ring_frames", 60}});
    auto document = document_of(plan);
    const auto first = folder_ / "frame-000000000.bin";
    // On a busy machine one writer may do nothing until the others have written almost all.
    for (int i = 0; i < 20 && std::filesystem::exists(first); ++i) {
      std::filesystem::remove_all(folder_);
      std::filesystem::create_directories(folder_);
      document = document_of(plan);
    }
    EXPECT_TRUE(document["problem"].is_null()) << document["problem"];
    EXPECT_EQ(document["frames"]["written"], 1000) << layout;
    std::uint64_t bytes = 0, files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      bytes += entry.file_size();
      ++files;
    }
    EXPECT_GT(files, 0U);
    // A quarter more while they wait for their removal, and those that are written.
    EXPECT_LE(bytes, 10'000U * (60 + 15 + 3)) << layout;
    if (std::string_view(layout) == "file_a_frame") {
      EXPECT_TRUE(std::filesystem::exists(folder_ / "frame-000000999.bin"));
    }
    EXPECT_FALSE(std::filesystem::exists(first)) << layout;
  }
}

TEST_F(Frames, ARingWhoseFilesAreGoneSaysSo) {
  auto plan = stored_plan(folder_, "file_a_frame", "none", false);
  plan["workload"].update({{"frames", 800}, {"rate_hz", 400}, {"ring_frames", 200}});
  on_progress = [this](const Json&) {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) std::filesystem::remove(entry.path());
  };
  const auto document = document_of(plan);
  ASSERT_TRUE(document["problem"].is_string());
  EXPECT_NE(document["problem"].get<std::string>().find("frame-0000"), std::string::npos);
}

TEST_F(Frames, EachFrameHasTheTimeThatItsWriterWaited) {
  const auto document = document_of(frozen_plan(40, 100, 40, 0, 0));
  const auto& writer = document["generator"]["writers"][0];
  std::int64_t waited = 0;
  for (const auto& each : document["records"]["waited_ns"]) {
    EXPECT_GE(each.get<std::int64_t>(), 0);
    waited += each.get<std::int64_t>();
  }
  EXPECT_EQ(writer["waited_in_writes_ns"], waited);
  EXPECT_GE(writer["waited_ns"].get<std::int64_t>(), waited);
  EXPECT_GT(document["generator"]["start_ns"].get<std::int64_t>(), 0);
}

TEST_F(Frames, AFolderThatIsNotThereIsAProblemThatNamesIt) {
  const auto document = document_of(stored_plan(folder_ / "nowhere", "file_a_frame", "none", false));
  EXPECT_NE(document["problem"].get<std::string>().find("nowhere"), std::string::npos);
  EXPECT_EQ(document["frames"]["written"], 0);
  const auto failed = run(stored_plan(folder_ / "nowhere", "file_a_writer", "none", false));
  ASSERT_FALSE(failed) << "files of writers are made before anything is measured";
  EXPECT_EQ(failed.error().code(), Errc::not_found);
}

TEST_F(Frames, AnInterruptionLeavesWhatWasMeasured) {
  auto plan = frozen_plan(10'000, 1000, 10, 0, 0);
  on_progress = [this](const Json& fields) { stop = fields["done"].get<int>() > 0; };
  const auto document = document_of(plan);
  const auto& counts = document["frames"];
  EXPECT_TRUE(document["interrupted"].get<bool>());
  EXPECT_TRUE(document["problem"].is_null());
  EXPECT_LT(counts["due"].get<int>(), 10'000);
  EXPECT_EQ(counts["due"].get<int>(), counts["written"].get<int>() + counts["dropped"].get<int>());
  EXPECT_EQ(document["records"]["done_ns"].size(), counts["due"].get<std::size_t>());
}

TEST_F(Frames, StorageThatHangsIsGivenUpAndItsFramesAreUnfinished) {
  auto plan = frozen_plan(20, 200, 5, 0, 60);
  plan["drain_timeout_s"] = 3;
  auto outcome = run(plan);
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_TRUE(outcome->left_behind);
  const auto& counts = outcome->document["frames"];
  EXPECT_EQ(counts["unfinished"], 5);
  EXPECT_EQ(counts["dropped"], 15);
  EXPECT_EQ(counts["written"], 0);
  EXPECT_NE(outcome->document["problem"].get<std::string>().find("5 frames "), std::string::npos);
}

}  // namespace
}  // namespace penstock::load
