#include "load_hdf5/store_backend.hpp"

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "load/machine.hpp"
#include "load/own_folder.hpp"
#include "load/page_cache.hpp"
#include "store/hdf5/handles.hpp"
#include "store/store.hpp"

namespace penstock::load_hdf5 {
namespace {

using load::Ended;
using load::LoadPlan;
using load::StorePlan;
using load::StreamPlan;
using load::Sync;
using store::hdf5::done;
using store::hdf5::Handle;
using store::hdf5::LibraryLock;
using store::hdf5::owned;

constexpr const char* rows_name = "/data";

/// The slots of one thread whose bytes the store does not need any more. The store's threads tell.
class EndedSlots {
 public:
  void add(unsigned slot) {
    std::lock_guard lock(mutex_);
    slots_.push_back(slot);
    one_came_.notify_one();
  }
  std::optional<unsigned> take() {
    std::lock_guard lock(mutex_);
    return taken();
  }
  unsigned wait() {
    std::unique_lock lock(mutex_);
    one_came_.wait(lock, [this] { return !slots_.empty(); });
    return *taken();
  }

 private:
  std::optional<unsigned> taken() {
    if (slots_.empty()) return std::nullopt;
    const auto slot = slots_.front();
    slots_.pop_front();
    return slot;
  }

  std::mutex mutex_;
  std::condition_variable one_came_;
  std::deque<unsigned> slots_;  // guarded by mutex_
};

/// A store and those that fill it. The last one that closes it finishes it.
class OpenStore final : public store::Listener {
 public:
  static Result<std::shared_ptr<OpenStore>> create(const LoadPlan& plan, const std::string& path, Env& env) {
    const auto& chosen = std::get<StorePlan>(plan.backend);
    const auto& stream = std::get<StreamPlan>(plan.workload);
    store::FileLayout layout;
    layout.chunked.push_back({rows_name, ElementType::u8, {stream.transfer_bytes}, 0, {}, {}, {}});
    store::StoreOptions options;
    options.direct = chosen.direct;
    options.swmr = false;  // nobody reads meanwhile
    options.buffer_bytes = load::store_buffer_bytes;
    // No more is leased than a small file may need.
    const auto file_bytes = stream.thread_bytes * (stream.shared ? stream.threads : 1);
    options.extent_bytes =
        std::clamp<std::uint64_t>(align_up(file_bytes, 1 << 20), 2 * options.segment_bytes, options.extent_bytes);
    auto open = std::make_shared<OpenStore>();
    PEN_ASSIGN(open->store_, store::Store::create(env, path, layout, options, open.get()));
    return open;
  }

  std::unique_ptr<store::ChunkWriter> join() {
    ++writers_;
    return store_->make_writer();
  }
  void note_rows(std::uint64_t rows) {
    auto most = rows_.load();
    while (most < rows && !rows_.compare_exchange_weak(most, rows)) continue;
  }
  /// Of a writer that is gone. Whether this was the last one, and the file is complete.
  Result<bool> leave() {
    if (--writers_ > 0) return false;
    waited_ns_ = load::longest_wait_ns({"pen-write", "pen-index"}).value_or(-1);
    store::FinalValues values;
    values.frames = rows_;
    PEN_TRY(store_->finish(values));
    PEN_TRY(all_stored());
    return true;
  }
  /// Of the store's own threads, which end with it; −1 before that, and where the kernel does not tell.
  std::int64_t waited_ns() const { return waited_ns_; }
  Result<void> all_stored() {
    std::lock_guard lock(mutex_);
    if (lost_.empty()) return {};
    return Error(Errc::io, lost_);
  }

  void placed(std::span<const store::PlacedChunk>, store::RowWriter&) override {}
  void lost(std::span<const store::PlacedChunk> chunks, const Error& why) override {
    std::lock_guard lock(mutex_);
    if (lost_.empty()) lost_ = fmt::format("{} transfers are lost: {}", chunks.size(), why.message());
  }
  void tick(store::RowWriter&) override {}

 private:
  std::atomic<unsigned> writers_{0};
  std::atomic<std::uint64_t> rows_{0};
  std::atomic<std::int64_t> waited_ns_{-1};
  std::mutex mutex_;
  std::string lost_;  // guarded by mutex_
  /// Goes first: its threads tell of chunks until it is gone.
  std::unique_ptr<store::Store> store_;
};

/// What a thread writes.
class WrittenFile final : public load::StoredFile {
 public:
  /// `complete` is called when the file is whole.
  WrittenFile(std::shared_ptr<OpenStore> open, std::uint64_t transfer_bytes, unsigned depth,
              std::function<Result<void>(const OpenStore&)> complete)
      : open_(std::move(open)),
        transfer_bytes_(transfer_bytes),
        depth_(depth),
        complete_(std::move(complete)),
        writer_(open_->join()) {}

