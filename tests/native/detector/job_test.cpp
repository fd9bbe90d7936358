#include "detector/job.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "detector/simulation.hpp"
#include "stream/tcp/tcp.hpp"

namespace penstock::detector {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// A recorder that keeps everything in memory.
class MemorySink : public FrameSink {
 public:
  Result<void> begin(Series series, std::shared_ptr<AckListener> acks) override {
    std::lock_guard lock(mutex);
    started.push_back(std::move(series));
    listener = std::move(acks);
    return {};
  }
  Result<void> put(Frame frame) override {
    std::lock_guard lock(mutex);
    frames[value(frame.number)] = std::move(frame);
    if (stop_after != 0 && frames.size() == stop_after) *stop = true;
    return {};
  }
  Result<void> end(const SeriesEnd& end) override {
    std::lock_guard lock(mutex);
    ++ended;
    if (!listener) return {};
    if (!frames.empty())
      frames.rbegin()->second.session->safe_below(end.unique_id, FrameNumber{frames.rbegin()->first + 1 - unsafe});
    listener->closed(end.unique_id, problem);
    return {};
  }
  void reject(std::string_view, const Error& why) override { ADD_FAILURE() << why.message(); }
  BufferPool& pool() override { return pool_; }

  std::mutex mutex;
  std::vector<Series> started;
  std::map<std::uint64_t, Frame> frames;
  std::shared_ptr<AckListener> listener;
  int ended = 0;
  std::string problem;
  std::uint64_t unsafe = 0;  ///< frames, the last ones, that are not acknowledged
  std::size_t stop_after = 0;
  std::atomic<bool>* stop = nullptr;

 private:
  BufferPool pool_{std::size_t{256} << 20};
};

class Job : public testing::Test {
 protected:
  Job() {
    folder_ = fs::path(testing::TempDir()) / ("detector_job_" + std::to_string(::getpid()));
    fs::create_directory(folder_);
  }
  ~Job() override { fs::remove_all(folder_); }

  static json plan() {
    return json::parse(R"({"detector": {"name": "small", "rows": 60, "columns": 50, "type": "uint16",
      "pixel_size_m": [75e-6, 75e-6], "gaps": [{"row": 20, "column": 0, "rows": 4, "columns": 50}]},
      "frames": 40, "rate_hz": 0, "distinct_frames": 7, "series_unique_id": "run", "connect_timeout_s": 5})");
  }

  Result<void> run(const json& document) {
    auto parsed = DetectorPlan::from_json(document.dump(), 1'700'000'000'000'000'000);
    if (!parsed) return std::move(parsed).error();
    const auto emit = [this](std::string_view event, const json& fields) {
      std::lock_guard lock(mutex_);
      events_.emplace_back(event, fields);
    };
    const JobContext context{posix_env(), monotonic_pace_clock(), emit, stop_};
    return run_job(std::move(parsed).value(), context);
  }

  json event(std::string_view name) {
    for (const auto& [event, fields] : events_)
      if (event == name) return fields;
    ADD_FAILURE() << "no event " << name;
    return json();
  }

  std::unique_ptr<Source> listen(MemorySink& sink, json& document) {
    stream::TcpSourceOptions options;
    options.port = 0;
    auto source = stream::make_tcp_source(options).value();
    EXPECT_TRUE(source->start(sink).ok());
    const auto address = source->address();
    document["to"] = {{"kind", "tcp"}, {"port", std::stoi(address.substr(address.rfind(':') + 1))}};
    return source;
  }

  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::vector<std::pair<std::string, json>> events_;
};

