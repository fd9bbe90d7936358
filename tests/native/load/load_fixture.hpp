/// Runs plans as penstock-load does, in a folder of the test's own.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>

#include "load/run.hpp"

namespace penstock::load {

constexpr std::int64_t millisecond = 1'000'000;

class LoadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("penstock-load-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Result<Outcome> run(const Json& plan, Env& env = posix_env()) {
    PEN_ASSIGN(const auto parsed, LoadPlan::from_json(plan.dump()));
    const auto emit = [this](std::string_view, const Json& fields) { on_progress(fields); };
    return run_load(parsed, {env, emit, stop});
  }
  /// The document; the test fails where there is none.
  Json document_of(const Json& plan, Env& env = posix_env()) {
    auto outcome = run(plan, env);
    EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().message());
    return outcome ? std::move(outcome->document) : Json();
  }

  std::filesystem::path folder_;
  std::atomic<bool> stop{false};
  std::function<void(const Json&)> on_progress = [](const Json&) {};
};

}  // namespace penstock::load
