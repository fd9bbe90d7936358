/// The seam to the operating system's files.
///
/// All file access of the store goes through `Env`, so that tests can fill the disk, cut the power,
/// tear writes and slow the storage.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/files/call_watch.hpp"
#include "base/result.hpp"

namespace penstock {

struct OpenOptions {
  enum class Mode { read, create_new, create_or_truncate, update };
  Mode mode = Mode::read;
  /// Bypass the page cache where the file system can; `File::direct()` returns the outcome.
  bool direct = false;
  /// An open folder, or -1. With one the last part of the path is looked up in it, whatever has become of the folder's
  /// own path since, and no link at its end is followed: the rest of the path is for messages.
  int folder = -1;
};

/// What a rename does where another file has the name.
enum class IfTaken { replace, fail };

/// Which file it is, on this machine, whatever its names are.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t number = 0;
  bool operator==(const FileIdentity&) const = default;
};

/// What stays in the page cache of the bytes that start_writeback() was called for: enough for readers that follow a
/// growing file closely, and for a device to have the bytes before they are released.
constexpr std::uint64_t cached_behind_bytes = 128 << 20;

/// An open file. All calls are safe from several threads at once.
class File {
 public:
  virtual ~File() = default;

  /// Reads up to `into.size()` bytes; fewer only at the end of the file.
  virtual Result<std::size_t> read_at(MutableBytes into, std::uint64_t offset) = 0;
  /// A hint that these bytes will be read soon: the kernel may begin to fetch them. Does not wait for that.
  virtual void will_read(std::uint64_t offset, std::uint64_t size) {
    (void)offset;
    (void)size;
  }
  /// Writes all of `pieces`, whatever the kernel does in one call. At most IOV_MAX pieces. On a
  /// direct file, `offset`, each piece's address and each piece's size are multiples of 4096.
  virtual Result<void> write_at(std::span<const iovec> pieces, std::uint64_t offset) = 0;
  /// A hint that these bytes stay as they are and are not read again soon: the kernel may begin to move them to the
  /// device, and the page cache releases them once this was called for `cached_behind_bytes` more. Does not wait for
  /// any of that, and promises nothing.
  virtual void start_writeback(std::uint64_t offset, std::uint64_t size) {
    (void)offset;
    (void)size;
  }
  /// Until this returns, what was written may be lost with the machine's power.
  virtual Result<void> sync() = 0;
  /// The same for the name that it was opened by: until this returns, the file may be nameless after the
  /// power has come back, however often its bytes were synced.
  virtual Result<void> sync_name() = 0;
  virtual Result<void> truncate(std::uint64_t size) = 0;
  /// Reserves space for [offset, offset + size) where the file system does that at no cost per byte
  /// (ext4, xfs); grows the file to that end at least, elsewhere by a zero byte there: the stretch is one
  /// that nobody has written to. `no_space` if there is none.
  virtual Result<void> reserve(std::uint64_t offset, std::uint64_t size) = 0;
  /// Gives back the space of bytes that nobody needs; they read as zeros from then on. Where the file
  /// system cannot, nothing happens.
  virtual void discard(std::uint64_t offset, std::uint64_t size) {
    (void)offset;
    (void)size;
  }
  /// Where the next bytes from `offset` on lie that may have been written: what is between reads as zeros. The
  /// size of the file where only holes follow; `offset` itself if the file system does not report it.
  virtual std::uint64_t next_data(std::uint64_t offset) { return offset; }
  /// Whether what reserve() gave is kept for this file: a later write there cannot meet a full disk.
  virtual bool reserves() const = 0;
  virtual Result<std::uint64_t> size() = 0;
  /// Takes an advisory lock without waiting: shared for readers, exclusive for the one writer.
  virtual Result<void> lock(bool exclusive) = 0;
  virtual Result<void> unlock() = 0;
  /// Whether lock() locks it. False after the file system said that it has no locks: lock() succeeds there, and nobody
  /// knows whether another process has the file.
  virtual bool locks() const { return true; }
  virtual bool direct() const = 0;
  /// The kernel's number for it, for calls that are not here; -1 where it has none.
  virtual int descriptor() const { return -1; }
  /// Whether the name that it was opened by still leads to this file: it was neither removed nor
  /// replaced.
  virtual bool still_named() const = 0;
  /// It has another name now, since somebody moved it.
  virtual bool was_moved() const { return false; }
  /// Gives it another name than the one that it was opened by. IfTaken::replace takes the place of what is at `path` in
  /// one step: at no moment is nothing there. IfTaken::fail returns `already_exists` where something is, a link too,
  /// and changes nothing then. No other call at the same time.
  virtual Result<void> rename(const std::string& path, IfTaken) {
    return make_error(Errc::unsupported, "a file of this kind cannot be renamed to {}", path);
  }
  virtual Result<FileIdentity> identity() const { return FileIdentity{}; }
  /// Closes it now, and returns errors that the file system reports only then: some keep written bytes back until a
  /// file is closed, NFS among them. No other call follows. Without it the file is closed when it is destroyed, and
  /// such an error is lost.
  virtual Result<void> close() { return {}; }
  /// For calls that are made on this file's behalf elsewhere, HDF5's, to be watched as its own are.
  virtual Watching watching() const { return {}; }
};

class Env {
 public:
  virtual ~Env() = default;
  virtual Result<std::shared_ptr<File>> open(const std::string& path, OpenOptions options) = 0;
  /// Bytes that an ordinary user can still write to the file system that holds `path`.
  virtual Result<std::uint64_t> free_bytes(const std::string& path) = 0;
  /// The names in a folder, by no order.
  virtual Result<std::vector<std::string>> list(const std::string& folder) = 0;
  /// Takes a file's name away, and with the last one the file.
  virtual Result<void> remove(const std::string& path) = 0;
};

/// The real one; lives as long as the program.
Env& posix_env();

/// Whether no other process has locked the file: `locked` if one has, as a recorder does until it has closed its file.
/// Takes the exclusive lock for a moment.
Result<void> require_unlocked(File& file);

/// Opens `file`, which was opened by `path`, once more, past the page cache where the file system can. `mismatch` where
/// the path leads to another file by now.
Result<std::shared_ptr<File>> open_direct(Env& env, const File& file, const std::string& path);

inline Result<void> write_at(File& file, Bytes data, std::uint64_t offset) {
  const iovec piece{const_cast<std::byte*>(data.data()), data.size()};
  return file.write_at(std::span(&piece, 1), offset);
}

}  // namespace penstock
