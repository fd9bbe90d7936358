/// Files with several transfers under way, and a kernel that takes no more for a while.
#include "load/backends/queued_file.hpp"

#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <vector>

#include "../support/asked_calls.hpp"
#include "load/workloads/content.hpp"
#include "load_fixture.hpp"

namespace penstock::load {
namespace {

using testing::Answer;
using testing::first_piece;
using testing::with_answers;

class QueuedFiles : public LoadTest {
 protected:
  static constexpr std::size_t block_bytes = 64 << 10;
  static constexpr unsigned depth = 4;

  Result<std::unique_ptr<StoredFile>> make(bool direct = false) {
    PEN_ASSIGN(auto file, posix_env().open(folder_ / "a", {.mode = OpenOptions::Mode::create_new, .direct = direct}));
    return make_queued_file(std::move(file), depth);
  }
  /// Block `number` begins on its way into the file.
  void begin(StoredFile& file, unsigned number) {
    const auto block = content_.block(ground_.bytes(), 0, number * block_bytes);
    EXPECT_TRUE(file.begin_write(number % depth, block, number * block_bytes).ok());
  }
  std::size_t right_blocks() {
    const auto file = posix_env().open(folder_ / "a", {}).value();
    std::vector<std::byte> stored(block_bytes);
    std::size_t right = 0;
    for (std::uint64_t offset = 0; *file->read_at(stored, offset) == block_bytes; offset += block_bytes)
      if (content_.is_block(stored, ground_.bytes(), 0, offset)) ++right;
    return right;
  }

  const Content content_{ContentKind::random, 1, block_bytes, 8};
  Memory ground_ = laid();

 private:
  Memory laid() const {
    auto memory = Memory::allocate(content_.ground_bytes()).value();
    content_.lay(memory.bytes());
    return memory;
  }
};

/// Calls of io_uring_enter that hand something over, told from those that only wait.
unsigned handed_over(const seccomp_data& call) { return static_cast<unsigned>(call.args[1]); }

TEST_F(QueuedFiles, AKernelThatHasNoMemoryForAMomentGetsItAllLater) {
  int calls = 0;
  // Never twice in a row: a busy machine may put more than the time between them that a kernel may be busy.
  const auto busy_for_a_moment = [&](const seccomp_data& call) -> Answer {
    if (handed_over(call) == 0 || ++calls % 2 == 0) return std::nullopt;
    return calls == 1 ? -EAGAIN : -EBUSY;
  };
  const bool asked = with_answers(SYS_io_uring_enter, busy_for_a_moment, [&] {
    const auto file = make();
    ASSERT_TRUE(file) << file.error().message();
    for (unsigned number = 0; number < depth; number += 2) {
      begin(**file, number);
      begin(**file, number + 1);
      for (int i = 0; i < 2; ++i) {
        const auto ended = (*file)->wait_for_one();
        ASSERT_TRUE(ended) << ended.error().message();
        EXPECT_EQ(ended->bytes.value(), block_bytes);
      }
    }
    EXPECT_TRUE((*file)->close().ok());
  });
  if (!asked) GTEST_SKIP() << "seccomp does not ask here";
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(right_blocks(), depth);
}

TEST_F(QueuedFiles, WhatTheKernelHasEndsAlthoughItTakesNoMore) {
  std::atomic<bool> busy{false};
  const auto takes_no_more = [&](const seccomp_data& call) -> Answer {
    return busy && handed_over(call) > 0 ? Answer(-EAGAIN) : std::nullopt;
  };
  Result<Ended> last = make_error(Errc::internal, "not asked");
  std::chrono::steady_clock::duration waited{};
  const bool asked = with_answers(SYS_io_uring_enter, takes_no_more, [&] {
    const auto file = make();
    ASSERT_TRUE(file) << file.error().message();
    for (unsigned number = 0; number < 3; ++number) begin(**file, number);
    ASSERT_TRUE((*file)->wait_for_one().ok());  // which hands over all three
    busy = true;
    begin(**file, 3);
    for (int ended = 0; ended < 2; ++ended) EXPECT_TRUE((*file)->wait_for_one().ok()) << "they were under way";
    const auto begun = std::chrono::steady_clock::now();
    last = (*file)->wait_for_one();
    waited = std::chrono::steady_clock::now() - begun;
  });
  if (!asked) GTEST_SKIP() << "seccomp does not ask here";
  ASSERT_FALSE(last);
  EXPECT_NE(last.error().message().find("hand 1 transfers to io_uring"), std::string::npos) << last.error().message();
  EXPECT_LT(waited, std::chrono::seconds(10)) << "nobody waits for ever";
  EXPECT_EQ(right_blocks(), 3U);
}

/// For the kernel a file that neither gives nor takes less than 8 bytes; a plain call finds what the test says.
class PickyFile final : public File {
 public:
  PickyFile(int descriptor, Bytes content) : descriptor_(descriptor), content_(content) {}
  Result<std::size_t> read_at(MutableBytes into, std::uint64_t offset) override {
    ++plain_calls;
    std::memcpy(into.data(), content_.data() + offset, into.size());
    return into.size();
  }
  Result<void> write_at(std::span<const iovec> pieces, std::uint64_t) override {
    for (const auto& piece : pieces) written += piece.iov_len;
    return {};
  }
  Result<void> sync() override { return {}; }
  Result<void> sync_name() override { return {}; }
  Result<void> truncate(std::uint64_t) override { return {}; }
  Result<void> reserve(std::uint64_t, std::uint64_t) override { return {}; }
  bool reserves() const override { return false; }
  Result<std::uint64_t> size() override { return content_.size(); }
  Result<void> lock(bool) override { return {}; }
  Result<void> unlock() override { return {}; }
  bool direct() const override { return false; }
  int descriptor() const override { return descriptor_; }
  bool still_named() const override { return true; }

