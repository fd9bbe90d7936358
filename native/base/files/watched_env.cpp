#include "base/files/watched_env.hpp"

#include <type_traits>
#include <utility>

namespace penstock {
namespace {

class WatchedFile final : public File {
 public:
  WatchedFile(std::shared_ptr<File> file, Watching watching) : file_(std::move(file)), watching_(watching) {}
  ~WatchedFile() override {
    {
      const WatchedCall call(watching_, Call::close);
      file_.reset();
    }
    watching_.watch->forget(watching_);
  }

  Result<std::size_t> read_at(MutableBytes into, std::uint64_t offset) override {
    const WatchedCall call(watching_, Call::read, offset, into.size());
    return file_->read_at(into, offset);
  }
  void will_read(std::uint64_t offset, std::uint64_t size) override {
    const WatchedCall call(watching_, Call::read, offset, size);
    file_->will_read(offset, size);
  }
  Result<void> write_at(std::span<const iovec> pieces, std::uint64_t offset) override {
    std::uint64_t bytes = 0;
    for (const auto& piece : pieces) bytes += piece.iov_len;
    const WatchedCall call(watching_, Call::write, offset, bytes);
    return file_->write_at(pieces, offset);
  }
  void start_writeback(std::uint64_t offset, std::uint64_t size) override {
    const WatchedCall call(watching_, Call::writeback, offset, size);
    file_->start_writeback(offset, size);
  }
  Result<void> sync() override {
    const WatchedCall call(watching_, Call::sync);
    return file_->sync();
  }
  Result<void> close() override {
    const WatchedCall call(watching_, Call::close);
    return file_->close();
  }
  Result<void> sync_name() override {
    const WatchedCall call(watching_, Call::sync);
    return file_->sync_name();
  }
  Result<void> truncate(std::uint64_t size) override {
    const WatchedCall call(watching_, Call::truncate, size);
    return file_->truncate(size);
  }
  Result<void> reserve(std::uint64_t offset, std::uint64_t size) override {
    const WatchedCall call(watching_, Call::reserve, offset, size);
    return file_->reserve(offset, size);
  }
  void discard(std::uint64_t offset, std::uint64_t size) override {
    const WatchedCall call(watching_, Call::discard, offset, size);
    file_->discard(offset, size);
  }
  std::uint64_t next_data(std::uint64_t offset) override {
    const WatchedCall call(watching_, Call::stat, offset);
    return file_->next_data(offset);
  }
  bool reserves() const override { return file_->reserves(); }
  bool locks() const override { return file_->locks(); }
  Result<std::uint64_t> size() override {
    const WatchedCall call(watching_, Call::stat);
    return file_->size();
  }
  Result<void> lock(bool exclusive) override {
    const WatchedCall call(watching_, Call::lock);
    return file_->lock(exclusive);
  }
  Result<void> unlock() override {
    const WatchedCall call(watching_, Call::lock);
    return file_->unlock();
  }
  bool direct() const override { return file_->direct(); }
  bool still_named() const override {
    const WatchedCall call(watching_, Call::stat);
    return file_->still_named();
  }
  bool was_moved() const override {
    const WatchedCall call(watching_, Call::stat);
    return file_->was_moved();
  }
  Result<void> rename(const std::string& path, IfTaken if_taken) override {
    const WatchedCall call(watching_, Call::truncate);
    PEN_TRY(file_->rename(path, if_taken));
    watching_.watch->rename(watching_, path);
    return {};
  }
  Result<FileIdentity> identity() const override {
    const WatchedCall call(watching_, Call::stat);
    return file_->identity();
  }
  Watching watching() const override { return watching_; }

 private:
  std::shared_ptr<File> file_;
  const Watching watching_;
};

class WatchedEnv final : public Env {
 public:
  WatchedEnv(Env& env, CallWatch& watch) : env_(env), watch_(watch) {}

  Result<std::shared_ptr<File>> open(const std::string& path, OpenOptions options) override {
    const auto watching = watch_.remember(path);
    auto opened = [&] {
      const WatchedCall call(watching, Call::open);
      return env_.open(path, options);
    }();
    if (opened.ok()) return std::shared_ptr<File>(std::make_shared<WatchedFile>(std::move(*opened), watching));
    watch_.forget(watching);
    return opened;
  }

  Result<std::uint64_t> free_bytes(const std::string& path) override {
    return watched(path, Call::stat, [&] { return env_.free_bytes(path); });
  }
  Result<std::vector<std::string>> list(const std::string& folder) override {
    return watched(folder, Call::stat, [&] { return env_.list(folder); });
  }
  Result<void> remove(const std::string& path) override {
    return watched(path, Call::truncate, [&] { return env_.remove(path); });
  }

 private:
  template <typename What>
  std::invoke_result_t<What> watched(const std::string& path, Call kind, What what) {
    const auto watching = watch_.remember(path);
    auto outcome = [&] {
      const WatchedCall call(watching, kind);
      return what();
    }();
    watch_.forget(watching);
    return outcome;
  }

  Env& env_;
  CallWatch& watch_;
};

}  // namespace

std::unique_ptr<Env> make_watched_env(Env& env, CallWatch& watch) { return std::make_unique<WatchedEnv>(env, watch); }

}  // namespace penstock
