#include <fcntl.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "load/backends/backend.hpp"
#include "load/backends/own_folder.hpp"
#include "load/backends/page_cache.hpp"
#include "load/backends/queued_file.hpp"

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

class PosixBackend final : public Backend {
 public:
  PosixBackend(const PosixPlan& plan, Env& env) : plan_(plan), files_(plan.folder, env) {}

  void start(std::int64_t) override {}
  std::uint64_t alignment() const override { return plan_.direct ? page_bytes : 1; }
  Result<std::unique_ptr<StoredFile>> create(const std::string& name, bool& made) override {
    PEN_ASSIGN(auto file, raw(name, OpenOptions::Mode::create_new));
    made = true;
    return stored(std::move(file));
  }
  Result<std::unique_ptr<StoredFile>> open(const std::string& name) override {
    PEN_ASSIGN(auto file, raw(name, OpenOptions::Mode::read));
    return stored(std::move(file));
  }
  Result<std::unique_ptr<StoredFile>> join(const std::string& name) override {
    PEN_ASSIGN(auto file, raw(name, OpenOptions::Mode::update));
    PEN_TRY(require_new(*file, files_.folder().path_of(name)));
    return stored(std::move(file));
  }
  Json mark_of(const std::string& name) override { return files_.mark_of(name); }
  void expect(const std::string& name, const Json& mark) override { files_.expect(name, mark); }
  std::optional<std::uint64_t> cached_bytes(const std::string& name) override {
    return cached_bytes_after_forgetting(files_.folder(), name);
  }
  Result<std::unique_ptr<Names>> names() override {
    PEN_ASSIGN(const int in, files_.folder().descriptor());
    const int own = ::fcntl(in, F_DUPFD_CLOEXEC, 0);
    if (own < 0) return errno_error(errno, fmt::format("open folder {}", plan_.folder));
    return make_posix_names(own);
  }
  Sync sync() const override { return plan_.sync; }
  Json describe() const override {
    return {{"direct", direct_files_ > 0 && cached_files_ == 0}, {"queue_depth", plan_.queue_depth}};
  }

 private:
  Result<std::shared_ptr<File>> raw(const std::string& name, OpenOptions::Mode mode) {
    return files_.open(files_.folder().path_of(name), {mode, plan_.direct});
  }

  Result<std::unique_ptr<StoredFile>> stored(std::shared_ptr<File> file) {
    ++(file->direct() ? direct_files_ : cached_files_);
    if (plan_.queue_depth > 1) return make_queued_file(std::move(file), plan_.queue_depth);
    return std::unique_ptr<StoredFile>(std::make_unique<PosixStoredFile>(std::move(file)));
  }

  const PosixPlan plan_;
  OwnFiles files_;
  std::atomic<std::uint64_t> direct_files_{0};
  std::atomic<std::uint64_t> cached_files_{0};
};

}  // namespace

std::shared_ptr<Backend> make_posix_backend(const PosixPlan& plan, Env& env) {
  return std::make_shared<PosixBackend>(plan, env);
}

}  // namespace penstock::load
