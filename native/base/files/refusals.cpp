#include "base/files/refusals.hpp"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <set>
#include <utility>

#include "base/errno_words.hpp"
#include "base/mutex.hpp"

namespace penstock {
namespace {

class Listeners {
 public:
  void set(std::function<void(const Refusal&)> listener) {
    MutexLock lock(mutex_);
    listener_ = std::move(listener);
    noted_.clear();
  }

  /// The listener, if there is one and this is the first time.
  std::function<void(const Refusal&)> first(Aid aid, std::uint64_t device) {
    MutexLock lock(mutex_);
    return listener_ && noted_.emplace(aid, device).second ? listener_ : nullptr;
  }

 private:
  Mutex mutex_;
  std::function<void(const Refusal&)> listener_ PEN_GUARDED_BY(mutex_);
  std::set<std::pair<Aid, std::uint64_t>> noted_ PEN_GUARDED_BY(mutex_);
};

Listeners& listeners() {
  static Listeners all;
  return all;
}

}  // namespace

void set_refusal_listener(std::function<void(const Refusal&)> listener) { listeners().set(std::move(listener)); }

std::string text_of(const Refusal& refusal) {
  switch (refusal.aid) {
    case Aid::lock:
      return fmt::format(
          "cannot lock {} ({}): nothing keeps two programs from writing one file; mount the file system with locks "
          "(Lustre: -o flock; NFS: without nolock), or record into this directory with one recorder only",
          refusal.path, refusal.reason);
    case Aid::direct:
      return fmt::format(
          "no direct I/O for {} ({}): data is written through the page cache; set store.direct to false to choose that",
          refusal.path, refusal.reason);
    case Aid::reserve:
      return fmt::format(
          "cannot reserve store.extent_bytes of space for {} ({}): space is taken when data is written, so a full disk "
          "is "
          "noticed only then",
          refusal.path, refusal.reason);
  }
  return {};
}

void note_refusal(Aid aid, int descriptor, const std::string& path, int errnum) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return;
  if (const auto listener = listeners().first(aid, info.st_dev)) listener({aid, path, reason_of_errno(errnum)});
}

namespace {

/// What file systems answer where another program has the lock.
bool is_busy(int errnum) { return errnum == EWOULDBLOCK || errnum == EBUSY || errnum == EDEADLK; }

bool is_for_want_of_space(int errnum) { return errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG; }

/// Few errors: without direct I/O the same call could fail in the same way.
bool is_about_direct(int errnum) {
  switch (errnum) {
    case ENOSYS:
    case EOPNOTSUPP:
    case errno_not_supported:
    case EINVAL:
    case EPERM: return true;
    default: return false;
  }
}

bool has_locks_of_smb(int descriptor) {
  struct statfs info {};
  if (::fstatfs(descriptor, &info) != 0) return false;
  const auto kind = static_cast<std::uint32_t>(info.f_type);
  return kind == CIFS_SUPER_MAGIC || kind == SMB2_SUPER_MAGIC;
}

}  // namespace

bool is_refusal(Aid aid, int errnum) {
  switch (aid) {
    case Aid::lock: return !is_busy(errnum) && errnum != EIO && errnum != ESTALE && errnum != EBADF;
    case Aid::direct: return is_about_direct(errnum);
    case Aid::reserve: return !is_for_want_of_space(errnum) && errnum != EIO;
  }
  return false;
}

bool is_held(int descriptor, int errnum) {
  return is_busy(errnum) || (errnum == EACCES && has_locks_of_smb(descriptor));
}

}  // namespace penstock
