/// An Env of a process that dies at a chosen write: what it did before stays, of this write nothing or a part, and
/// nothing comes after it. Whatever changes a file is counted: writes, syncs, cuts, reservations, names.
///
/// Fault model: kill -9. The page cache keeps what was written. Safe from several threads.
#pragma once

#include <atomic>

#include "base/files/env.hpp"

namespace penstock::testing {

class DyingEnv final : public Env {
  static constexpr std::uint64_t sector_bytes = 512;

  struct Life {
    std::atomic<std::uint64_t> changes{0};
    std::atomic<std::uint64_t> last{0};  ///< the number of the change at which it dies, from 1 on; 0: it lives
    std::atomic<std::uint64_t> torn{0};  ///< how many eighths of that write reach the file
    std::atomic<bool> dead{false};

    /// Whether this change happens as a whole; `dying` is true for the one that may be torn.
    bool happens(bool& dying) {
      const auto number = ++changes;
      dying = last > 0 && number == last;
      if (dying) dead = true;
      return !dead;
    }
  };

  static Error gone() { return make_error(Errc::io, "the process is dead"); }

  class DyingFile final : public File {
   public:
    DyingFile(std::shared_ptr<File> real, std::shared_ptr<Life> life)
        : real_(std::move(real)), life_(std::move(life)) {}

    Result<std::size_t> read_at(MutableBytes into, std::uint64_t offset) override {
      return real_->read_at(into, offset);
    }
    Result<void> write_at(std::span<const iovec> pieces, std::uint64_t offset) override {
      bool dying = false;
      if (life_->happens(dying)) return real_->write_at(pieces, offset);
      if (!dying) return gone();
      std::vector<std::byte> bytes;
      for (const auto& piece : pieces) {
        const auto* data = static_cast<const std::byte*>(piece.iov_base);
        bytes.insert(bytes.end(), data, data + piece.iov_len);
      }
      const bool of_sectors = bytes.size() >= page_bytes;  // storage takes no part of one
      const auto torn = bytes.size() * life_->torn / 8;
      bytes.resize(of_sectors ? torn / sector_bytes * sector_bytes : torn);
      if (!bytes.empty()) (void)penstock::write_at(*real_, bytes, offset);
      return gone();
    }
    // The page cache outlives the process: nothing has to be waited for.
    Result<void> sync() override {
      return change([] { return Result<void>{}; });
    }
    Result<void> sync_name() override {
      return change([] { return Result<void>{}; });
    }
    Result<void> truncate(std::uint64_t size) override {
      return change([&] { return real_->truncate(size); });
    }
    Result<void> reserve(std::uint64_t offset, std::uint64_t size) override {
      return change([&] { return real_->reserve(offset, size); });
    }
    void discard(std::uint64_t offset, std::uint64_t size) override {
      if (!life_->dead) real_->discard(offset, size);
    }
    std::uint64_t next_data(std::uint64_t offset) override { return real_->next_data(offset); }
    bool reserves() const override { return real_->reserves(); }
    Result<std::uint64_t> size() override { return real_->size(); }
    Result<void> lock(bool exclusive) override { return real_->lock(exclusive); }
    Result<void> unlock() override { return real_->unlock(); }
    bool direct() const override { return real_->direct(); }
    bool still_named() const override { return real_->still_named(); }
    Result<void> rename(const std::string& path, IfTaken if_taken) override {
      return change([&] { return real_->rename(path, if_taken); });
    }
    Result<FileIdentity> identity() const override { return real_->identity(); }

   private:
    template <typename Do>
    Result<void> change(Do what) {
      bool dying = false;
      return life_->happens(dying) ? what() : Result<void>(gone());
    }

    const std::shared_ptr<File> real_;
    const std::shared_ptr<Life> life_;
  };

 public:
  explicit DyingEnv(std::uint64_t last = 0, std::uint64_t torn = 0) { die_at(last, torn); }

  Result<std::shared_ptr<File>> open(const std::string& path, OpenOptions options) override {
    bool dying = false;
    const bool makes = options.mode == OpenOptions::Mode::create_new;
    if (makes ? !life_->happens(dying) : life_->dead.load()) return gone();
    options.direct = false;  // so that a write can be torn anywhere
    PEN_ASSIGN(auto real, posix_env().open(path, options));
    return std::shared_ptr<File>(std::make_shared<DyingFile>(std::move(real), life_));
  }
  Result<std::uint64_t> free_bytes(const std::string& path) override { return posix_env().free_bytes(path); }
  Result<std::vector<std::string>> list(const std::string& folder) override { return posix_env().list(folder); }
  Result<void> remove(const std::string& path) override {
    bool dying = false;
    return life_->happens(dying) ? posix_env().remove(path) : Result<void>(gone());
  }

  /// From now on: its change with this number kills it.
  void die_at(std::uint64_t last, std::uint64_t torn) {
    life_->torn = torn;
    life_->last = last;
  }
  bool died() const { return life_->dead; }
  std::uint64_t changes() const { return life_->changes; }

 private:
  const std::shared_ptr<Life> life_ = std::make_shared<Life>();
};

}  // namespace penstock::testing
