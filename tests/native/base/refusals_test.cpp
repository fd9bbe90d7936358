/// What a file system answers to a call that it refuses, and the answers of files.

#include "base/files/refusals.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <vector>

#include "../support/asked_calls.hpp"
#include "../support/page_cache.hpp"
#include "base/errno_words.hpp"
#include "base/files/env.hpp"

namespace penstock {
namespace {

constexpr int kernels_own = errno_not_supported;

/// Every error that a system call can answer with, but these.
std::vector<int> answers_but(const std::vector<int>& others) {
  std::vector<int> answers;
  for (int error = 1; error <= EHWPOISON; ++error)
    if (std::find(others.begin(), others.end(), error) == others.end()) answers.push_back(error);
  answers.push_back(kernels_own);
  return answers;
}

class RefusalsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("penstock-refusals-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    listen();
  }
  void TearDown() override {
    set_refusal_listener({});
    std::filesystem::remove_all(folder_);
  }

  /// Each refusal counts as the first one again.
  void listen() {
    noted_.clear();
    set_refusal_listener([this](const Refusal& refusal) { noted_.push_back(refusal); });
  }
  std::string path(const std::string& name) const { return folder_ / name; }
  std::shared_ptr<File> make(const std::string& name, bool direct = false) const {
    return posix_env().open(path(name), {.mode = OpenOptions::Mode::create_or_truncate, .direct = direct}).value();
  }
  /// Noted once, and with the words of this error.
  void expect_noted(Aid aid, int error) const {
    ASSERT_EQ(noted_.size(), 1u);
    EXPECT_EQ(noted_[0].aid, aid);
    EXPECT_EQ(noted_[0].reason, reason_of_errno(error));
    EXPECT_NE(text_of(noted_[0]).find(path("a")), std::string::npos);
  }
  /// Does `work` while each call of this number fails so. False if this machine does not allow that.
  static bool with_error(int number, int error, const std::function<void()>& work) {
    return testing::with_answers(
        number, [error](const seccomp_data&) { return testing::Answer(-error); }, work);
  }
  /// Does `work` once for each error, while each call of this number fails with it. False as above.
  static bool with_each(int number, const std::vector<int>& errors, const std::function<void(int)>& work) {
    std::atomic<int> error{0};
    return testing::with_answers(
        number, [&](const seccomp_data&) { return testing::Answer(-error); },
        [&] {
          for (const int each : errors) {
            error = each;
            work(each);
          }
        });
  }

