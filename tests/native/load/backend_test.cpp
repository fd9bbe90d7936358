#include "load/backends/backend.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/time/clock.hpp"
#include "load_fixture.hpp"

namespace penstock::load {
namespace {

std::int64_t time_of_a_write(Backend& backend) {
  const auto file = backend.create("any");
  const auto begin_ns = monotonic_ns();
  EXPECT_TRUE((*file)->write({}, 0).ok());
  return monotonic_ns() - begin_ns;
}

TEST(NullBackend, EachSoManyThWriteIsAStraggler) {
  NullPlan plan;
  plan.straggler_every = 3;
  plan.straggler_ns = 20 * millisecond;
  const auto backend = make_null_backend(plan);
  backend->start(monotonic_ns());
  for (int i = 0; i < 6; ++i) {
    const auto took_ns = time_of_a_write(*backend);
    EXPECT_GE(took_ns, i % 3 == 2 ? 20 * millisecond : 0) << i;
  }
}

TEST(NullBackend, AWriteInAFreezeEndsAfterIt) {
  NullPlan plan;
  plan.delay_ns = millisecond;
  plan.freeze_ns = 50 * millisecond;
  const auto backend = make_null_backend(plan);
  const auto start_ns = monotonic_ns();
  backend->start(start_ns);
  time_of_a_write(*backend);
  EXPECT_GE(monotonic_ns() - start_ns, 51 * millisecond);
  const auto again_ns = monotonic_ns();
  time_of_a_write(*backend);
  EXPECT_GE(monotonic_ns() - again_ns, millisecond);
}

TEST(PosixBackend, TellsWhetherFilesWereDirect) {
  // /dev/shm is memory, whatever the kernel says of direct I/O there.
  const char* memory = std::getenv("PENSTOCK_TEST_MEMORY");  // of the run, which removes it (tools/leftovers.py)
  const auto folder = fmt::format("{}/penstock-test-{}", memory != nullptr ? memory : "/dev/shm", ::getpid());
  std::filesystem::create_directories(folder);
  const auto backend = make_posix_backend({folder, true, Sync::none}, posix_env());
  EXPECT_EQ(backend->alignment(), page_bytes);
  ASSERT_TRUE(backend->create("a").ok());
  EXPECT_EQ(backend->describe()["direct"], false);
  EXPECT_EQ(backend->create("a").error().code(), Errc::already_exists);
  EXPECT_EQ(backend->open("b").error().code(), Errc::not_found);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace penstock::load
