/// The folder of a plan, and the files in it that a run made: nothing that somebody puts in their place is written to.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/fields.hpp"
#include "base/files/env.hpp"
#include "base/mutex.hpp"
#include "base/result.hpp"

namespace penstock::load {

/// Opened once: a link, or another folder, that takes its place later leads nowhere. Safe from several threads.
class OwnFolder {
 public:
  explicit OwnFolder(std::string path) : path_(std::move(path)) {}
  ~OwnFolder();
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  /// Opened when it is first asked for, by whoever may hang in that. An error where it is a link.
  Result<int> descriptor();
  /// As users know it, for messages.
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }
  /// For libraries that take paths alone: it leads through the descriptor.
  Result<std::string> way_to(const std::string& name);
  /// What such a library says, with the path that users know.
  Error told(const Error& error);
  /// For libraries that open files by themselves, and follow links: an error unless this is a plain file with one
  /// name, and with `empty` one that nobody has written to. Its number, which is the same for all machines that share
  /// the file system; 0 where it may not be.
  Result<std::uint64_t> require_own(const std::string& name, bool empty);

 private:
  const std::string path_;
  Mutex opening_;
  int descriptor_ PEN_GUARDED_BY(opening_) = -1;
};

/// Which file it is, as its file system numbers them.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;

  /// Returns nullopt if it is not a file of the kernel.
  static std::optional<FileIdentity> of(const File& file);
  bool is(const FileIdentity& other) const { return device == other.device && inode == other.inode; }
};

/// Opens files in an own folder, and knows those again that were made there. Safe from several threads.
class OwnFiles final : public Env {
 public:
  /// `env` outlives it.
  OwnFiles(std::string folder, Env& env) : folder_(std::move(folder)), env_(env) {}

  OwnFolder& folder() { return folder_; }
  /// To be written to: `mismatch` where it is another file than the one of this name that was made.
  Result<std::shared_ptr<File>> open(const std::string& path, OpenOptions options) override;
  Result<std::uint64_t> free_bytes(const std::string& path) override { return env_.free_bytes(path); }
  Result<std::vector<std::string>> list(const std::string& path) override { return env_.list(path); }
  Result<void> remove(const std::string& path) override { return env_.remove(path); }

  /// This file was made here, maybe under another name.
  void note_made(const File& file, const std::string& name);
  /// Whether a file was made here, of the last ones at least.
  bool has_made(const std::string& name);
  /// How other processes know a file that was made here; null if unknown. While it is open the number is of
  /// no other file.
  Json mark_of(const std::string& name);
  /// What mark_of() said in the process that made the file.
  void expect(const std::string& name, const Json& mark);

 private:
  Result<void> check(const File& file, const std::string& path, const std::string& name);

  OwnFolder folder_;
  Env& env_;
  Mutex mutex_;
  std::map<std::string, FileIdentity> made_ PEN_GUARDED_BY(mutex_);
  std::map<std::string, std::uint64_t> expected_ PEN_GUARDED_BY(mutex_);  ///< inodes
};

/// `mismatch`, of a file that is not the one of this path which was made.
Error another_file(const std::string& path);

/// Of a file that another thread or process made, before anything is written to it: an error unless it is empty, and
/// has one name. What it takes the place of cannot be lost then, whatever file systems say of identities.
Result<void> require_new(File& file, const std::string& path);

}  // namespace penstock::load