  int plain_calls = 0;
  std::size_t written = 0;

 private:
  const int descriptor_;
  const Bytes content_;
};

TEST_F(QueuedFiles, WhatTheKernelFindsImpossibleIsTriedByThePlainCall) {
  constexpr std::size_t few_bytes = 4;
  const int picky = ::eventfd(1, EFD_CLOEXEC);
  ASSERT_GE(picky, 0);
  const auto content = ground_.bytes().first(few_bytes);
  for (const bool reads : {true, false}) {
    auto kept = std::make_shared<PickyFile>(picky, content);
    const auto file = make_queued_file(kept, depth);
    if (!file && file.error().code() == Errc::unsupported) GTEST_SKIP() << file.error().message();
    ASSERT_TRUE(file) << file.error().message();
    std::vector<std::byte> into(few_bytes);
    ASSERT_TRUE((reads ? (*file)->begin_read(0, into, 0) : (*file)->begin_write(0, content, 0)).ok());
    const auto ended = (*file)->wait_for_one();
    ASSERT_TRUE(ended) << ended.error().message();
    ASSERT_TRUE(ended->bytes) << ended->bytes.error().message();
    EXPECT_EQ(*ended->bytes, few_bytes);
    EXPECT_EQ(kept->plain_calls, reads ? 1 : 0);
    EXPECT_EQ(kept->written, reads ? 0 : few_bytes);
    EXPECT_EQ(std::equal(into.begin(), into.end(), content.begin()), reads);
  }
  ::close(picky);
}

TEST_F(QueuedFiles, MemoryStaysUntilTheKernelIsDoneWithItWhateverItSaysOfWaits) {
  std::atomic<bool> failing{false};
  std::atomic<int> failed{0};
  const auto waits_fail = [&](const seccomp_data&) -> Answer {
    if (!failing || failed == 50) return std::nullopt;
    ++failed;
    return -EAGAIN;
  };
  // A read of an empty pipe is under way for as long as the test likes.
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const bool asked = with_answers(SYS_io_uring_enter, waits_fail, [&] {
    auto reading = posix_env().open("/proc/self/fd/" + std::to_string(pipe[0]), {});
    ASSERT_TRUE(reading) << reading.error().message();
    auto file = make_queued_file(std::move(*reading), depth);
    ASSERT_TRUE(file) << file.error().message();
    std::vector<std::byte> into(16);
    for (const unsigned slot : {0U, 1U})
      ASSERT_TRUE((*file)->begin_read(slot, MutableBytes(into).subspan(slot * 8, 8), 0).ok());
    ASSERT_EQ(::write(pipe[1], "the one.", 8), 8);
    ASSERT_TRUE((*file)->wait_for_one().ok());
    std::atomic<bool> gone{false};
    std::thread late([&] {
      while (failed < 50 && !gone) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // so that an early end would be seen
      EXPECT_FALSE(gone) << "the kernel has the memory still";
      EXPECT_EQ(::write(pipe[1], "another.", 8), 8);
    });
    failing = true;
    file->reset();
    gone = true;
    late.join();
  });
  ::close(pipe[0]);
  ::close(pipe[1]);
  if (!asked) GTEST_SKIP() << "seccomp does not ask here";
  EXPECT_EQ(failed, 50);
}

TEST_F(QueuedFiles, WhatAShortWriteLeftOfAPageIsWrittenOnceMore) {
  std::vector<std::pair<std::uint64_t, std::size_t>> calls;
  const auto note = [&](const seccomp_data& call) -> Answer {
    calls.emplace_back(call.args[3], first_piece(call).iov_len);
    return std::nullopt;
  };
  const std::uint64_t limit = 2 * block_bytes + 3 * page_bytes + 512;
  const FileSizeLimit limited(limit);
  Result<Ended> cut = make_error(Errc::internal, "not asked");
  bool direct = false;
  const bool asked = with_answers(SYS_pwritev, note, [&] {
    const auto file = make(true);
    ASSERT_TRUE(file) << file.error().message();
    for (unsigned number = 0; number < 3; ++number) begin(**file, number);
    for (int i = 0; i < 3; ++i) {
      auto ended = (*file)->wait_for_one();
      ASSERT_TRUE(ended) << ended.error().message();
      if (ended->slot == 2) cut = std::move(ended);
    }
    direct = posix_env().open(folder_ / "a", {.direct = true}).value()->direct();
  });
  if (!asked) GTEST_SKIP() << "seccomp does not ask here";
  ASSERT_TRUE(cut);
  ASSERT_FALSE(cut->bytes);
  EXPECT_NE(cut->bytes.error().message().find("maximum file size"), std::string::npos) << cut->bytes.error().message();
  ASSERT_FALSE(calls.empty());
  if (direct) {
    EXPECT_EQ(calls.front().first % page_bytes, 0U) << "the rest begins at a page";
  }
}

}  // namespace
}  // namespace penstock::load
