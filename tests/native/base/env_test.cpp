#include "base/files/env.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/uio.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "../support/asked_calls.hpp"
#include "../support/page_cache.hpp"

namespace penstock {
namespace {

class EnvTest : public ::testing::Test {
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

/// A file is renamed to a name that is free, and not to one that something has; then it keeps its own.
void expect_renamed_to_free_names(const std::filesystem::path& folder) {
  std::filesystem::create_symlink("nowhere", folder / "link");
  std::filesystem::create_directory(folder / "folder");
  const auto user = posix_env().open(folder / "user", {.mode = OpenOptions::Mode::create_new}).value();
  const auto file = posix_env().open(folder / "a", {.mode = OpenOptions::Mode::create_new}).value();
  for (const auto* taken : {"user", "link", "folder"}) {
    const auto refused = file->rename(folder / taken, IfTaken::fail);
    ASSERT_FALSE(refused.ok()) << taken;
    EXPECT_EQ(refused.error().code(), Errc::already_exists) << taken << ": " << refused.error().message();
    EXPECT_TRUE(file->still_named());
  }
  EXPECT_TRUE(user->still_named());
  ASSERT_TRUE(file->rename(folder / "free", IfTaken::fail).ok());
  EXPECT_TRUE(file->still_named());
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  ASSERT_TRUE(file->rename(folder / "user", IfTaken::replace).ok());
  EXPECT_TRUE(file->still_named());
  EXPECT_FALSE(user->still_named());
}

TEST_F(EnvTest, ARenameTakesTheNameOfAnotherFileOnlyWhereItMay) { expect_renamed_to_free_names(folder_); }

TEST_F(EnvTest, ARenameNeedsNoHelpOfTheFileSystem) {
  const auto unknown = [](const seccomp_data&) -> testing::Answer { return -EINVAL; };
  if (!testing::with_answers(SYS_renameat2, unknown, [&] { expect_renamed_to_free_names(folder_); }))
    GTEST_SKIP() << "seccomp does not ask here";
}

TEST_F(EnvTest, ReserveGrowsTheFileAndNeverShrinksIt) {
  auto file = posix_env().open(path("a"), {.mode = OpenOptions::Mode::create_new}).value();
  ASSERT_TRUE(file->reserve(0, 1 << 20).ok());
  EXPECT_EQ(file->size().value(), 1u << 20);
  ASSERT_TRUE(file->reserve(0, 4096).ok());
  EXPECT_EQ(file->size().value(), 1u << 20);
}

/// Eight pages that are unlike each other, where direct I/O takes them from.
MutableBytes eight_pages() {
  alignas(page_bytes) static std::byte pages[8 * page_bytes];
  for (std::size_t i = 0; i < sizeof pages; ++i) pages[i] = static_cast<std::byte>(i / 7);
  return pages;
}

/// Where each call began and what came of it, of a write that the storage takes in pieces of these sizes.
std::vector<std::uint64_t> offsets_of_a_write(const std::string& path, bool direct, std::vector<std::size_t> sizes) {
  const Bytes all = eight_pages();
  const auto file = posix_env().open(path, {.mode = OpenOptions::Mode::create_new, .direct = direct}).value();
  const int plain = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  std::vector<std::uint64_t> offsets;
  const auto in_pieces = [&](const seccomp_data& call) -> testing::Answer {
    const auto piece = testing::first_piece(call);
    const auto size = offsets.size() < sizes.size() ? std::min(sizes[offsets.size()], piece.iov_len) : piece.iov_len;
    offsets.push_back(call.args[3]);
    return ::pwrite(plain, piece.iov_base, size, static_cast<off_t>(call.args[3]));
  };
  Result<void> written;
  const bool asked = testing::with_answers(SYS_pwritev, in_pieces, [&] { written = write_at(*file, all, 0); });
  ::close(plain);
  if (!asked) return {};
  EXPECT_TRUE(written.ok()) << written.error().message();
  std::vector<std::byte> back(all.size());
  EXPECT_EQ(posix_env().open(path, {}).value()->read_at(back, 0).value(), back.size());
  EXPECT_TRUE(std::equal(back.begin(), back.end(), all.begin()));
  EXPECT_EQ(file->direct(), direct) << "the test needs a file system with direct I/O";
  return offsets;
}

TEST_F(EnvTest, AShortWritePastThePageCacheGoesOnAtAPage) {
  const std::vector<std::size_t> sizes = {2 * page_bytes + 100, page_bytes, 100, 3 * page_bytes};
  const auto direct = offsets_of_a_write(path("direct"), true, sizes);
  if (direct.empty()) GTEST_SKIP() << "seccomp does not ask here";
  EXPECT_EQ(direct, (std::vector<std::uint64_t>{0, 8192, 12288, 12388, 24576}));
  EXPECT_EQ(offsets_of_a_write(path("plain"), false, sizes),
            (std::vector<std::uint64_t>{0, 8292, 12388, 12488, 24776}));
}

TEST_F(EnvTest, WrittenBytesLeaveThePageCacheWhenEnoughFollow) {
  if (testing::is_in_memory(folder_)) GTEST_SKIP() << "what lies in memory stays there";
  constexpr std::uint64_t step = 8 << 20;
  constexpr std::uint64_t steps = cached_behind_bytes / step + 4;
  const auto file = posix_env().open(path("a"), {.mode = OpenOptions::Mode::create_new}).value();
  const std::vector<std::byte> data(step, std::byte{7});
  for (std::uint64_t i = 0; i < steps; ++i) {
    ASSERT_TRUE(write_at(*file, data, i * step).ok());
    ASSERT_TRUE(file->sync().ok());
    file->start_writeback(i * step, step);
  }
  // The kernel may keep a page that another process's work is about to move, and may drop any of the others.
  const auto cached = testing::cached_pages(path("a"));
  const auto end_of_first = cached.begin() + 4 * step / page_bytes;
  const auto left = std::count(cached.begin(), end_of_first, true);
  const auto kept = std::count(end_of_first, cached.end(), true);
  EXPECT_LT(left, (end_of_first - cached.begin()) / 100);
  EXPECT_GT(kept, (cached.end() - end_of_first) / 2);
  std::vector<std::byte> back(step);
  ASSERT_EQ(file->read_at(back, 0).value(), back.size());
  EXPECT_TRUE(back == data);
}

}  // namespace
}  // namespace penstock
