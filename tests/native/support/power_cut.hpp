/// An Env whose power can be cut: it knows what the last sync of each file had covered, and what was written since.
///
/// Fault model. What a sync covered that has returned, lasts; so does a file's name from its sync_name() on. Of all
/// else each sector may or may not have reached the device, in any order, whatever the size of the write that it was
/// part of; a sector is never torn itself. The size of the file is the largest that survived. Cuts only look: the
/// store goes on, and the power may be cut again later. All calls are safe from several threads.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "base/files/env.hpp"

namespace penstock::testing {

/// What became of the writes that no sync had covered.
enum class Unsynced {
  gone,      ///< all of them
  sectors,   ///< some sectors of 512 bytes survived
  pages,     ///< some of 4096
  reordered  ///< some later ones survived, earlier ones did not
};

class PowerCutEnv final : public Env {
  struct Change {
    enum class Kind { write, grow, cut } kind;
    std::uint64_t offset = 0;  ///< or the new size
    std::vector<std::byte> bytes;
  };
  /// What a device holds of one file.
  struct Device {
    std::mutex mutex;
    // guarded by mutex
    bool named = false;
    std::vector<std::byte> synced;
    std::vector<Change> since;
  };

  static void apply(std::vector<std::byte>& to, const Change& change) {
    const auto end = change.offset + change.bytes.size();
    if (change.kind == Change::Kind::cut) return to.resize(change.offset);
    if (to.size() < end) to.resize(end);
    if (!change.bytes.empty()) std::memcpy(to.data() + change.offset, change.bytes.data(), change.bytes.size());
  }

  class CutFile final : public File {
   public:
    CutFile(std::shared_ptr<File> real, std::shared_ptr<Device> device, PowerCutEnv& env)
        : real_(std::move(real)), device_(std::move(device)), env_(env) {}

    Result<std::size_t> read_at(MutableBytes into, std::uint64_t offset) override {
      return real_->read_at(into, offset);
    }
    Result<void> write_at(std::span<const iovec> pieces, std::uint64_t offset) override {
      PEN_TRY(real_->write_at(pieces, offset));
      Change change{Change::Kind::write, offset, {}};
      for (const auto& piece : pieces) {
        const auto* data = static_cast<const std::byte*>(piece.iov_base);
        change.bytes.insert(change.bytes.end(), data, data + piece.iov_len);
      }
      note(std::move(change));
      return {};
    }
    /// What was written before it began is safe when it is over; nothing of what comes meanwhile.
    Result<void> sync() override {
      {
        std::lock_guard lock(device_->mutex);
        for (const auto& change : device_->since) apply(device_->synced, change);
        device_->since.clear();
      }
      env_.on_change();
      return {};
    }
    Result<void> sync_name() override {
      std::lock_guard lock(device_->mutex);
      device_->named = true;
      return {};
    }
    Result<void> truncate(std::uint64_t size) override {
      PEN_TRY(real_->truncate(size));
      note({Change::Kind::cut, size, {}});
      return {};
    }
    Result<void> reserve(std::uint64_t offset, std::uint64_t size) override {
      PEN_TRY(real_->reserve(offset, size));
      note({Change::Kind::grow, offset + size, {}});
      return {};
    }
    bool reserves() const override { return real_->reserves(); }
    Result<std::uint64_t> size() override { return real_->size(); }
    Result<void> lock(bool exclusive) override { return real_->lock(exclusive); }
    Result<void> unlock() override { return real_->unlock(); }
    bool direct() const override { return real_->direct(); }
    bool still_named() const override { return real_->still_named(); }
    /// Of a file whose first name no sync_name() made last.
    Result<void> rename(const std::string& path, IfTaken if_taken) override {
      PEN_TRY(real_->rename(path, if_taken));
      std::lock_guard lock(env_.mutex_);
      std::erase_if(env_.devices_, [&](const auto& each) { return each.second == device_; });
      env_.devices_[path] = device_;
      return {};
    }
    Result<FileIdentity> identity() const override { return real_->identity(); }

   private:
    void note(Change change) {
      {
        std::lock_guard lock(device_->mutex);
        device_->since.push_back(std::move(change));
      }
      env_.on_change();
    }

    const std::shared_ptr<File> real_;
    const std::shared_ptr<Device> device_;
    PowerCutEnv& env_;
  };

 public:
  Result<std::shared_ptr<File>> open(const std::string& path, OpenOptions options) override {
    PEN_ASSIGN(auto real, posix_env().open(path, options));
    std::lock_guard lock(mutex_);
    auto& device = devices_[path];
    if (!device) {
      device = std::make_shared<Device>();
      // A file that was there has been there for long.
      PEN_ASSIGN(const auto size, real->size());
      device->synced.resize(size);
      PEN_TRY(real->read_at(device->synced, 0));
      device->named = size > 0;
    }
    return std::shared_ptr<File>(std::make_shared<CutFile>(std::move(real), device, *this));
  }
  Result<std::uint64_t> free_bytes(const std::string& path) override { return posix_env().free_bytes(path); }
  Result<std::vector<std::string>> list(const std::string& folder) override { return posix_env().list(folder); }
  Result<void> remove(const std::string& path) override { return posix_env().remove(path); }

  /// Called after each change and each sync, on the thread that made it. Set it before a file is opened.
  std::function<void()> on_change = [] {};

  /// What is found at `path` when the power comes back after a loss at this moment; nothing where there is no
  /// such name.
  std::optional<std::vector<std::byte>> cut(const std::string& path, Unsynced fate, std::mt19937_64& random) {
    std::vector<std::byte> image;
    std::vector<Change> since;
    {
      std::lock_guard lock(mutex_);
      const auto found = devices_.find(path);
      if (found == devices_.end()) return std::nullopt;
      auto& device = *found->second;
      std::lock_guard of_device(device.mutex);
      if (!device.named) return std::nullopt;
      image = device.synced;
      since = device.since;
    }
    if (fate == Unsynced::gone) return image;
    if (fate == Unsynced::reordered) std::shuffle(since.begin(), since.end(), random);
    const std::size_t sector = fate == Unsynced::sectors ? 512 : 4096;
    const auto in_a_hundred = std::uniform_int_distribution<unsigned>(5, 95)(random);
    const auto survives = [&] { return random() % 100 < in_a_hundred; };
    for (const auto& change : since) survive(image, change, sector, survives);
    return image;
  }

 private:
  template <typename Survives>
  static void survive(std::vector<std::byte>& image, const Change& change, std::size_t sector, Survives survives) {
    if (change.kind != Change::Kind::write) {
      if (survives()) apply(image, change);
      return;
    }
    const auto end = change.offset + change.bytes.size();
    for (auto at = change.offset; at < end;) {
      const auto next = std::min<std::uint64_t>(end, (at / sector + 1) * sector);
      if (survives()) {
        const auto* from = change.bytes.data() + (at - change.offset);
        apply(image, {Change::Kind::write, at, std::vector<std::byte>(from, from + (next - at))});
      }
      at = next;
    }
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Device>> devices_;  // guarded by mutex_
};

}  // namespace penstock::testing
