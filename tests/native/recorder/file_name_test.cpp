#include "recorder/file_name.hpp"

#include <gtest/gtest.h>

namespace penstock::recorder {
namespace {

Result<std::string> path_for(const std::string& unique_id, const std::string& name_template = "{series_unique_id}.h5") {
  Series series;
  series.id = 42;
  series.unique_id = unique_id;
  return file_path("/data", name_template, series, 1'700'000'000'000'000'000);
}

TEST(FileName, FillsInTheTemplate) {
  EXPECT_EQ(path_for("thaumatin_1").value(), "/data/thaumatin_1.h5");
  EXPECT_EQ(path_for("x", "{date}_{series_id}_{series_unique_id}.nxs").value(), "/data/20231114-221320_42_x.nxs");
}

TEST(FileName, NeverLeavesTheFolder) {
  for (const std::string hostile : {"../x", "/etc/passwd", "a/../../b", "..\x00/x", "a/b"}) {
    auto path = path_for(hostile);
    ASSERT_FALSE(path.ok()) << hostile;
    EXPECT_EQ(path.error().code(), Errc::refused);
    EXPECT_NE(path.error().message().find("series_unique_id"), std::string::npos);
  }
  EXPECT_FALSE(path_for(std::string("a\0b", 3)).ok());
}

TEST(FileName, RefusesHiddenEmptyAndEndlessNames) {
  EXPECT_FALSE(path_for("..").ok());
  EXPECT_FALSE(path_for("", "{series_unique_id}").ok());
  EXPECT_FALSE(path_for(".h").ok());
  EXPECT_FALSE(path_for(std::string(5000, 'a')).ok());
}

TEST(FileName, AwkwardCharactersBecomeUnderscores) {
  EXPECT_EQ(path_for("run 7; rm -rf *\n").value(), "/data/run_7__rm_-rf___.h5");
}

TEST(FileName, UnknownPlaceholdersAreNamed) {
  auto path = path_for("x", "{sample}.h5");
  ASSERT_FALSE(path.ok());
  EXPECT_NE(path.error().message().find("{sample}"), std::string::npos);
  EXPECT_FALSE(path_for("x", "{series_id").ok());
  EXPECT_FALSE(path_for("x", "sub/{series_id}").ok());
}

}  // namespace
}  // namespace penstock::recorder
