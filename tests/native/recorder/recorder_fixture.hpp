/// A folder, a team of one rank and a stream of events for tests that make recorders. Ends with no HDF5 object open.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "recorder/service/recorder.hpp"

namespace penstock::recorder {

class RecorderFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string suite = ::testing::UnitTest::GetInstance()->current_test_info()->test_suite_name();
    folder_ = std::filesystem::temp_directory_path() / ("penstock-" + suite + "-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    out_ = std::tmpfile();
    events_ = std::make_unique<Events>(out_);
  }
  void TearDown() override {
    EXPECT_EQ(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL), 0) << "HDF5 objects stay open";
    std::fclose(out_);
    std::filesystem::remove_all(folder_);
  }

  /// One series, uncompressed, in little memory.
  Config small_config() const {
    Config config;
    config.folder = folder_;
    config.codec.encoding = Encoding::none;
    config.pool_bytes = 128 << 20;
    config.end_timeout_s = 0.2;
    config.series_limit = 1;
    config.sources.push_back({});
    return config;
  }

  std::filesystem::path folder_;
  std::FILE* out_ = nullptr;
  std::unique_ptr<Events> events_;
  const std::unique_ptr<job::Job> job_ = job::make_alone();
  Team team_{*job_};
};

}  // namespace penstock::recorder
