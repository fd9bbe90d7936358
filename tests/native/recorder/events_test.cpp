#include "recorder/service/events.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace penstock::recorder {
namespace {

/// A pipe that has room for a page.
class EventsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::pipe2(ends_, O_CLOEXEC), 0);
    ASSERT_GT(::fcntl(ends_[1], F_SETPIPE_SZ, 4096), 0);
    out_ = ::fdopen(ends_[1], "w");
  }
  void TearDown() override { ::close(ends_[0]); }

  /// Until nobody writes any more.
  std::vector<nlohmann::json> all() {
    std::string text;
    char part[4096];
    for (ssize_t got = 0; (got = ::read(ends_[0], part, sizeof part)) > 0;)
      text.append(part, static_cast<std::size_t>(got));
    std::vector<nlohmann::json> lines;
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
      lines.push_back(nlohmann::json::parse(text.substr(at, end - at)));
    return lines;
  }

  int ends_[2] = {-1, -1};
  std::FILE* out_ = nullptr;
};

TEST_F(EventsTest, AReaderThatTakesNothingHoldsNobodyUpAndGetsAllInTheirOrder) {
  constexpr std::size_t count = 100;
  std::future<std::vector<nlohmann::json>> read;
  {
    Events events(out_);
    for (std::size_t i = 0; i < count; ++i) {
      events.emit("one", {{"number", i}, {"text", std::string(i % 7 == 0 ? 10'000 : 100, 'x')}});
      events.emit_if_heard("other", {{"number", i}});
    }
    read = std::async(std::launch::async, [this] { return all(); });
  }
  std::fclose(out_);
  std::size_t next = 0;
  for (const auto& line : read.get()) {
    if (line["event"] == "one") {
      EXPECT_EQ(line["number"], next++);
    }
  }
  EXPECT_EQ(next, count);
}

TEST_F(EventsTest, AReaderThatHasGoneIsNoError) {
  ::signal(SIGPIPE, SIG_IGN);
  {
    Events events(out_);
    for (int i = 0; i < 100; ++i) events.emit("one", {{"number", i}});
    ::close(std::exchange(ends_[0], -1));
  }
  std::fclose(out_);
}

}  // namespace
}  // namespace penstock::recorder
