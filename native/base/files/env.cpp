#include "base/files/env.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <filesystem>
#include <limits>
#include <utility>
#include <vector>

#include "base/files/refusals.hpp"
#include "base/mutex.hpp"

namespace penstock {
namespace {

/// File systems on which fallocate only notes the space: it writes no zeros.
bool reserves_for_free(int fd) {
  struct statfs info;
  if (fstatfs(fd, &info) != 0) return false;
  constexpr long xfs_magic = 0x58465342;
  return info.f_type == EXT4_SUPER_MAGIC || info.f_type == xfs_magic;
}

/// Newer kernels accept direct I/O on tmpfs, and then go through the page cache all the same.
bool lives_in_memory(int fd) {
  struct statfs info;
  return fstatfs(fd, &info) == 0 && (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

/// Linux may have made the file before it said that it cannot be direct. That one is empty and has one name; any other
/// is somebody else's, and -1 with EEXIST tells of it.
int open_what_was_made(int folder, const char* name, int flags) {
  const int fd = ::openat(folder, name, (flags & ~(O_CREAT | O_EXCL)) | O_NOFOLLOW | O_NONBLOCK);
  struct stat info;
  if (fd >= 0 && ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0 && info.st_nlink == 1) return fd;
  if (fd >= 0) ::close(fd);
  errno = EEXIST;
  return -1;
}

/// Returns 0, or the number of the error: EEXIST where something has the name that is to be free.
int rename_in(int folder, const char* from, const char* to, IfTaken if_taken) {
  if (if_taken == IfTaken::replace) return ::renameat(folder, from, folder, to) == 0 ? 0 : errno;
  if (::renameat2(folder, from, folder, to, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) return errno;
  // The file system, or the kernel, does not know that call: an empty file keeps the name for a moment.
  const int keeper = ::openat(folder, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (keeper < 0) return errno;
  ::close(keeper);
  if (::renameat(folder, from, folder, to) == 0) return 0;
  const int failure = errno;
  ::unlinkat(folder, to, 0);
  return failure;
}

struct Stretch {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

/// The stretches of a file that were written last, oldest first. Safe from several threads.
class RecentlyWritten {
 public:
  /// Returns the stretches with `cached_behind_bytes` or more behind them, and forgets those.
  std::vector<Stretch> add(Stretch written) {
    MutexLock lock(mutex_);
    bytes_ += written.size;
    const bool adjoins = !stretches_.empty() && stretches_.back().offset + stretches_.back().size == written.offset;
    if (adjoins && stretches_.back().size < joined_bytes_max)
      stretches_.back().size += written.size;
    else
      stretches_.push_back(written);
    std::vector<Stretch> behind;
    while (bytes_ - stretches_.front().size >= cached_behind_bytes) {
      behind.push_back(stretches_.front());
      bytes_ -= stretches_.front().size;
      stretches_.pop_front();
    }
    return behind;
  }

 private:
  static constexpr std::uint64_t joined_bytes_max = 4 << 20;

  Mutex mutex_;
  std::deque<Stretch> stretches_ PEN_GUARDED_BY(mutex_);
  std::uint64_t bytes_ PEN_GUARDED_BY(mutex_) = 0;  ///< of all stretches
};

class PosixFile final : public File {
 public:
  /// `folder` is the one that the last part of the path was looked up in, or -1.
  PosixFile(int fd, std::string path, bool direct, int folder)
      : fd_(fd),
        folder_(folder < 0 ? -1 : ::fcntl(folder, F_DUPFD_CLOEXEC, 0)),
        path_(std::move(path)),
        direct_(direct),
        reserves_(reserves_for_free(fd)) {}
  ~PosixFile() override {
    if (fd_ >= 0) ::close(fd_);
    if (folder_ >= 0) ::close(folder_);
  }

  Result<std::size_t> read_at(MutableBytes into, std::uint64_t offset) override {
    std::size_t done = 0;
    while (done < into.size()) {
      const bool direct = direct_;
      const auto n = uninterrupted(
          [&] { return ::pread(fd_, into.data() + done, into.size() - done, static_cast<off_t>(offset + done)); });
      const int failure = n < 0 ? errno : 0;
      const bool aligned = are_aligned(into.data() + done, into.size() - done, offset + done);
      if (failure != 0 && direct && aligned && goes_on_without_direct(failure)) continue;
      if (failure != 0)
        return errno_error(failure, fmt::format("read {} bytes at {} of {}", into.size(), offset, path_));
      if (n == 0) break;
      done += static_cast<std::size_t>(n);
    }
    return done;
  }

  void will_read(std::uint64_t offset, std::uint64_t size) override {
    (void)::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(size), POSIX_FADV_WILLNEED);
  }

  Result<void> write_at(std::span<const iovec> pieces, std::uint64_t offset) override {
    std::vector<iovec> rest;  // only after a short write
    while (!pieces.empty()) {
      const bool direct = direct_;
      const auto n = uninterrupted(
          [&] { return ::pwritev(fd_, pieces.data(), static_cast<int>(pieces.size()), static_cast<off_t>(offset)); });
      const int failure = n < 0 ? reason(errno, direct, pieces, offset) : 0;
      if (failure != 0 && direct && are_aligned(pieces, offset) && goes_on_without_direct(failure)) continue;
      if (failure != 0) return errno_error(failure, fmt::format("write at {} of {}", offset, path_));
      if (n == 0) return make_error(Errc::io, "write at {} of {}: the kernel took no bytes", offset, path_);
      const auto taken = done_of(direct, pieces, offset, static_cast<std::size_t>(n));
      offset += taken;
      pieces = advance(pieces, taken, rest);
    }
    return {};
  }

  void start_writeback(std::uint64_t offset, std::uint64_t size) override {
    if (direct_) return;
    (void)::sync_file_range(fd_, static_cast<off_t>(offset), static_cast<off_t>(size), SYNC_FILE_RANGE_WRITE);
    // Takes only pages that the device has. It leaves an error of writing for sync() to report, as waiting would not.
    for (const auto& behind : recent_.add({offset, size}))
      (void)::posix_fadvise(fd_, static_cast<off_t>(behind.offset), static_cast<off_t>(behind.size),
                            POSIX_FADV_DONTNEED);
  }

  Result<void> sync() override {
    if (uninterrupted([&] { return ::fdatasync(fd_); }) != 0) return errno_error(errno, fmt::format("sync {}", path_));
    return {};
  }

  Result<void> close() override {
    // The number is free afterwards, whatever is told: a second try might close a file of another thread.
    const int closed = ::close(std::exchange(fd_, -1));
    if (closed != 0 && errno != EINTR) return errno_error(errno, fmt::format("close {}", path_));
    return {};
  }

  Result<void> sync_name() override {
    const auto folder = std::filesystem::absolute(path_).parent_path();
    const int fd = uninterrupted([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (fd < 0) return errno_error(errno, fmt::format("open folder {}", folder.string()));
    const int failure = uninterrupted([&] { return ::fsync(fd); }) == 0 ? 0 : errno;
    ::close(fd);
    // Some network file systems know no such call: there a name lasts as soon as it is made.
    if (failure == 0 || failure == EINVAL || failure == ENOSYS || failure == EOPNOTSUPP) return {};
    return errno_error(failure, fmt::format("sync folder {}", folder.string()));
  }

  Result<void> truncate(std::uint64_t size) override {
    if (uninterrupted([&] { return ::ftruncate(fd_, static_cast<off_t>(size)); }) != 0)
      return errno_error(errno, fmt::format("set the size of {} to {}", path_, size));
    return {};
  }

  Result<void> reserve(std::uint64_t offset, std::uint64_t size) override {
    if (reserves_) {
      const auto reserved =
          uninterrupted([&] { return ::fallocate(fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(size)); });
      if (reserved == 0) return {};
      if (!is_refusal(Aid::reserve, errno))
        return errno_error(errno, fmt::format("reserve {} bytes at {} of {}", size, offset, path_));
      note_refusal(Aid::reserve, fd_, path_, errno);
      reserves_ = false;
    }
    PEN_ASSIGN(const auto now, this->size());
    if (now >= offset + size) return {};
    // Not ftruncate: another process may have made the file longer meanwhile.
    const char zero = 0;
    if (uninterrupted([&] { return ::pwrite(fd_, &zero, 1, static_cast<off_t>(offset + size - 1)); }) == 1) return {};
    return errno_error(errno, fmt::format("grow {} to {} bytes", path_, offset + size));
  }

  void discard(std::uint64_t offset, std::uint64_t size) override {
    (void)::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                      static_cast<off_t>(size));
  }

  std::uint64_t next_data(std::uint64_t offset) override {
    const auto data = ::lseek(fd_, static_cast<off_t>(offset), SEEK_DATA);
    if (data >= 0) return static_cast<std::uint64_t>(data);
    const auto end = errno == ENXIO ? size() : Result<std::uint64_t>(offset);
    return end.ok() ? std::max(offset, *end) : offset;
  }

  bool reserves() const override { return reserves_; }

  Result<std::uint64_t> size() override {
    struct stat info;
    if (::fstat(fd_, &info) != 0) return errno_error(errno, fmt::format("stat {}", path_));
    return static_cast<std::uint64_t>(info.st_size);
  }

  Result<void> lock(bool exclusive) override {
    const int how = (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB;
    if (uninterrupted([&] { return ::flock(fd_, how); }) == 0) return {};
    const int failure = errno;
    if (is_held(fd_, failure))
      return make_error(Errc::locked, "{} is in use by another process; stop that one or choose another file", path_);
    if (!is_refusal(Aid::lock, failure)) return errno_error(failure, fmt::format("lock {}", path_));
    // HDF5 itself goes on without locks in that case.
    note_refusal(Aid::lock, fd_, path_, failure);
    locks_ = false;
    return {};
  }

  Result<void> unlock() override {
    if (uninterrupted([&] { return ::flock(fd_, LOCK_UN); }) == 0 || is_refusal(Aid::lock, errno)) return {};
    return errno_error(errno, fmt::format("unlock {}", path_));
  }

  bool locks() const override { return locks_; }
  bool direct() const override { return direct_; }
  int descriptor() const override { return fd_; }

  bool still_named() const override {
    struct stat mine, named;
    // Only an answer that speaks of the name counts: a network file system may fail to answer for a while.
    if (::fstat(fd_, &mine) != 0) return true;
    if (::stat(path_.c_str(), &named) != 0) return errno != ENOENT && errno != ENOTDIR;
    return mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
  }

  bool was_moved() const override {
    struct stat mine, named;
    std::error_code problem;
    // The kernel knows the name of an open file, also where it has become another one.
    const auto now = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", fd_), problem);
    if (problem || now == path_ || ::fstat(fd_, &mine) != 0 || ::stat(now.c_str(), &named) != 0) return false;
    // NFS gives a file that is removed while it is open such a name until it is closed.
    const bool is_removed = now.filename().string().starts_with(".nfs");
    return !is_removed && mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
  }

  Result<void> rename(const std::string& path, IfTaken if_taken) override {
    const bool in_folder = folder_ >= 0;
    const auto name = [&](const std::string& of) {
      return in_folder ? std::filesystem::path(of).filename().string() : of;
    };
    const int failure = rename_in(in_folder ? folder_ : AT_FDCWD, name(path_).c_str(), name(path).c_str(), if_taken);
    if (failure != 0) return errno_error(failure, fmt::format("rename {} to {}", path_, path));
    path_ = path;
    return {};
  }

  Result<FileIdentity> identity() const override {
    struct stat info;
    if (::fstat(fd_, &info) != 0) return errno_error(errno, fmt::format("stat {}", path_));
    return FileIdentity{info.st_dev, info.st_ino};
  }

 private:
  static std::size_t size_of(std::span<const iovec> pieces) {
    std::size_t all = 0;
    for (const auto& piece : pieces) all += piece.iov_len;
    return all;
  }

  static bool are_aligned(const void* memory, std::size_t size, std::uint64_t offset) {
    return (reinterpret_cast<std::uintptr_t>(memory) | size | offset) % page_bytes == 0;
  }
  static bool are_aligned(std::span<const iovec> pieces, std::uint64_t offset) {
    return std::all_of(pieces.begin(), pieces.end(),
                       [&](const iovec& piece) { return are_aligned(piece.iov_base, piece.iov_len, offset); });
  }

  /// Some file systems take O_DIRECT when a file is opened, and refuse each transfer, also aligned ones. Other threads
  /// may find that at the same time.
  bool goes_on_without_direct(int failure) {
    if (!is_refusal(Aid::direct, failure)) return false;
    const int flags = ::fcntl(fd_, F_GETFL);
    if (flags < 0 || ::fcntl(fd_, F_SETFL, flags & ~O_DIRECT) != 0) return false;
    note_refusal(Aid::direct, fd_, path_, failure);
    direct_ = false;
    return true;
  }

  /// The kernel cuts a write at the limit on the size of files first, and finds then that it is not aligned.
  static int reason(int failure, bool direct, std::span<const iovec> pieces, std::uint64_t offset) {
    rlimit limit{};
    const bool is_cut = direct && failure == EINVAL && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
                        offset + size_of(pieces) > limit.rlim_cur;
    return is_cut ? EFBIG : failure;
  }

  /// Of `written` bytes at `offset` those that need not be written again. Past the page cache the next call has to
  /// begin at a page: what a short write left of one is written once more. One that did not get to the next page was
  /// cut by something that only the kernel knows, and the next call tells.
  static std::size_t done_of(bool direct, std::span<const iovec> pieces, std::uint64_t offset, std::size_t written) {
    if (!direct || written >= size_of(pieces)) return written;
    const auto page = (offset + written) / page_bytes * page_bytes;
    return page > offset ? static_cast<std::size_t>(page - offset) : written;
  }

  static std::span<const iovec> advance(std::span<const iovec> pieces, std::size_t bytes, std::vector<iovec>& rest) {
    while (!pieces.empty() && bytes >= pieces.front().iov_len) {
      bytes -= pieces.front().iov_len;
      pieces = pieces.subspan(1);
    }
    if (bytes == 0) return pieces;
    std::vector<iovec> left(pieces.begin(), pieces.end());
    left.front().iov_base = static_cast<std::byte*>(left.front().iov_base) + bytes;
    left.front().iov_len -= bytes;
    rest = std::move(left);
    return rest;
  }

  int fd_;            ///< -1: closed
  const int folder_;  ///< -1: none
  std::string path_;
  std::atomic<bool> direct_;        ///< until the file system refuses it
  std::atomic<bool> reserves_;      ///< the same
  std::atomic<bool> locks_ = true;  ///< the same
  RecentlyWritten recent_;
};

class PosixEnv final : public Env {
 public:
  Result<std::shared_ptr<File>> open(const std::string& path, OpenOptions options) override {
    int flags = O_CLOEXEC;
    switch (options.mode) {
      case OpenOptions::Mode::read: flags |= O_RDONLY; break;
      case OpenOptions::Mode::create_new: flags |= O_RDWR | O_CREAT | O_EXCL; break;
      case OpenOptions::Mode::create_or_truncate: flags |= O_RDWR | O_CREAT | O_TRUNC; break;
      case OpenOptions::Mode::update: flags |= O_RDWR; break;
    }
    const bool in_folder = options.folder >= 0;
    const int folder = in_folder ? options.folder : AT_FDCWD;
    const auto name = in_folder ? std::filesystem::path(path).filename().string() : path;
    if (in_folder) flags |= O_NOFOLLOW;
    const auto opened = [&](int more) {
      return uninterrupted([&] { return ::openat(folder, name.c_str(), flags | more, 0666); });
    };
    int fd = opened(options.direct ? O_DIRECT : 0);
    const int refused = fd < 0 && options.direct && is_refusal(Aid::direct, errno) ? errno : 0;
    if (refused != 0) {
      fd = opened(0);
      if (fd < 0 && errno == EEXIST) fd = open_what_was_made(folder, name.c_str(), flags);
    }
    if (fd < 0) return errno_error(errno, fmt::format("open {}", path));
    const bool in_memory = options.direct && lives_in_memory(fd);
    if (refused != 0 && !in_memory) note_refusal(Aid::direct, fd, path, refused);
    return std::shared_ptr<File>(
        std::make_shared<PosixFile>(fd, path, options.direct && refused == 0 && !in_memory, options.folder));
  }

  Result<std::uint64_t> free_bytes(const std::string& path) override {
    struct statvfs info;
    if (::statvfs(path.c_str(), &info) != 0) return errno_error(errno, fmt::format("free space of {}", path));
    return std::uint64_t{info.f_bavail} * info.f_frsize;
  }

  Result<std::vector<std::string>> list(const std::string& folder) override {
    std::vector<std::string> names;
    std::error_code error;
    for (auto entry = std::filesystem::directory_iterator(folder, error);
         !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
      names.push_back(entry->path().filename().string());
    if (error) return errno_error(error.value(), fmt::format("list {}", folder));
    return names;
  }

  Result<void> remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) return errno_error(errno, fmt::format("remove {}", path));
    return {};
  }
};

}  // namespace

Env& posix_env() {
  static PosixEnv env;
  return env;
}

Result<void> require_unlocked(File& file) {
  PEN_TRY(file.lock(true));
  return file.unlock();
}

Result<std::shared_ptr<File>> open_direct(Env& env, const File& file, const std::string& path) {
  PEN_ASSIGN(auto direct, env.open(path, {.mode = OpenOptions::Mode::update, .direct = true}));
  PEN_ASSIGN(const auto first, file.identity());
  PEN_ASSIGN(const auto second, direct->identity());
  if (first == second) return direct;
  return make_error(Errc::mismatch, "{} was removed or replaced a moment ago; nothing is written to the present file",
                    path);
}

}  // namespace penstock
