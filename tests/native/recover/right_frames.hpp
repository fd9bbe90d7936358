/// What plain HDF5 shows of a file of simulated frames. Nothing of Penstock is asked.
#pragma once

#include <hdf5.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "../check/check_fixture.hpp"
#include "recover/recover.hpp"

namespace penstock::recover::testing {

/// A column that the file gets when it is closed: its values begin with a later frame.
inline constexpr const char* late_path = "/entry/metadata/shutter";
inline std::int64_t late_value_of(std::uint64_t frame) { return static_cast<std::int64_t>(frame) + 100; }

/// Recovers the file. Where its reader does not respond for `patience_s`, the machine may be busy: then once more with
/// more patience.
inline Result<RecoverReport> recover_patiently(const std::string& file, double patience_s) {
  RecoverPlan plan;
  plan.file = file;
  for (plan.index_timeout_s = patience_s;; plan.index_timeout_s = std::min(60.0, 4 * plan.index_timeout_s)) {
    auto report = run_recover(
        posix_env(), plan, [](auto, auto, const auto&) {}, [] { return false; });
    const bool is_undecided = !report.ok() && report.error().message().find("did not respond") != std::string::npos;
    if (!is_undecided || plan.index_timeout_s >= 60) return report;
  }
}

/// The frames that are as they were sent. The test fails where one is neither that nor empty.
inline std::set<std::uint64_t> right_frames(const std::string& path) {
  using namespace check::testing;
  std::set<std::uint64_t> right;
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  EXPECT_GE(file, 0) << "plain HDF5 does not open it";
  if (file < 0) return right;
  const hid_t dataset = H5Dopen2(file, "/entry/data/data", H5P_DEFAULT), space = H5Dget_space(dataset);
  EXPECT_GE(dataset, 0) << "plain HDF5 finds no frames";
  if (dataset < 0) {
    H5Fclose(file);
    return right;
  }
  std::vector<std::byte> pixels(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)) * 2);
  EXPECT_GE(H5Dread(dataset, H5T_NATIVE_UINT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, pixels.data()), 0);
  for (std::uint64_t frame = 0; frame < pixels.size() / frame_bytes; ++frame) {
    const auto of_frame = Bytes(pixels).subspan(frame * frame_bytes, frame_bytes);
    const auto expected = simulated(frame);
    if (std::equal(of_frame.begin(), of_frame.end(), expected.begin())) {
      right.insert(frame);
      continue;
    }
    const bool fill = std::all_of(of_frame.begin(), of_frame.end(), [](auto byte) { return byte == std::byte{0}; });
    EXPECT_TRUE(fill) << "frame " << frame << " is false";
  }
  H5Sclose(space);
  H5Dclose(dataset);
  H5Fclose(file);
  return right;
}

/// A column of numbers, or of arrays of them one after another.
inline std::vector<std::int64_t> column_of(const std::string& path, const char* column) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, column, H5P_DEFAULT), space = H5Dget_space(dataset);
  EXPECT_GE(dataset, 0) << "plain HDF5 finds no " << column;
  std::vector<std::int64_t> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  EXPECT_GE(H5Dread(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  H5Sclose(space);
  H5Dclose(dataset);
  H5Fclose(file);
  return values;
}

}  // namespace penstock::recover::testing
