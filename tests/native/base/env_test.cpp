#include "base/env.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

namespace penstock {
namespace {

class EnvTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("penstock-env-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const char* name) const { return folder_ / name; }
  std::filesystem::path folder_;
};

TEST_F(EnvTest, WritesPiecesAndReadsThemBack) {
  auto file = posix_env().open(path("a"), {.mode = OpenOptions::Mode::create_new});
  ASSERT_TRUE(file.ok());
  std::string one = "one", two = "two!";
  const iovec pieces[] = {{one.data(), one.size()}, {two.data(), two.size()}};
  ASSERT_TRUE((*file)->write_at(pieces, 5).ok());
  std::vector<std::byte> back(20);
  auto n = (*file)->read_at(back, 5);
  ASSERT_TRUE(n.ok());
  EXPECT_EQ(as_text(Bytes(back).first(*n)), "onetwo!");
  EXPECT_EQ((*file)->size().value(), 12u);
}

TEST_F(EnvTest, ListsAFolderAndRemovesAFile) {
  for (const char* name : {"a", "b"})
    ASSERT_TRUE(posix_env().open(path(name), {.mode = OpenOptions::Mode::create_new}).ok());
  auto names = posix_env().list(folder_).value();
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(posix_env().remove(path("a")).ok());
  EXPECT_EQ(posix_env().list(folder_).value(), std::vector<std::string>{"b"});
  EXPECT_EQ(posix_env().remove(path("a")).error().code(), Errc::not_found);
  EXPECT_EQ(posix_env().list(path("none")).error().code(), Errc::not_found);
}

TEST_F(EnvTest, CreateNewRefusesAFileThatIsThere) {
  ASSERT_TRUE(posix_env().open(path("a"), {.mode = OpenOptions::Mode::create_new}).ok());
  auto again = posix_env().open(path("a"), {.mode = OpenOptions::Mode::create_new});
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code(), Errc::already_exists);
}

TEST_F(EnvTest, MissingFolderIsNotFoundAndNamesThePath) {
  auto file = posix_env().open(path("no/such/file"), {.mode = OpenOptions::Mode::create_new});
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code(), Errc::not_found);
  EXPECT_NE(file.error().message().find("no/such/file"), std::string::npos);
}

TEST_F(EnvTest, SecondExclusiveLockIsRefused) {
  auto first = posix_env().open(path("a"), {.mode = OpenOptions::Mode::create_new}).value();
  auto second = posix_env().open(path("a"), {.mode = OpenOptions::Mode::update}).value();
  ASSERT_TRUE(first->lock(true).ok());
  auto refused = second->lock(true);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Errc::locked);
  ASSERT_TRUE(first->unlock().ok());
  EXPECT_TRUE(second->lock(true).ok());
}

TEST_F(EnvTest, ReserveGrowsTheFileAndNeverShrinksIt) {
  auto file = posix_env().open(path("a"), {.mode = OpenOptions::Mode::create_new}).value();
  ASSERT_TRUE(file->reserve(0, 1 << 20).ok());
  EXPECT_EQ(file->size().value(), 1u << 20);
  ASSERT_TRUE(file->reserve(0, 4096).ok());
  EXPECT_EQ(file->size().value(), 1u << 20);
}

}  // namespace
}  // namespace penstock
