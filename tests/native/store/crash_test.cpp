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

constexpr std::uint64_t frame_bytes = 32 * 40 * 2;

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
    std::uint64_t seen = 0;
    for (int round = 0; round < 20000 && seen < 300; ++round) {
      H5Drefresh(dataset);
      seen = plain.shape("/entry/data/data")[0];
      ::usleep(1000);
    }
    H5Dclose(dataset);
    if (seen < 300) return 12;
    for (std::uint64_t i = 0; i < 300; ++i)
      if (plain.frame("/entry/data/data", i) != content_of(i, frame_bytes)) return 13;
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

/// Writes the number of each placed chunk into a pipe, so that another process knows the promise.
class Announcer final : public Listener {
 public:
  explicit Announcer(int pipe) : pipe_(pipe) {}
  void placed(std::span<const PlacedChunk> chunks, RowWriter&) override {
    for (const auto& chunk : chunks)
      if (::write(pipe_, &chunk.head.index, sizeof chunk.head.index) != sizeof chunk.head.index) ::_exit(3);
  }
  void lost(std::span<const PlacedChunk>, const Error&) override {}
  void tick(RowWriter&) override {}

 private:
  const int pipe_;
};

TEST_F(CrashTest, WhatWasPlacedSurvivesTheRecordersDeath) {
  int promises[2];
  ASSERT_EQ(::pipe(promises), 0);
  const auto file = path();
  const auto child = in_child([&] {
    Announcer announcer(promises[1]);
    auto store = Store::create(posix_env(), file, one_dataset(32, 40), small_options(), &announcer);
    if (!store.ok()) return 1;
    auto writer = (*store)->make_writer();
    for (std::uint64_t i = 0; i < 1'000'000; ++i)
      if (!writer->put({DatasetId{0}, i, 0, 0, 0}, content_of(i, frame_bytes), nullptr, frame_bytes).ok()) return 2;
    return 0;
  });
  ::close(promises[1]);
  std::set<std::uint64_t> promised;
  std::uint64_t number = 0;
  while (promised.size() < 3000 && ::read(promises[0], &number, sizeof number) == sizeof number)
    promised.insert(number);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  while (::read(promises[0], &number, sizeof number) == sizeof number) promised.insert(number);
  ::close(promises[0]);
  ASSERT_GE(promised.size(), 3000u);

  const auto found = scan(file);
  ASSERT_TRUE(found.description);
  for (const auto frame : promised) {
    const auto* chunk = found.find(frame);
    ASSERT_NE(chunk, nullptr) << "frame " << frame << " of " << promised.size() << " is gone";
    ASSERT_EQ(chunk->data, content_of(frame, frame_bytes));
  }
  // The index as of the last flush is whole as well.
  const PlainReader reader(file, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ);
  ASSERT_TRUE(reader.open());
  const auto shape = reader.shape("/entry/data/data");
  ASSERT_EQ(shape.size(), 3u);
  std::uint64_t indexed = 0;
  for (std::uint64_t i = 0; i < shape[0]; ++i)
    indexed += reader.frame("/entry/data/data", i) == content_of(i, frame_bytes);
  EXPECT_GT(indexed, 0u);
}

}  // namespace
}  // namespace penstock::store::testing