  std::filesystem::path folder_;
  std::vector<Refusal> noted_;
};

/// Page-aligned, and no two pages alike.
Bytes pages() {
  alignas(page_bytes) static std::byte memory[4 * page_bytes];
  for (std::size_t i = 0; i < sizeof memory; ++i) memory[i] = static_cast<std::byte>(i / 5);
  return memory;
}

std::vector<std::byte> content_of(const std::string& path) {
  auto file = posix_env().open(path, {}).value();
  std::vector<std::byte> all(file->size().value());
  EXPECT_EQ(file->read_at(all, 0).value(), all.size());
  return all;
}

TEST_F(RefusalsTest, AFileWithoutLocksIsUsedWithoutThem) {
  const auto file = make("a");
  const auto use = [&](int error) {
    listen();
    const auto exclusive = file->lock(true), shared = file->lock(false), unlocked = file->unlock();
    EXPECT_TRUE(exclusive.ok()) << exclusive.error().message();
    EXPECT_TRUE(shared.ok()) << shared.error().message();
    EXPECT_TRUE(unlocked.ok()) << unlocked.error().message();
    expect_noted(Aid::lock, error);
  };
  if (!with_each(SYS_flock, answers_but({EWOULDBLOCK, EBUSY, EDEADLK, EIO, ESTALE, EBADF}), use))
    GTEST_SKIP() << "seccomp does not ask here";
}

TEST_F(RefusalsTest, ALockThatAnotherHoldsAndABrokenStorageAreErrors) {
  const auto file = make("a");
  const std::pair<int, bool> answers[] = {{EWOULDBLOCK, true}, {EBUSY, true},   {EDEADLK, true},
                                          {EIO, false},        {ESTALE, false}, {EBADF, false}};
  for (const auto& [error, is_held] : answers) {
    Result<void> locked;
    if (!with_error(SYS_flock, error, [&] { locked = file->lock(true); })) GTEST_SKIP() << "seccomp does not ask here";
    ASSERT_FALSE(locked.ok()) << error;
    EXPECT_EQ(locked.error().code() == Errc::locked, is_held) << error;
  }
  EXPECT_TRUE(noted_.empty());
}

TEST_F(RefusalsTest, AFileWithoutDirectIoGoesThroughThePageCacheFromTheStart) {
  if (testing::is_in_memory(folder_)) GTEST_SKIP() << "what lies in memory has no direct I/O";
  for (const int error : {EINVAL, EOPNOTSUPP, kernels_own, EPERM, ENOSYS}) {
    listen();
    Result<std::shared_ptr<File>> opened = make_error(Errc::internal, "not opened");
    const auto refuse = [&](const seccomp_data& call) -> testing::Answer {
      if ((call.args[2] & O_DIRECT) != 0) return -error;
      return std::nullopt;
    };
    const bool asked = testing::with_answers(SYS_openat, refuse, [&] {
      opened = posix_env().open(path("a"), {.mode = OpenOptions::Mode::create_or_truncate, .direct = true});
    });
    if (!asked) GTEST_SKIP() << "seccomp does not ask here";
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    EXPECT_FALSE((*opened)->direct());
    EXPECT_TRUE(write_at(**opened, pages().subspan(3, 100), 7).ok()) << "no alignment is needed";
    expect_noted(Aid::direct, error);
  }
}

TEST_F(RefusalsTest, AFileWhoseDirectTransfersAreRefusedGoesOnThroughThePageCache) {
  if (testing::is_in_memory(folder_)) GTEST_SKIP() << "what lies in memory has no direct I/O";
  for (const int error : {EINVAL, EOPNOTSUPP, kernels_own}) {
    for (const int number : {SYS_pwritev, SYS_pread64}) {
      listen();
      const auto file = make("a", true);
      ASSERT_TRUE(file->direct()) << "the test needs a file system with direct I/O";
      ASSERT_TRUE(write_at(*file, pages(), 0).ok());
      const auto refuse = [&](const seccomp_data& call) -> testing::Answer {
        if ((::fcntl(static_cast<int>(call.args[0]), F_GETFL) & O_DIRECT) != 0) return -error;
        return std::nullopt;
      };
      std::vector<std::byte> back(2 * pages().size());
      auto* const first =
          reinterpret_cast<std::byte*>(align_up(reinterpret_cast<std::uintptr_t>(back.data()), page_bytes));
      Result<void> written;
      Result<std::size_t> read = std::size_t{0};
      const bool asked = testing::with_answers(number, refuse, [&] {
        written = write_at(*file, pages(), pages().size());
        read = file->read_at(MutableBytes(first, page_bytes), 0);
      });
      if (!asked) GTEST_SKIP() << "seccomp does not ask here";
      ASSERT_TRUE(written.ok()) << written.error().message();
      ASSERT_TRUE(read.ok()) << read.error().message();
      EXPECT_FALSE(file->direct());
      expect_noted(Aid::direct, error);
      const auto all = content_of(path("a"));
      ASSERT_EQ(all.size(), 2 * pages().size());
      EXPECT_TRUE(std::equal(pages().begin(), pages().end(), all.begin()));
      EXPECT_TRUE(
          std::equal(pages().begin(), pages().end(), all.begin() + static_cast<std::ptrdiff_t>(pages().size())));
    }
  }
}

TEST_F(RefusalsTest, AWriteThatIsRefusedWithoutDirectIoIsAnError) {
  const auto file = make("a");
  Result<void> written;
  if (!with_error(SYS_pwritev, EINVAL, [&] { written = write_at(*file, pages(), 0); }))
    GTEST_SKIP() << "seccomp does not ask here";
  EXPECT_FALSE(written.ok());
  EXPECT_TRUE(noted_.empty());
}

TEST_F(RefusalsTest, AFileWhoseSpaceCannotBeReservedGrowsAllTheSame) {
  if (!make("a")->reserves()) GTEST_SKIP() << "this file system reserves nothing";
  const auto grow = [&](int error) {
    listen();
    const auto file = make("a");
    const auto reserved = file->reserve(0, 1 << 20);
    ASSERT_TRUE(reserved.ok()) << reserved.error().message();
    EXPECT_EQ(file->size().value(), 1u << 20);
    EXPECT_FALSE(file->reserves()) << "the store has to write zeros where it needs space";
    expect_noted(Aid::reserve, error);
  };
  if (!with_each(SYS_fallocate, answers_but({ENOSPC, EDQUOT, EFBIG, EIO}), grow))
    GTEST_SKIP() << "seccomp does not ask here";
}

TEST_F(RefusalsTest, AFullOrBrokenStorageThatReservesNothingIsAnError) {
  const auto file = make("a");
  if (!file->reserves()) GTEST_SKIP() << "this file system reserves nothing";
  for (const int error : {ENOSPC, EDQUOT, EFBIG, EIO}) {
    Result<void> reserved;
    if (!with_error(SYS_fallocate, error, [&] { reserved = file->reserve(0, 1 << 20); }))
      GTEST_SKIP() << "seccomp does not ask here";
    ASSERT_FALSE(reserved.ok()) << error;
    EXPECT_EQ(reserved.error().message(), errno_error(error, "reserve 1048576 bytes at 0 of " + path("a")).message());
    EXPECT_TRUE(file->reserves());
  }
  EXPECT_TRUE(noted_.empty());
}

TEST_F(RefusalsTest, CallsThatASignalInterruptsAreMadeAgain) {
  const auto file = make("a");
  ASSERT_TRUE(write_at(*file, pages(), 0).ok());
  struct Interrupted {
    int number;
    std::function<Result<void>()> call;
  };
  const Interrupted calls[] = {
      {SYS_flock, [&] { return file->lock(true); }},
      {SYS_flock, [&] { return file->unlock(); }},
      {SYS_fallocate, [&] { return file->reserve(0, 1 << 20); }},
      {SYS_pwritev, [&] { return write_at(*file, pages(), 0); }},
      {SYS_ftruncate, [&] { return file->truncate(page_bytes); }},
      {SYS_fdatasync, [&] { return file->sync(); }},
      {SYS_fsync, [&] { return file->sync_name(); }},
  };
  for (const auto& each : calls) {
    int interrupted = 0;
    const auto twice = [&](const seccomp_data&) -> testing::Answer {
      if (interrupted++ < 2) return -EINTR;
      return std::nullopt;
    };
    Result<void> done;
    if (!testing::with_answers(each.number, twice, [&] { done = each.call(); }))
      GTEST_SKIP() << "seccomp does not ask here";
    EXPECT_TRUE(done.ok()) << done.error().message();
    EXPECT_GT(interrupted, 2) << "call " << each.number;
  }
  EXPECT_TRUE(noted_.empty());
}

TEST_F(RefusalsTest, AFileSystemIsNotedOnceForEachThingThatItRefuses) {
  const auto one = make("a"), other = make("b");
  const auto lock_both = [&] { (void)(one->lock(true).ok() && other->lock(true).ok()); };
  if (!with_error(SYS_flock, ENOLCK, lock_both)) GTEST_SKIP() << "seccomp does not ask here";
  ASSERT_EQ(noted_.size(), 1u);
  EXPECT_NE(text_of(noted_[0]).find("-o flock"), std::string::npos);
  EXPECT_NE(text_of({Aid::direct, "/data/a.h5", ""}).find("store.direct"), std::string::npos);
  EXPECT_NE(text_of({Aid::reserve, "/data/a.h5", ""}).find("store.extent_bytes"), std::string::npos);
}

}  // namespace
}  // namespace penstock
