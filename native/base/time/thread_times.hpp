/// How threads of this process spend their time: what they wait for, which they note themselves, and what the kernel
/// knows of them (docs/explanation/decisions/0050-how-a-rehearsal-finds-the-narrowest-stage.md).
///
/// A thread that never waits pays nothing; a wait costs two reads of the clock. Calls are safe from several threads.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

enum class Wait : std::uint8_t {
  work,    ///< the stage before has nothing
  room,    ///< the stage behind takes nothing
  memory,  ///< the pool is full
  turn,    ///< others do what one at a time may do
};
constexpr std::size_t waits = 4;
std::string_view name(Wait wait);

/// In the scope of this object the calling thread waits. Within another one, and of a thread without an account,
/// nothing is noted.
class Waiting {
 public:
  explicit Waiting(Wait wait);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  bool noted_ = false;
};

/// Of one thread, or summed over several. Never goes down.
struct ThreadTimes {
  pid_t id = 0;  ///< 0: of several
  std::string name;
  bool has_account = false;   ///< otherwise `alive_ns` and `waited_ns` are 0
  std::int64_t alive_ns = 0;  ///< since the account began
  std::array<std::int64_t, waits> waited_ns{};
  std::int64_t running_ns = 0;  ///< on a processor, since the thread began
  std::int64_t delayed_ns = 0;  ///< waiting for a processor; 0 where the kernel does not account for it
};

/// Begins the account of the calling thread, which ends with it. begin_thread() calls it.
void begin_account(const char* thread_name);

/// Each thread of this process that runs now, also those of libraries, which have no account.
std::vector<ThreadTimes> thread_times();

/// Summed by name over the threads with an account, also those that have ended; ordered by name.
std::vector<ThreadTimes> times_by_name();

}  // namespace penstock
