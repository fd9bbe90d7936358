#include <atomic>

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

class PosixBackend final : public Backend {
 public:
  PosixBackend(const PosixPlan& plan, Env& env) : plan_(plan), env_(env) {}

  void start(std::int64_t) override {}
  std::uint64_t alignment() const override { return plan_.direct ? page_bytes : 1; }
  Result<std::unique_ptr<StoredFile>> create(const std::string& name) override {
    return opened(name, OpenOptions::Mode::create_new);
  }
  Result<std::unique_ptr<StoredFile>> open(const std::string& name) override {
    return opened(name, OpenOptions::Mode::read);
  }
  Result<std::unique_ptr<StoredFile>> join(const std::string& name) override {
    return opened(name, OpenOptions::Mode::update);
  }
  std::optional<std::uint64_t> cached_bytes(const std::string& name) override {
    return cached_bytes_after_forgetting(path_of(name));
  }
  Result<std::unique_ptr<Names>> names() override { return open_posix_names(plan_.folder); }
  Sync sync() const override { return plan_.sync; }
  Json describe() const override {
    return {{"direct", direct_files_ > 0 && cached_files_ == 0}, {"queue_depth", plan_.queue_depth}};
  }

 private:
  std::string path_of(const std::string& name) const { return plan_.folder + "/" + name; }

  Result<std::unique_ptr<StoredFile>> opened(const std::string& name, OpenOptions::Mode mode) {
    PEN_ASSIGN(auto file, env_.open(path_of(name), {mode, plan_.direct}));
    ++(file->direct() ? direct_files_ : cached_files_);
    if (plan_.queue_depth > 1) return make_queued_file(std::move(file), plan_.queue_depth);
    return std::unique_ptr<StoredFile>(std::make_unique<PosixStoredFile>(std::move(file)));
  }

  const PosixPlan plan_;
  Env& env_;
  std::atomic<std::uint64_t> direct_files_{0};
  std::atomic<std::uint64_t> cached_files_{0};
};

}  // namespace

std::shared_ptr<Backend> make_posix_backend(const PosixPlan& plan, Env& env) {
  return std::make_shared<PosixBackend>(plan, env);
}

}  // namespace penstock::load