  unsigned depth() const override { return depth_; }

  Result<void> write(Bytes bytes, std::uint64_t offset) override { return put(bytes, offset, nullptr); }
  Result<std::size_t> read(MutableBytes, std::uint64_t) override {
    return make_error(Errc::internal, "a store is read when it is closed");
  }

  Result<void> begin_write(unsigned slot, Bytes bytes, std::uint64_t offset) override {
    // The store lets go of it when the bytes are on storage, or copied.
    const auto ticket = std::make_shared<Ticket>(ended_, slot);
    auto taken = put(bytes, offset, ticket);
    ticket->counts = taken.ok();
    if (taken.ok()) ++under_way_;
    return taken;
  }

  Result<Ended> wait_for_one() override {
    auto slot = ended_->take();
    if (!slot) {
      // All that is under way may wait in a segment that nothing more would fill.
      if (writer_->waiting_bytes() >= under_way_ * transfer_bytes_) PEN_TRY(writer_->flush());
      slot = ended_->wait();
    }
    --under_way_;
    PEN_TRY(open_->all_stored());
    return Ended{*slot, transfer_bytes_};
  }

  /// Syncing is the file's, when it is whole.
  Result<void> sync() override { return {}; }
  Result<void> close() override {
    const auto flushed = writer_->flush();
    writer_.reset();
    PEN_ASSIGN(const bool whole, open_->leave());
    PEN_TRY(flushed);
    return whole ? complete_(*open_) : Result<void>();
  }

 private:
  struct Ticket {
    Ticket(std::shared_ptr<EndedSlots> to, unsigned of) : ended(std::move(to)), slot(of) {}
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    ~Ticket() {
      if (counts) ended->add(slot);
    }
    const std::shared_ptr<EndedSlots> ended;
    const unsigned slot;
    bool counts = false;  ///< set before the thread that began it lets go
  };

  Result<void> put(Bytes bytes, std::uint64_t offset, std::shared_ptr<const void> owner) {
    const auto row = offset / transfer_bytes_;
    open_->note_rows(row + 1);
    return writer_->put({.index = row}, bytes, std::move(owner), bytes.size());
  }

  const std::shared_ptr<OpenStore> open_;
  const std::uint64_t transfer_bytes_;
  const unsigned depth_;
  const std::function<Result<void>(const OpenStore&)> complete_;
  std::unique_ptr<store::ChunkWriter> writer_;
  const std::shared_ptr<EndedSlots> ended_ = std::make_shared<EndedSlots>();
  std::uint64_t under_way_ = 0;
};

/// The file before any thread joins it.
class MadeFile final : public load::StoredFile {
 public:
  Result<void> write(Bytes, std::uint64_t) override { return unused(); }
  Result<std::size_t> read(MutableBytes, std::uint64_t) override { return unused(); }
  Result<void> sync() override { return {}; }
  Result<void> close() override { return {}; }

 private:
  static Error unused() { return make_error(Errc::internal, "this file is joined by its writers"); }
};

/// What a thread reads, with HDF5.
class ReadFile final : public load::StoredFile {
 public:
  ReadFile(Handle file, Handle dataset, Handle space, std::uint64_t transfer_bytes)
      : file_(std::move(file)),
        dataset_(std::move(dataset)),
        space_(std::move(space)),
        transfer_bytes_(transfer_bytes) {}
  ~ReadFile() override {
    const LibraryLock lock;
    release();
  }

  Result<void> write(Bytes, std::uint64_t) override {
    return make_error(Errc::internal, "this file was opened for reading");
  }
  Result<std::size_t> read(MutableBytes into, std::uint64_t offset) override {
    const std::array<hsize_t, 2> start = {offset / transfer_bytes_, offset % transfer_bytes_}, count = {1, into.size()};
    const LibraryLock lock;
    PEN_TRY(done(H5Sselect_hyperslab(space_.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
                 "choose the bytes"));
    PEN_ASSIGN(const auto memory, owned(H5Screate_simple(2, count.data(), nullptr), H5Sclose, "describe the bytes"));
    PEN_TRY(done(H5Dread(dataset_.get(), H5T_NATIVE_UINT8, memory.get(), space_.get(), H5P_DEFAULT, into.data()),
                 "read a transfer"));
    return into.size();
  }
  Result<void> sync() override { return {}; }
  Result<void> close() override {
    const LibraryLock lock;
    return release() ? Result<void>() : store::hdf5::library_error("close a file");
  }

 private:
  bool release() {
    space_.close();
    const bool closed = dataset_.close();
    return file_.close() && closed;
  }

  Handle file_, dataset_, space_;
  const std::uint64_t transfer_bytes_;
};

class StoreBackend final : public load::Backend, public std::enable_shared_from_this<StoreBackend> {
 public:
  StoreBackend(const LoadPlan& plan, Env& env)
      : plan_(plan), store_(std::get<StorePlan>(plan.backend)), files_(store_.folder, env) {}

