#include "recorder/config/file_name.hpp"

#include <gtest/gtest.h>

#include <set>

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

/// A changed name without the checksum that it ends in.
std::string changed(const std::string& unique_id) {
  const auto path = path_for(unique_id, "{series_unique_id}").value();
  const auto cut = path.size() - 9;
  EXPECT_EQ(path[cut], '-') << path;
  return path.substr(0, cut);
}

TEST(FileName, NeverLeavesTheFolder) {
  EXPECT_EQ(changed("../x"), "/data/_.._x");
  EXPECT_EQ(changed("/etc/passwd"), "/data/_etc_passwd");
  EXPECT_EQ(changed("a/../../b"), "/data/a_.._.._b");
  EXPECT_EQ(changed(std::string("a\0b", 3)), "/data/a_b");
  EXPECT_EQ(changed(".."), "/data/_..");
}

TEST(FileName, IsNeitherHiddenNorAnOption) {
  EXPECT_EQ(changed(".h"), "/data/_.h");
  EXPECT_EQ(changed("-rf"), "/data/_-rf");
  EXPECT_FALSE(path_for("", "{series_unique_id}").ok());
}

TEST(FileName, DiffersForNamesThatDifferInReplacedCharactersOnly) {
  const std::set<std::string> paths{
      path_for("a/b").value(),       path_for("a b").value(),       path_for("a_b").value(),
      path_for("a\xC3\x9F").value(), path_for("a\xC3\xA4").value(), path_for("-x").value(),
      path_for("_-x").value(),       path_for(".x").value(),        path_for("_.x").value()};
  EXPECT_EQ(paths.size(), 9);
  EXPECT_EQ(path_for("a/b").value(), path_for("a/b").value());
  EXPECT_EQ(path_for("a_b").value(), "/data/a_b.h5") << "as it is";
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
  EXPECT_EQ(changed("run 7; rm -rf *\n"), "/data/run_7__rm_-rf___");
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
