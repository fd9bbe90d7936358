#include "recorder/config/file_name.hpp"

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
  EXPECT_EQ(path_for("../x").value(), "/data/_.._x.h5");
  EXPECT_EQ(path_for("/etc/passwd").value(), "/data/_etc_passwd.h5");
  EXPECT_EQ(path_for("a/../../b").value(), "/data/a_.._.._b.h5");
  EXPECT_EQ(path_for(std::string("a\0b", 3)).value(), "/data/a_b.h5");
  EXPECT_EQ(path_for("..", "{series_unique_id}").value(), "/data/_..");
}

TEST(FileName, IsNeitherHiddenNorAnOption) {
  EXPECT_EQ(path_for(".h").value(), "/data/_.h.h5");
  EXPECT_EQ(path_for("-rf").value(), "/data/_-rf.h5");
  EXPECT_FALSE(path_for("", "{series_unique_id}").ok());
}

TEST(FileName, LongOnesAreCutAndStayApart) {
  const std::string alike(255, 'a');
  const auto one = path_for(alike + "1").value();
  const auto two = path_for(alike + "2").value();
  EXPECT_EQ(one.size(), std::string("/data/").size() + 200);
  EXPECT_EQ(one.substr(one.size() - 3), ".h5");
  EXPECT_NE(one, two);
  EXPECT_EQ(one, path_for(alike + "1").value());
  EXPECT_EQ(path_for(std::string(197, 'a')).value(), "/data/" + std::string(197, 'a') + ".h5");
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