  void start(std::int64_t) override {}
  std::uint64_t alignment() const override { return 1; }

  Result<std::unique_ptr<load::StoredFile>> create(const std::string& name) override {
    PEN_ASSIGN(auto open, OpenStore::create(plan_, path_of(name), files_));
    if (!stream().shared) return written(name, std::move(open));
    std::lock_guard lock(mutex_);
    shared_[name] = std::move(open);
    return std::unique_ptr<load::StoredFile>(std::make_unique<MadeFile>());
  }

  Result<std::unique_ptr<load::StoredFile>> join(const std::string& name) override {
    std::lock_guard lock(mutex_);
    const auto found = shared_.find(name);
    if (found == shared_.end()) return make_error(Errc::not_found, "{} was not made", name);
    return written(name, found->second);
  }

  Result<std::unique_ptr<load::StoredFile>> open(const std::string& name) override {
    const auto path = path_of(name);
    PEN_ASSIGN(const auto way, files_.folder().way_to(name));
    const LibraryLock lock;
    auto opened = owned(H5Fopen(way.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, "open " + path);
    if (!opened.ok()) return files_.folder().told(opened.error());
    auto file = std::move(opened).value();
    PEN_ASSIGN(auto dataset,
               owned(H5Dopen2(file.get(), rows_name, H5P_DEFAULT), H5Dclose, "open the dataset in " + path));
    PEN_ASSIGN(auto space, owned(H5Dget_space(dataset.get()), H5Sclose, "describe the dataset"));
    return std::unique_ptr<load::StoredFile>(
        std::make_unique<ReadFile>(std::move(file), std::move(dataset), std::move(space), stream().transfer_bytes));
  }

  std::optional<std::uint64_t> cached_bytes(const std::string& name) override {
    return load::cached_bytes_after_forgetting(files_.folder(), name);
  }
  Sync sync() const override { return store_.sync; }
  std::optional<std::int64_t> waited_for_processor_ns() const override {
    std::lock_guard lock(mutex_);
    return waited_ns_ < 0 ? std::nullopt : std::optional(waited_ns_);
  }
  Json describe() const override {
    return {{"direct", direct_files_ > 0 && cached_files_ == 0}, {"queue_depth", store_.queue_depth}};
  }

 private:
  const StreamPlan& stream() const { return std::get<StreamPlan>(plan_.workload); }
  std::string path_of(const std::string& name) { return files_.folder().path_of(name); }

  Result<std::unique_ptr<load::StoredFile>> written(const std::string& name, std::shared_ptr<OpenStore> open) {
    return std::unique_ptr<load::StoredFile>(std::make_unique<WrittenFile>(
        std::move(open), stream().transfer_bytes, store_.queue_depth,
        [self = shared_from_this(), name](const OpenStore& whole) { return self->completed(name, whole); }));
  }

  Result<void> completed(const std::string& name, const OpenStore& whole) {
    {
      std::lock_guard lock(mutex_);
      waited_ns_ = std::max(waited_ns_, whole.waited_ns());
      shared_.erase(name);  // whoever completed it holds it still, and its buffers go with them
    }
    PEN_ASSIGN(const auto file, files_.open(path_of(name), {OpenOptions::Mode::read, store_.direct}));
    ++(file->direct() ? direct_files_ : cached_files_);
    if (store_.sync != Sync::none) PEN_TRY(file->sync());
    return file->close();
  }

  const LoadPlan plan_;
  const StorePlan store_;
  load::OwnFiles files_;
  mutable std::mutex mutex_;
  // guarded by mutex_
  std::map<std::string, std::shared_ptr<OpenStore>> shared_;
  std::int64_t waited_ns_ = -1;
  std::atomic<std::uint64_t> direct_files_{0};
  std::atomic<std::uint64_t> cached_files_{0};
};

}  // namespace

std::shared_ptr<load::Backend> make_store_backend(const LoadPlan& plan, Env& env) {
  return std::make_shared<StoreBackend>(plan, env);
}

}  // namespace penstock::load_hdf5
