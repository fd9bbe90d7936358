/// Bare system calls, and not through `Env`: its open() asks the file system twice for its kind as well, two calls more
/// than the three that make a file (docs/explanation/decisions/0026-names.md).

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "load/names.hpp"

namespace penstock::load {
namespace {

Error failed(const char* what, const char* path) { return errno_error(errno, fmt::format("{} {}", what, path)); }

/// Names `to` last: with EEXIST, that is what must not be removed.
Error rename_failed(int errnum, const char* from, const char* to) {
  return errno_error(errnum, fmt::format("rename {} to {}", from, to));
}

/// Closes on the way out of an error; close() tells what it came to.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }
  bool close() {
    const int number = number_;
    number_ = -1;
    return ::close(number) == 0;
  }

 private:
  int number_;
};

Result<void> write_all(int fd, Bytes bytes, const char* path) {
  while (!bytes.empty()) {
    const auto n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("write", path);
    if (n == 0) return make_error(Errc::io, "write {}: the kernel took no bytes", path);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

class PosixNames final : public Names {
 public:
  explicit PosixNames(int folder) : folder_(folder) {}
  ~PosixNames() override { ::close(folder_); }
  PosixNames(const PosixNames&) = delete;
  PosixNames& operator=(const PosixNames&) = delete;

  Result<void> make_folder(const char* path) override {
    if (::mkdirat(folder_, path, 0777) == 0) return {};
    return failed("make the folder", path);
  }
  Result<void> remove_folder(const char* path) override {
    if (::unlinkat(folder_, path, AT_REMOVEDIR) == 0) return {};
    return failed("remove the folder", path);
  }
  Result<void> look_up(const char* path) override {
    struct stat status;
    if (::fstatat(folder_, path, &status, AT_SYMLINK_NOFOLLOW) == 0) return {};
    return failed("stat", path);
  }
  Result<void> create(const char* path, Bytes bytes, bool sync, bool& made) override {
    Descriptor file(::openat(folder_, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.number() < 0) return failed("create", path);
    made = true;
    if (!bytes.empty()) PEN_TRY(write_all(file.number(), bytes, path));
    if (sync && ::fsync(file.number()) != 0) return failed("sync", path);
    if (!file.close()) return failed("close", path);
    return {};
  }
  Result<std::size_t> read(const char* path, MutableBytes into) override {
    Descriptor file(::openat(folder_, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (file.number() < 0) return failed("open", path);
    std::size_t done = 0;
    while (done < into.size()) {
      const auto n = ::read(file.number(), into.data() + done, into.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failed("read", path);
      if (n == 0) break;
      done += static_cast<std::size_t>(n);
    }
    if (!file.close()) return failed("close", path);
    return done;
  }
  Result<void> rename(const char* from, const char* to) override {
    if (::renameat2(folder_, from, folder_, to, RENAME_NOREPLACE) == 0) return {};
    if (errno != EINVAL && errno != ENOSYS) return rename_failed(errno, from, to);
    return rename_by_a_look(from, to);
  }
  Result<void> remove(const char* path) override {
    if (::unlinkat(folder_, path, 0) == 0) return {};
    return failed("remove", path);
  }

 private:
  /// For file systems that cannot refuse: a name that somebody else takes at the same moment is lost.
  Result<void> rename_by_a_look(const char* from, const char* to) const {
    struct stat status;
    if (::fstatat(folder_, to, &status, AT_SYMLINK_NOFOLLOW) == 0) return rename_failed(EEXIST, from, to);
    if (::renameat(folder_, from, folder_, to) == 0) return {};
    return rename_failed(errno, from, to);
  }

  const int folder_;
};

}  // namespace

Result<int> open_folder(const std::string& folder) {
  const int number = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (number >= 0) return number;
  const int failure = errno;
  struct stat status;
  if (::lstat(folder.c_str(), &status) == 0 && S_ISLNK(status.st_mode))
    return make_error(Errc::not_found, "open folder {}: it is a symbolic link; name the folder that it points to",
                      folder);
  return errno_error(failure, fmt::format("open folder {}", folder));
}

std::unique_ptr<Names> make_posix_names(int folder) { return std::make_unique<PosixNames>(folder); }

}  // namespace penstock::load
