/// An Env whose files fail on demand: full disk, broken device, slow storage. Everything else goes
/// to the real one.
///
/// Fault model: a write that fails takes none of its bytes, or with `tear` the first half of them;
/// what was written before stays. Safe from several threads.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "base/files/env.hpp"

namespace penstock::testing {

/// What a program asks of its files.
enum class Call {
  open,
  read,
  write,
  sync,
  close,
  sync_name,
  truncate,
  reserve,
  size,
  lock,
  unlock,
  list,
  remove,
  rename
};

struct Faults {
  /// Asked before every call, of whatever kind; an error is returned instead of doing it.
  std::function<Result<void>(Call call)> on_call = [](Call) { return Result<void>{}; };
  /// Asked before each write; an error is returned instead of writing.
  std::function<Result<void>(std::uint64_t offset, std::uint64_t bytes)> on_write = [](auto, auto) {
    return Result<void>{};
  };
  std::function<Result<void>(std::uint64_t offset, std::uint64_t bytes)> on_reserve = [](auto, auto) {
    return Result<void>{};
  };
  std::function<Result<void>()> on_sync = [] { return Result<void>{}; };
  /// Called before each look whether a file is found at its path.
  std::function<void()> on_look = [] {};
  bool reserves = true;  ///< false: as a file system that keeps no space
  bool locks = true;     ///< false: as a file system that has none
  bool tear = false;     ///< a failing write leaves half of its bytes
  std::atomic<std::uint64_t> writes{0};
  std::atomic<std::uint64_t> syncs{0};
};

class FaultFile final : public File {
 public:
  FaultFile(std::shared_ptr<File> real, std::shared_ptr<Faults> faults)
      : real_(std::move(real)), faults_(std::move(faults)) {}

  Result<std::size_t> read_at(MutableBytes into, std::uint64_t offset) override {
    PEN_TRY(faults_->on_call(Call::read));
    return real_->read_at(into, offset);
  }

  Result<void> write_at(std::span<const iovec> pieces, std::uint64_t offset) override {
    std::uint64_t bytes = 0;
    for (const auto& piece : pieces) bytes += piece.iov_len;
    ++faults_->writes;
    auto result = faults_->on_call(Call::write);
    if (result.ok()) result = faults_->on_write(offset, bytes);
    if (!result.ok()) {
      if (faults_->tear) PEN_TRY(real_->write_at(pieces.first((pieces.size() + 1) / 2), offset));
      return result;
    }
    return real_->write_at(pieces, offset);
  }

  Result<void> sync() override {
    ++faults_->syncs;
    PEN_TRY(faults_->on_call(Call::sync));
    PEN_TRY(faults_->on_sync());
    return real_->sync();
  }
  Result<void> close() override {
    PEN_TRY(faults_->on_call(Call::close));
    return real_->close();
  }
  Result<void> sync_name() override {
    PEN_TRY(faults_->on_call(Call::sync_name));
    return real_->sync_name();
  }
  Result<void> truncate(std::uint64_t size) override {
    PEN_TRY(faults_->on_call(Call::truncate));
    return real_->truncate(size);
  }
  Result<void> reserve(std::uint64_t offset, std::uint64_t size) override {
    PEN_TRY(faults_->on_call(Call::reserve));
    PEN_TRY(faults_->on_reserve(offset, size));
    return real_->reserve(offset, size);
  }
  void discard(std::uint64_t offset, std::uint64_t size) override { real_->discard(offset, size); }
  std::uint64_t next_data(std::uint64_t offset) override { return real_->next_data(offset); }
  bool reserves() const override { return faults_->reserves && real_->reserves(); }
  bool locks() const override { return faults_->locks && real_->locks(); }
  Result<std::uint64_t> size() override {
    PEN_TRY(faults_->on_call(Call::size));
    return real_->size();
  }
  Result<void> lock(bool exclusive) override {
    PEN_TRY(faults_->on_call(Call::lock));
    if (!faults_->locks) return {};
    return real_->lock(exclusive);
  }
  Result<void> unlock() override {
    PEN_TRY(faults_->on_call(Call::unlock));
    if (!faults_->locks) return {};
    return real_->unlock();
  }
  bool direct() const override { return real_->direct(); }
  bool still_named() const override {
    faults_->on_look();
    return real_->still_named();
  }
  Result<void> rename(const std::string& path, IfTaken if_taken) override {
    PEN_TRY(faults_->on_call(Call::rename));
    return real_->rename(path, if_taken);
  }
  Result<FileIdentity> identity() const override { return real_->identity(); }

 private:
  const std::shared_ptr<File> real_;
  const std::shared_ptr<Faults> faults_;
};

class FaultEnv final : public Env {
 public:
  Result<std::shared_ptr<File>> open(const std::string& path, OpenOptions options) override {
    PEN_TRY(faults->on_call(Call::open));
    on_open(path);
    PEN_ASSIGN(auto real, posix_env().open(path, options));
    return std::shared_ptr<File>(std::make_shared<FaultFile>(std::move(real), faults));
  }
  Result<std::uint64_t> free_bytes(const std::string& path) override { return posix_env().free_bytes(path); }
  Result<std::vector<std::string>> list(const std::string& folder) override {
    PEN_TRY(faults->on_call(Call::list));
    return posix_env().list(folder);
  }
  Result<void> remove(const std::string& path) override {
    PEN_TRY(faults->on_call(Call::remove));
    return posix_env().remove(path);
  }

  /// Change the functions before a store is created; the functions themselves may look at atomics.
  const std::shared_ptr<Faults> faults = std::make_shared<Faults>();
  /// Called before each file is opened.
  std::function<void(const std::string& path)> on_open = [](const std::string&) {};
};

}  // namespace penstock::testing
