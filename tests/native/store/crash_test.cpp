// The file seen from other processes: by a reader while it grows, and after the recorder's death.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <set>

#include "scan.hpp"
#include "store_fixture.hpp"

namespace penstock::store::testing {
namespace {

class CrashTest : public StoreTest {
 protected:
  static void put(Store& store, std::uint64_t first, std::uint64_t end) {
    auto writer = store.make_writer();
    for (auto i = first; i < end; ++i)
      ASSERT_TRUE(writer->put(head_of(i), content_of(i, frame_bytes), nullptr, frame_bytes).ok());
  }
};

/// Runs `body` in a child process that never returns from it.
pid_t in_child(const std::function<int()>& body) {
  const auto child = ::fork();
  if (child == 0) ::_exit(body());
  return child;
}

int exit_code(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(CrashTest, ReadersSeeTheFileGrow) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const auto file = path();
  // The reader is forked before there are threads; it waits for the file and for 300 frames.
  const auto reader = in_child([&] {
    char byte = 0;
    if (::read(ready[0], &byte, 1) != 1) return 10;
    const PlainReader plain(file, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ);
    if (!plain.open()) return 11;
    const auto dataset = H5Dopen2(plain.file(), "/entry/data/data", H5P_DEFAULT);
    const auto is_right = [&](std::uint64_t i) {
      return plain.frame("/entry/data/data", i) == content_of(i, frame_bytes);
    };
    std::uint64_t seen = 0;
    int round = 0;
    for (; round < 20000 && seen < 300; ++round) {
      H5Drefresh(dataset);
      seen = plain.shape("/entry/data/data")[0];
      ::usleep(1000);
    }
    if (seen < 300) return 12;
    // Segments are written side by side: a later one may be in the index first.
    for (std::uint64_t i = 0; i < 300; ++i)
      for (; !is_right(i); ++round) {
        if (round == 40000) return 13;
        H5Drefresh(dataset);
        ::usleep(1000);
      }
    H5Dclose(dataset);
    return 0;
  });
  auto store = Store::create(posix_env(), file, one_dataset(32, 40), small_options(), nullptr).value();
  put(*store, 0, 150);
  ASSERT_EQ(::write(ready[1], "x", 1), 1);
  put(*store, 150, 300);
  EXPECT_EQ(exit_code(reader), 0);
  put(*store, 300, 310);
  ASSERT_TRUE(store->finish({}).ok());
  ::close(ready[0]);
  ::close(ready[1]);
}

constexpr std::uint64_t tick_mark = ~std::uint64_t{0};

/// Writes the number of each placed chunk into a pipe, and a mark at each tick, so that another
/// process knows the promise.
class Announcer final : public Listener {
 public:
  explicit Announcer(int pipe) : pipe_(pipe) {}
  void placed(std::span<const PlacedChunk> chunks, RowWriter&) override {
    for (const auto& chunk : chunks) announce(chunk.head.index);
  }
  void lost(std::span<const PlacedChunk>, const Error&) override {}
  void tick(RowWriter&) override { announce(tick_mark); }

 private:
  void announce(std::uint64_t number) const {
    if (::write(pipe_, &number, sizeof number) != sizeof number) ::_exit(3);
  }

  const int pipe_;
};

int write_for_ever(const std::string& path, int pipe, const StoreOptions& options) {
  Announcer announcer(pipe);
  auto store = Store::create(posix_env(), path, one_dataset(32, 40), options, &announcer);
  if (!store.ok()) return 1;
  auto writer = (*store)->make_writer();
  for (std::uint64_t i = 0; i < 10'000'000; ++i)
    if (!writer->put({DatasetId{0}, i, 0, 0, 0}, content_of(i, frame_bytes), nullptr, frame_bytes).ok()) return 2;
  return 0;
}

TEST_F(CrashTest, WhatWasPlacedSurvivesTheRecordersDeath) {
  int promises[2];
  ASSERT_EQ(::pipe(promises), 0);
  const auto child = in_child([&] { return write_for_ever(path(), promises[1], small_options()); });
  ::close(promises[1]);
  std::set<std::uint64_t> promised;
  std::set<std::uint64_t> before_last_tick;
  std::set<std::uint64_t> flushed;  // a flush follows each tick, and is over when the next one comes
  const auto read_one = [&] {
    std::uint64_t number = 0;
    if (::read(promises[0], &number, sizeof number) != sizeof number) return false;
    if (number == tick_mark) {
      flushed = std::exchange(before_last_tick, promised);
    } else {
      promised.insert(number);
    }
    return true;
  };
  while ((promised.size() < 3000 || flushed.empty()) && read_one()) {
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  while (read_one()) {
  }
  ::close(promises[0]);
  ASSERT_GE(promised.size(), 3000u);
  ASSERT_FALSE(flushed.empty());

  const auto found = scan(path());
  ASSERT_TRUE(found.description);
  for (const auto frame : promised) {
    const auto* chunk = found.find(frame);
    ASSERT_NE(chunk, nullptr) << "frame " << frame << " of " << promised.size() << " is gone";
    ASSERT_EQ(chunk->data, content_of(frame, frame_bytes));
  }
  // What was flushed is in the index as well.
  const PlainReader reader(path(), H5F_ACC_RDONLY | H5F_ACC_SWMR_READ);
  ASSERT_TRUE(reader.open());
  for (const auto frame : flushed)
    ASSERT_EQ(reader.frame("/entry/data/data", frame), content_of(frame, frame_bytes)) << frame;
}

}  // namespace
}  // namespace penstock::store::testing
