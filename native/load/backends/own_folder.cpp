#include "load/backends/own_folder.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "load/names.hpp"

namespace penstock::load {
namespace {

/// A file that threads join is the only one of its run; with a file a frame nobody joins, and they are not kept.
constexpr std::size_t made_names_max = 256;

/// Whether every machine sees the same number of a file: with FUSE and SMB it may be the machine's own.
bool numbers_are_common(int descriptor) {
  struct statfs info;
  if (::fstatfs(descriptor, &info) != 0) return false;
  const auto kind = static_cast<std::uint32_t>(info.f_type);
  constexpr std::uint32_t cifs_magic = 0xFF534D42, smb2_magic = 0xFE534D42;
  return kind != static_cast<std::uint32_t>(FUSE_SUPER_MAGIC) && kind != cifs_magic && kind != smb2_magic;
}

std::string way_of(int folder) { return fmt::format("/proc/self/fd/{}/", folder); }

Result<void> check_plain(const struct stat& info, bool empty, const std::string& path) {
  if (!S_ISREG(info.st_mode))
    return make_error(Errc::mismatch, "{} is no longer a regular file: another program replaced it", path);
  if (info.st_nlink > 1)
    return make_error(Errc::mismatch,
                      "{} is a file with {} hard links: another program replaced the file that was created", path,
                      info.st_nlink);
  if (empty && info.st_size > 0)
    return make_error(Errc::mismatch,
                      "{} has {} bytes before anything was written: another program replaced the one that was "
                      "made",
                      path, info.st_size);
  return {};
}

}  // namespace

OwnFolder::~OwnFolder() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<int> OwnFolder::descriptor() {
  MutexLock lock(opening_);
  if (descriptor_ < 0) {
    PEN_ASSIGN(descriptor_, open_folder(path_));
  }
  return descriptor_;
}

Result<std::string> OwnFolder::way_to(const std::string& name) {
  PEN_ASSIGN(const int in, descriptor());
  return way_of(in) + name;
}

Error OwnFolder::told(const Error& error) {
  const auto in = descriptor();
  const auto way = in.ok() ? way_of(*in) : std::string();
  auto text = error.message();
  const auto at = way.empty() ? std::string::npos : text.find(way);
  if (at != std::string::npos) text.replace(at, way.size(), path_ + "/");
  return Error(error.code(), std::move(text));
}

Result<std::uint64_t> OwnFolder::require_own(const std::string& name, bool empty) {
  PEN_ASSIGN(const int in, descriptor());
  struct stat info;
  if (::fstatat(in, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
    return errno_error(errno, fmt::format("look at {}", path_of(name)));
  PEN_TRY(check_plain(info, empty, path_of(name)));
  return numbers_are_common(in) ? std::uint64_t{info.st_ino} : 0;
}

std::optional<FileIdentity> FileIdentity::of(const File& file) {
  struct stat info;
  if (file.descriptor() < 0 || ::fstat(file.descriptor(), &info) != 0) return std::nullopt;
  return FileIdentity{info.st_dev, info.st_ino};
}

Result<std::shared_ptr<File>> OwnFiles::open(const std::string& path, OpenOptions options) {
  PEN_ASSIGN(options.folder, folder_.descriptor());
  PEN_ASSIGN(auto file, env_.open(path, options));
  const auto name = std::filesystem::path(path).filename().string();
  if (options.mode == OpenOptions::Mode::create_new) {
    note_made(*file, name);
  } else if (options.mode != OpenOptions::Mode::read) {
    PEN_TRY(check(*file, path, name));
  }
  return file;
}

void OwnFiles::note_made(const File& file, const std::string& name) {
  const auto made = FileIdentity::of(file);
  if (!made) return;
  MutexLock lock(mutex_);
  if (made_.size() >= made_names_max) made_.clear();
  made_.insert_or_assign(name, *made);
}

Result<void> OwnFiles::check(const File& file, const std::string& path, const std::string& name) {
  const auto found = FileIdentity::of(file);
  if (!found) return {};
  MutexLock lock(mutex_);
  const auto made = made_.find(name);
  const auto expected = expected_.find(name);
  const bool is_another = made != made_.end() ? !made->second.is(*found)
                                              : expected != expected_.end() && expected->second != found->inode &&
                                                    numbers_are_common(file.descriptor());
  if (!is_another) return {};
  return another_file(path);
}

bool OwnFiles::has_made(const std::string& name) {
  MutexLock lock(mutex_);
  return made_.contains(name);
}

Json OwnFiles::mark_of(const std::string& name) {
  MutexLock lock(mutex_);
  const auto made = made_.find(name);
  return made == made_.end() ? Json() : Json{{"inode", made->second.inode}};
}

void OwnFiles::expect(const std::string& name, const Json& mark) {
  if (!mark.is_object()) return;
  MutexLock lock(mutex_);
  expected_.insert_or_assign(name, mark.value("inode", std::uint64_t{0}));
}

Error another_file(const std::string& path) {
  return make_error(
      Errc::mismatch,
      "{} is not the file that was created: another program replaced it, or the ranks do not share the file system",
      path);
}

Result<void> require_new(File& file, const std::string& path) {
  struct stat info;
  if (file.descriptor() >= 0) {
    if (::fstat(file.descriptor(), &info) != 0) return errno_error(errno, fmt::format("stat {}", path));
    return check_plain(info, true, path);
  }
  PEN_ASSIGN(const auto size, file.size());
  if (size == 0) return {};
  return make_error(Errc::mismatch, "{} holds {} bytes before anything was written", path, size);
}

}  // namespace penstock::load
