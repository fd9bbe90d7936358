/// What the machine did meanwhile: whether the generator had it to itself.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/fields.hpp"

namespace penstock::load {

/// "unknown" if the kernel does not report it.
std::string host_name();

/// Counters since the machine's start, as fields of the document: seconds of all processors together, by what they
/// did; of this process; bytes of memory. What the kernel does not report is null.
Json machine_counters();

/// Nanoseconds for which the calling thread could have run and had no processor, since it began; −1 where the kernel
/// does not report it.
std::int64_t waited_for_processor_ns();

/// What the kernel's scheduler says of the thread that makes it. It keeps the file open: a reading is one system call.
class ThreadClock {
 public:
  ThreadClock();
  ~ThreadClock();
  ThreadClock(const ThreadClock&) = delete;
  ThreadClock& operator=(const ThreadClock&) = delete;

  struct Reading {
    std::int64_t ran_ns = -1;     ///< on a processor, up to the last tick or switch
    std::int64_t waited_ns = -1;  ///< for a processor while it could run
    bool is_known() const { return waited_ns >= 0; }
  };
  /// Since the thread began; for the thread that made this alone.
  Reading read() const;

 private:
  int descriptor_;
};

/// The most of that among this process's threads of these names; nothing where there is none.
std::optional<std::int64_t> longest_wait_ns(std::initializer_list<std::string_view> names);

}  // namespace penstock::load
