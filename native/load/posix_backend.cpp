#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "load/backend.hpp"
#include "load/page_cache.hpp"
#include "load/queued_file.hpp"

namespace penstock::load {
namespace {

class PosixStoredFile final : public StoredFile {
 public:
  explicit PosixStoredFile(std::shared_ptr<File> file) : file_(std::move(file)) {}
  Result<void> write(Bytes bytes, std::uint64_t offset) override { return write_at(*file_, bytes, offset); }
  Result<std::size_t> read(MutableBytes into, std::uint64_t offset) override { return file_->read_at(into, offset); }
  Result<void> sync() override { return file_->sync(); }
  Result<void> close() override { return file_->close(); }

 private:
  std::shared_ptr<File> file_;
};

/// A file that threads join is the only one of its run; with a file a frame nobody joins, and they are not kept.
constexpr std::size_t joined_names_max = 256;

class PosixBackend final : public Backend {
 public:
  PosixBackend(const PosixPlan& plan, Env& env) : plan_(plan), env_(env) {}
  ~PosixBackend() override {
    if (folder_ >= 0) ::close(folder_);
  }
  PosixBackend(const PosixBackend&) = delete;
  PosixBackend& operator=(const PosixBackend&) = delete;

  void start(std::int64_t) override {}
  std::uint64_t alignment() const override { return plan_.direct ? page_bytes : 1; }
  Result<std::unique_ptr<StoredFile>> create(const std::string& name) override {
    PEN_ASSIGN(auto file, raw(name, OpenOptions::Mode::create_new));
    if (const auto made = identity_of(*file)) {
      std::lock_guard lock(mutex_);
      first_made_.try_emplace(name, *made);
      if (first_made_.size() > joined_names_max) first_made_.clear();
    }
    return stored(std::move(file));
  }
  Result<std::unique_ptr<StoredFile>> open(const std::string& name) override {
    PEN_ASSIGN(auto file, raw(name, OpenOptions::Mode::read));
    return stored(std::move(file));
  }
  Result<std::unique_ptr<StoredFile>> join(const std::string& name) override {
    PEN_ASSIGN(auto file, raw(name, OpenOptions::Mode::update));
    const auto found = identity_of(*file);
    std::unique_lock lock(mutex_);
    const auto made = first_made_.find(name);
    if (found && made != first_made_.end() && made->second != *found)
      return make_error(Errc::mismatch, "{} is another file than the one that was made", path_of(name));
    lock.unlock();
    return stored(std::move(file));
  }
  std::optional<std::uint64_t> cached_bytes(const std::string& name) override {
    const auto in = folder();
    return in.ok() ? cached_bytes_after_forgetting(name, *in) : std::nullopt;
  }
  Result<std::unique_ptr<Names>> names() override {
    PEN_ASSIGN(const int in, folder());
    const int own = ::fcntl(in, F_DUPFD_CLOEXEC, 0);
    if (own < 0) return errno_error(errno, fmt::format("open folder {}", plan_.folder));
    return make_posix_names(own);
  }
  Sync sync() const override { return plan_.sync; }
  Json describe() const override {
    return {{"direct", direct_files_ > 0 && cached_files_ == 0}, {"queue_depth", plan_.queue_depth}};
  }

 private:
  std::string path_of(const std::string& name) const { return plan_.folder + "/" + name; }

  /// Opened when it is first asked for, by whoever may hang in that.
  Result<int> folder() {
    std::lock_guard lock(opening_);
    if (folder_ < 0) {
      PEN_ASSIGN(folder_, open_folder(plan_.folder));
    }
    return folder_;
  }

  using Identity = std::pair<dev_t, ino_t>;
  static std::optional<Identity> identity_of(const File& file) {
    struct stat info;
    if (file.descriptor() < 0 || ::fstat(file.descriptor(), &info) != 0) return std::nullopt;
    return Identity{info.st_dev, info.st_ino};
  }

  Result<std::shared_ptr<File>> raw(const std::string& name, OpenOptions::Mode mode) {
    PEN_ASSIGN(const int in, folder());
    return env_.open(path_of(name), {mode, plan_.direct, in});
  }

  Result<std::unique_ptr<StoredFile>> stored(std::shared_ptr<File> file) {
    ++(file->direct() ? direct_files_ : cached_files_);
    if (plan_.queue_depth > 1) return make_queued_file(std::move(file), plan_.queue_depth);
    return std::unique_ptr<StoredFile>(std::make_unique<PosixStoredFile>(std::move(file)));
  }

  const PosixPlan plan_;
  Env& env_;
  std::mutex opening_;
  int folder_ = -1;  ///< guarded by opening_
  std::mutex mutex_;
  std::map<std::string, Identity> first_made_;  ///< guarded by mutex_
  std::atomic<std::uint64_t> direct_files_{0};
  std::atomic<std::uint64_t> cached_files_{0};
};

}  // namespace

std::shared_ptr<Backend> make_posix_backend(const PosixPlan& plan, Env& env) {
  return std::make_shared<PosixBackend>(plan, env);
}

}  // namespace penstock::load
