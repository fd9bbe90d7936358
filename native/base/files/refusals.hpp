/// What a file system may refuse, and files do without: locks, direct I/O, reserved space.
///
/// Which error a file system answers with depends on the file system, its mount options and the kernel. The rules here
/// are about that alone; files (env.cpp) decide what to do instead.
#pragma once

#include <cerrno>
#include <cstdint>
#include <functional>
#include <string>

namespace penstock {

enum class Aid : std::uint8_t { lock, direct, reserve };

struct Refusal {
  Aid aid{};
  std::string path;    ///< of the first file that met it
  std::string reason;  ///< "the file system does not support the operation"
};

/// Whom files notify when a file system refuses an aid: once for each aid and file system, from any thread. A program
/// sets it before it opens its first file, to log it; without one nobody is notified.
void set_refusal_listener(std::function<void(const Refusal&)> listener);

/// Says what is lost and which setting avoids the refusal, for a log.
std::string text_of(const Refusal& refusal);

/// For files: notifies the listener of the first refusal of this aid by the file system that has `descriptor`.
void note_refusal(Aid aid, int descriptor, const std::string& path, int errnum);

/// Whether a call that failed with `errnum` asked for something that the file system, its server, the kernel or a
/// filter of system calls refuses, so that the same is possible without. Files do without locks and reserved space, so
/// each error is a refusal of those, except a broken storage, want of space and a lock that another program has.
bool is_refusal(Aid aid, int errnum);

/// Whether a lock that failed with `errnum` is one that another program has. SMB reports that as EACCES.
bool is_held(int descriptor, int errnum);

/// Makes a system call again while a signal interrupts it. Not for ever: some file systems interrupt each.
template <typename Call>
auto uninterrupted(Call call) {
  constexpr int interruptions_max = 100;
  auto result = call();
  for (int i = 0; result < 0 && errno == EINTR && i < interruptions_max; ++i) result = call();
  return result;
}

}  // namespace penstock
