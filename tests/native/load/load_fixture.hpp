/// Runs plans as penstock-load does, in a folder of the test's own.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>

#include "load/run.hpp"

namespace penstock::load {

constexpr std::int64_t millisecond = 1'000'000;

/// As `ulimit -f`: a write that goes beyond it is cut short there, and the next one fails.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::uint64_t bytes) : signal_before_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit lower{bytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &lower), 0);
  }
  ~FileSizeLimit() {
    (void)::setrlimit(RLIMIT_FSIZE, &before_);
    (void)std::signal(SIGXFSZ, signal_before_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*const signal_before_)(int);
};

class LoadTest : public ::testing::Test {
 protected:
  static std::filesystem::path folder_of_test() {
    return std::filesystem::temp_directory_path() / ("penstock-load-" + std::to_string(::getpid()));
  }
  void SetUp() override {
    folder_ = folder_of_test();
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Result<Outcome> run(const Json& plan, Env& env = posix_env()) {
    PEN_ASSIGN(const auto parsed, LoadPlan::from_json(plan.dump()));
    const auto emit = [this](std::string_view, const Json& fields) { on_progress(fields); };
    const RunContext context{env, emit, stop};
    auto outcome = run_load(parsed, context);
    run_made = context.made->to_json();
    return outcome;
  }
  /// The document; the test fails where there is none.
  Json document_of(const Json& plan, Env& env = posix_env()) {
    auto outcome = run(plan, env);
    EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().message());
    return outcome ? std::move(outcome->document) : Json();
  }

  std::filesystem::path folder_;
  std::atomic<bool> stop{false};
  Json run_made;  ///< what the last run created
  std::function<void(const Json&)> on_progress = [](const Json&) {};
};

}  // namespace penstock::load