TEST_F(Job, SendsFramesThatCanBeMadeAgain) {
  MemorySink sink;
  auto document = plan();
  const auto source = listen(sink, document);
  const auto done = run(document);
  ASSERT_TRUE(done.ok()) << done.error().message();
  source->stop();
  ASSERT_EQ(sink.started.size(), 1U);
  EXPECT_EQ(sink.ended, 1);
  EXPECT_EQ(sink.frames.size(), 40U);
  const auto user_data = json::parse(sink.started[0].user_data_json.value());
  const auto simulation = Simulation::from_json(user_data["penstock"]["simulation"].dump()).value();
  std::vector<std::byte> expected(simulation.spec().frame_bytes());
  for (const auto& [number, frame] : sink.frames) {
    simulation.make(number, expected);
    EXPECT_TRUE(std::ranges::equal(frame.payload, expected)) << number;
  }
  EXPECT_EQ(sink.started[0].pixel_mask.size(), 1U);
  const auto end = event("series_end");
  EXPECT_EQ(end["acknowledged"], 40);
  EXPECT_EQ(end["confirmed"], true);
  EXPECT_EQ(end["frames_sent"], 40);
  EXPECT_TRUE(end["problem"].is_null());
}

/// Frames that wait have their own pixels, stamps among them, whatever becomes of the images meanwhile.
TEST_F(Job, FramesWithFaultsAreWhatTheyWouldBe) {
  MemorySink sink;
  auto document = plan();
  const auto log = (folder_ / "faults.jsonl").string();
  document["faults"] = {{"seed", 3},
                        {"log", log},
                        {"rules",
                         {{{"kind", "drop"}, {"frames", {{4, 6}, {39, 39}}}},
                          {{"kind", "late"}, {"rate", 0.3}, {"by_frames", 9}},
                          {{"kind", "reorder"}, {"rate", 0.1}, {"by_frames", 5}},
                          {{"kind", "duplicate"}, {"rate", 0.2}}}}};
  const auto source = listen(sink, document);
  const auto done = run(document);
  ASSERT_TRUE(done.ok()) << done.error().message();
  const auto again = run(document);
  EXPECT_EQ(again.error().code(), Errc::already_exists) << "a log is never overwritten";
  source->stop();
  const auto user_data = json::parse(sink.started[0].user_data_json.value());
  const auto simulation = Simulation::from_json(user_data["penstock"]["simulation"].dump()).value();
  std::vector<std::byte> expected(simulation.spec().frame_bytes());
  for (std::uint64_t number = 0; number < 40; ++number) {
    const bool dropped = (number >= 4 && number <= 6) || number == 39;
    ASSERT_EQ(sink.frames.contains(number), !dropped) << number;
    if (dropped) continue;
    simulation.make(number, expected);
    EXPECT_TRUE(std::ranges::equal(sink.frames[number].payload, expected)) << number;
  }
  const auto told = event("series_end")["faults"];
  EXPECT_EQ(told["drop"], 4);
  for (const auto* kind : {"late", "reorder", "duplicate"}) EXPECT_GT(told[kind], 0) << kind;
  std::ifstream lines(log);
  std::string line, last;
  std::size_t count = 0;
  for (; std::getline(lines, line); last = line) ++count;
  EXPECT_EQ(json::parse(last)["expected"]["received"], 36);
  std::size_t faults = 0;
  for (const auto& each : told) faults += each.get<std::size_t>();
  EXPECT_EQ(count, faults + 2);
}

TEST_F(Job, ReportsFramesThatTheReceiverDidNotKeep) {
  MemorySink sink;
  sink.unsafe = 2;
  auto document = plan();
  const auto source = listen(sink, document);
  const auto done = run(document);
  source->stop();
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message().find("without 2 of the frames"), std::string::npos) << done.error().message();
}

TEST_F(Job, TellsTheReceiversProblem) {
  MemorySink sink;
  sink.problem = "the disk is full";
  auto document = plan();
  const auto source = listen(sink, document);
  const auto done = run(document);
  source->stop();
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message().find("the disk is full"), std::string::npos);
  EXPECT_NE(event("series_end")["problem"].get<std::string>().find("the disk is full"), std::string::npos);
}

