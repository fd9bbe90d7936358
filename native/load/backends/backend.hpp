/// Where a workload's bytes go. A new back end is one file, and a line in make_backend().
///
/// A workload makes files, writes and reads them at offsets, and closes them. It never asks what kind of storage that
/// is; what the storage made of the plan's wishes goes into the document through describe().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.hpp"
#include "base/fields.hpp"
#include "base/files/env.hpp"
#include "base/result.hpp"
#include "load/names.hpp"
#include "load/plan.hpp"

namespace penstock::load {

/// A transfer that was started has ended, with this number of bytes.
struct Ended {
  unsigned slot;
  Result<std::size_t> bytes;
};

/// One thread uses it. Destroying it without close() is for errors.
class StoredFile {
 public:
  virtual ~StoredFile() = default;
  /// Where they begin in memory, their size and `offset` are multiples of the back end's alignment.
  virtual Result<void> write(Bytes bytes, std::uint64_t offset) = 0;
  /// Fewer bytes only at the end of the file.
  virtual Result<std::size_t> read(MutableBytes into, std::uint64_t offset) = 0;
  virtual Result<void> sync() = 0;
  /// How many transfers may be under way at once. With more than 1, the next three take the place of write() and
  /// read().
  virtual unsigned depth() const { return 1; }
  /// `slot` is below depth() and taken until wait_for_one() returns it; until then the bytes must stay valid.
  virtual Result<void> begin_write(unsigned slot, Bytes bytes, std::uint64_t offset) {
    return no_queue(slot, bytes.size(), offset);
  }
  virtual Result<void> begin_read(unsigned slot, MutableBytes into, std::uint64_t offset) {
    return no_queue(slot, into.size(), offset);
  }
  /// One of those that are under way, in whatever order they end. An error: the state of all of them is unknown.
  virtual Result<Ended> wait_for_one() { return no_queue(0, 0, 0); }
  /// Nothing is called afterwards.
  virtual Result<void> close() = 0;

 private:
  static Error no_queue(unsigned slot, std::uint64_t size, std::uint64_t offset) {
    return make_error(Errc::internal, "slot {}, {} bytes at {}: this file has no queue", slot, size, offset);
  }
};

/// Safe from several threads.
class Backend {
 public:
  virtual ~Backend() = default;
  /// Times of a plan that are counted from the start, a monotonic time, begin. Called before anything is written, and
  /// again where another phase begins.
  virtual void start(std::int64_t start_ns) = 0;
  /// Of sizes and offsets, in bytes: 1 where any will do.
  virtual std::uint64_t alignment() const = 0;
  /// A new file; an error where one of that name is there. `made` is set as soon as the file exists because of this
  /// call, whatever fails afterwards.
  virtual Result<std::unique_ptr<StoredFile>> create(const std::string& name, bool& made) = 0;
  Result<std::unique_ptr<StoredFile>> create(const std::string& name) {
    bool made = false;
    return create(name, made);
  }
  /// One that was written before, for reading.
  virtual Result<std::unique_ptr<StoredFile>> open(const std::string& name) = 0;
  /// One that was made before, for writing beside others that do.
  virtual Result<std::unique_ptr<StoredFile>> join(const std::string& name) {
    return make_error(Errc::unsupported, "{}: this kind of backend does not write into a file from several threads",
                      name);
  }
  /// How other ranks know a file that create() made here, while that one is open; null if unknown.
  virtual Json mark_of(const std::string& /*name*/) { return nullptr; }
  /// What mark_of() said where the file was made: join() takes no other one.
  virtual void expect(const std::string& /*name*/, const Json& /*mark*/) {}
  /// How many bytes of a file are in this machine's memory, so that reading them does not read from storage. What can
  /// be forgotten of them is forgotten first. Nothing where it is not known.
  virtual std::optional<std::uint64_t> cached_bytes(const std::string& name) = 0;
  /// For workloads of names; an error where it has none.
  virtual Result<std::unique_ptr<Names>> names() {
    return make_error(Errc::unsupported, "this kind of backend has no folders, and names no files");
  }
  /// When to sync() is the plan's choice; a back end that has nothing to sync says none.
  virtual Sync sync() const = 0;
  /// Before each call of write() or read(), and once after the last one: whether to end, where this rank would. Back
  /// ends whose ranks do the same call together agree on it; every rank goes on asking until it ends, whatever has
  /// failed.
  virtual bool agree_to_end(bool end) { return end; }
  /// Whether agree_to_end() takes time, because it waits for other ranks.
  virtual bool agrees_with_others() const { return false; }
  /// Grows while other ranks do something that a call here may wait for: meanwhile nothing counts as stalled.
  virtual std::uint64_t signs_of_others() const { return 0; }
  /// The longest time for which a thread of the back end's own has waited for a processor; nothing where it has none,
  /// or the kernel does not report it.
  virtual std::optional<std::int64_t> waited_for_processor_ns() const { return std::nullopt; }
  /// What came of the plan's wishes, as fields of the document.
  virtual Json describe() const = 0;
};

std::shared_ptr<Backend> make_null_backend(const NullPlan& plan);
/// `env` outlives it.
std::shared_ptr<Backend> make_posix_backend(const PosixPlan& plan, Env& env);

/// Null where it is one that not every program has.
inline std::shared_ptr<Backend> make_backend(const LoadPlan& plan, Env& env) {
  if (const auto* posix = std::get_if<PosixPlan>(&plan.backend)) return make_posix_backend(*posix, env);
  if (const auto* null = std::get_if<NullPlan>(&plan.backend)) return make_null_backend(*null);
  return nullptr;
}

}  // namespace penstock::load