TEST_F(Job, StopsEarlyAndTellsTheReceiver) {
  MemorySink sink;
  sink.stop = &stop_;
  sink.stop_after = 3;
  auto document = plan();
  document["frames"] = 1'000'000'000;
  document["rate_hz"] = 500;
  const auto source = listen(sink, document);
  const auto done = run(document);
  source->stop();
  EXPECT_EQ(done.error().code(), Errc::cancelled);
  EXPECT_EQ(sink.ended, 1);
  EXPECT_EQ(event("series_end")["frames_sent"], sink.frames.size());
}

TEST_F(Job, SaysThatNobodyListens) {
  auto document = plan();
  document["connect_timeout_s"] = 0.2;
  document["to"] = {{"kind", "tcp"}, {"port", 1}};
  EXPECT_FALSE(run(document).ok());
  document["to"] = {{"kind", "zmq"}, {"endpoint", "tcp://127.0.0.1:*"}};
  const auto done = run(document);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), Errc::timed_out) << done.error().message();
  EXPECT_NE(done.error().message().find("--connect-timeout"), std::string::npos) << done.error().message();
}

TEST_F(Job, WritesOneFileAFrame) {
  for (const std::string format : {"cbf", "tiff", "hdf5"}) {
    auto document = plan();
    document["frames"] = 3;
    document["to"] = {{"kind", "files"}, {"folder", folder_.string()}, {"format", format}};
    const auto done = run(document);
    ASSERT_TRUE(done.ok()) << done.error().message();
  }
  EXPECT_EQ(files(), 9U);
  for (const auto* name : {"run_000000.cbf", "run_000002.tif", "run_000001.h5"})
    EXPECT_GT(fs::file_size(folder_ / name), 1000U) << name;
}

TEST_F(Job, NeverOverwritesAFile) {
  for (const bool rename : {true, false}) {
    std::ofstream(folder_ / "run_000001.cbf") << "mine";
    auto document = plan();
    document["to"] = {{"kind", "files"}, {"folder", folder_.string()}, {"rename", rename}};
    const auto done = run(document);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code(), Errc::already_exists);
    EXPECT_NE(done.error().message().find("run_000001.cbf"), std::string::npos) << done.error().message();
    std::string content;
    std::ifstream(folder_ / "run_000001.cbf") >> content;
    EXPECT_EQ(content, "mine");
    EXPECT_EQ(files(), 2U) << "only frame 0 and the file that was there";
    fs::remove(folder_ / "run_000000.cbf");
  }
}

TEST_F(Job, NamesAFolderThatIsMissing) {
  auto document = plan();
  document["to"] = {{"kind", "files"}, {"folder", (folder_ / "absent").string()}};
  const auto done = run(document);
  EXPECT_EQ(done.error().code(), Errc::not_found);
  EXPECT_NE(done.error().message().find("absent"), std::string::npos);
}

TEST_F(Job, ReplaysAndCyclesImages) {
  const auto path = (folder_ / "images.npy").string();
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1, 3), }\n";
  std::ofstream file(path, std::ios::binary);
  file << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size()) << '\0' << header
       << "aaaabbbbccccddddeeeeffff";
  file.close();
  MemorySink sink;
  auto document = plan();
  document["replay"] = path;
  document["frames"] = 5;
  document["detector"] = {{"name", "x"}, {"rows", 1}, {"columns", 3}, {"type", "float32"}};
  const auto source = listen(sink, document);
  const auto done = run(document);
  source->stop();
  ASSERT_TRUE(done.ok()) << done.error().message();
  EXPECT_EQ(as_text(sink.frames.at(3).payload), "ddddeeeeffff");
  EXPECT_EQ(as_text(sink.frames.at(4).payload), "aaaabbbbcccc");

  document["detector"]["rows"] = 2;
  EXPECT_EQ(run(document).error().code(), Errc::mismatch);
}

TEST_F(Job, RefusesARatioThatCannotBeHad) {
  auto document = plan();
  document["ratio"] = 5000;
  document["to"] = {{"kind", "tcp"}};
  EXPECT_EQ(run(document).error().code(), Errc::invalid_argument);
}

}  // namespace
}  // namespace penstock::detector
