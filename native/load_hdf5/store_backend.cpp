#include "load_hdf5/store_backend.hpp"

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "base/time/clock.hpp"
#include "job/job.hpp"
#include "load/backends/own_folder.hpp"
#include "load/backends/page_cache.hpp"
#include "load/machine.hpp"
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

/// Clients of a network file system may show later what another client has written.
constexpr std::int64_t visible_patience_ns = 5'000'000'000;
constexpr auto visible_poll = std::chrono::milliseconds(50);

bool may_become_visible(Errc code) {
  return code == Errc::not_found || code == Errc::mismatch || code == Errc::truncated;
}

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

/// The ranks that fill one file: what their stores tell each other, and that they have left it.
class Others final : public std::enable_shared_from_this<Others> {
 public:
  explicit Others(load::Team& team) : team_(team) {}

  void listen() {
    team_.listen([self = shared_from_this()](unsigned from, Bytes bytes) { self->hear(from, bytes); });
  }
  store::Share share() {
    return {team_.rank(), team_.ranks(), std::make_shared<SharedEnd>(team_),
            [this](unsigned to, const std::vector<std::byte>& message) { team_.tell(to, message); }};
  }
  /// From now on what comes is the store's, until it is about to be finished, or has left.
  void enter(store::Store& store) {
    std::lock_guard lock(mutex_);
    store_ = &store;
  }
  /// Before the store is finished. What comes to the lead from now on has no index to go to, and is refused: whoever
  /// sent it waits for an answer. The stores of the others hear the lead's answers until they are finished.
  void about_to_finish() {
    if (leads()) forget_store();
  }
  void leave() {
    forget_store();
    if (!leads()) team_.tell(job::lead, {});
  }
  /// The lead's, whose store is finished last.
  void wait_until_alone() {
    std::unique_lock lock(mutex_);
    one_left_.wait(lock, [this] { return !leads() || left_ + 1 == team_.ranks(); });
  }
  std::uint64_t heard() const { return heard_; }

 private:
  class SharedEnd final : public store::EndOfFile {
   public:
    explicit SharedEnd(load::Team& team) : team_(team) {}
    Result<std::uint64_t> advance(std::uint64_t bytes) override { return team_.fetch_add(bytes); }

   private:
    load::Team& team_;
  };

  bool leads() const { return team_.rank() == job::lead; }

  void forget_store() {
    std::lock_guard lock(mutex_);
    store_ = nullptr;
  }

  /// No bytes: that rank has left.
  void hear(unsigned from, Bytes bytes) {
    ++heard_;
    std::lock_guard lock(mutex_);
    if (bytes.empty()) {
      ++left_;
      one_left_.notify_all();
    } else if (store_ == nullptr) {
      refuse(from, bytes, "rank 0 has closed the file");
    } else if (const auto taken = store_->receive(from, bytes); !taken.ok()) {
      refuse(from, bytes, taken.error().message());
    }
  }
  /// Whoever waits for an answer gets one.
  void refuse(unsigned from, Bytes bytes, const std::string& why) {
    if (const auto refusal = store::refusal_of(bytes, why)) team_.tell(from, *refusal);
  }

  load::Team& team_;
  std::atomic<std::uint64_t> heard_{0};
  std::mutex mutex_;
  std::condition_variable one_left_;
  // guarded by mutex_
  store::Store* store_ = nullptr;
  unsigned left_ = 0;
};

store::FileLayout layout_of(const StreamPlan& stream) {
  store::FileLayout layout;
  layout.chunked.push_back({rows_name, ElementType::u8, {stream.transfer_bytes}, 0, {}, {}, {}});
  return layout;
}

store::StoreOptions options_of(const StorePlan& chosen, const StreamPlan& stream) {
  store::StoreOptions options;
  options.direct = chosen.direct;
  options.swmr = false;  // nobody reads meanwhile
  options.buffer_bytes = load::store_buffer_bytes;
  // No more is leased than a small file may need.
  const auto own_bytes = stream.thread_bytes * (stream.shared ? stream.threads : 1);
  options.extent_bytes =
      std::clamp<std::uint64_t>(align_up(own_bytes, 1 << 20), 2 * options.segment_bytes, options.extent_bytes);
  return options;
}

/// A store and those that fill it. The last one that closes it finishes it, and that of the lead when other ranks have
/// left the file.
class OpenStore final : public store::Listener {
 public:
  /// `others` is null where no other rank writes into the file.
  static Result<std::shared_ptr<OpenStore>> create(const LoadPlan& plan, const std::string& path, Env& env,
                                                   std::shared_ptr<Others> others) {
    const auto& stream = std::get<StreamPlan>(plan.workload);
    const auto options = options_of(std::get<StorePlan>(plan.backend), stream);
    auto open = std::make_shared<OpenStore>();
    PEN_ASSIGN(open->store_, store::Store::create(env, path, layout_of(stream), options, open.get(),
                                                  others ? others->share() : store::Share{}));
    open->enter(std::move(others));
    return open;
  }
  /// In the rank of a job that did not create it.
  static Result<std::shared_ptr<OpenStore>> join(const LoadPlan& plan, const std::string& path, Env& env,
                                                 std::shared_ptr<Others> others, const store::SharedFile& file) {
    const auto& stream = std::get<StreamPlan>(plan.workload);
    const auto options = options_of(std::get<StorePlan>(plan.backend), stream);
    auto open = std::make_shared<OpenStore>();
    auto store = store::Store::join(env, path, layout_of(stream), options, open.get(), others->share(), file);
    const auto give_up_ns = monotonic_ns() + visible_patience_ns;
    while (!store.ok() && may_become_visible(store.error().code()) && monotonic_ns() < give_up_ns) {
      std::this_thread::sleep_for(visible_poll);
      store = store::Store::join(env, path, layout_of(stream), options, open.get(), others->share(), file);
    }
    PEN_ASSIGN(open->store_, std::move(store));
    open->enter(std::move(others));
    return open;
  }

  OpenStore() = default;
  OpenStore(const OpenStore&) = delete;
  OpenStore& operator=(const OpenStore&) = delete;
  /// Where nobody came to write: what is under way between the ranks ends before the store goes.
  ~OpenStore() override {
    if (!others_ || finished_) return;
    others_->about_to_finish();
    (void)store_->finish({});
    others_->leave();
  }

  store::SharedFile shared_file() const { return store_->shared_file(); }
  std::shared_ptr<File> file() const { return store_->file(); }

  std::unique_ptr<store::ChunkWriter> join() {
    ++writers_;
    return store_->make_writer();
  }
  void note_rows(std::uint64_t rows) {
    auto most = rows_.load();
    while (most < rows && !rows_.compare_exchange_weak(most, rows)) continue;
  }
  /// Of a writer that is gone, and may have failed. Whether this was the last one, and the file is complete.
  Result<bool> leave(bool failed) {
    if (failed) failed_ = true;
    if (--writers_ > 0) return false;
    // What could not be written is missing anyway; those that go on for nothing are told so.
    if (others_ && !failed_) others_->wait_until_alone();
    waited_ns_ = load::longest_wait_ns({"pen-write", "pen-index"}).value_or(-1);
    store::FinalValues values;
    values.frames = rows_;
    finished_ = true;
    if (others_) others_->about_to_finish();
    const auto finished = store_->finish(values);
    if (others_) others_->leave();
    PEN_TRY(finished);
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
  void enter(std::shared_ptr<Others> others) {
    others_ = std::move(others);
    if (others_) others_->enter(*store_);
  }

  std::shared_ptr<Others> others_;
  std::atomic<bool> failed_{false};    ///< a writer
  std::atomic<bool> finished_{false};  ///< the store, or it is about to be
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
    return make_error(Errc::internal, "cannot read a store that is still open");
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
    const auto stored = open_->all_stored();
    failed_ = failed_ || !stored.ok();
    PEN_TRY(stored);
    return Ended{*slot, transfer_bytes_};
  }

  /// Syncing is the file's, when it is whole.
  Result<void> sync() override { return {}; }
  Result<void> close() override {
    const auto flushed = writer_->flush();
    writer_.reset();
    PEN_ASSIGN(const bool whole, open_->leave(failed_ || !flushed.ok()));
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
    auto taken = writer_->put({.index = row}, bytes, std::move(owner), bytes.size());
    failed_ = failed_ || !taken.ok();
    return taken;
  }

  const std::shared_ptr<OpenStore> open_;
  const std::uint64_t transfer_bytes_;
  const unsigned depth_;
  const std::function<Result<void>(const OpenStore&)> complete_;
  std::unique_ptr<store::ChunkWriter> writer_;
  const std::shared_ptr<EndedSlots> ended_ = std::make_shared<EndedSlots>();
  std::uint64_t under_way_ = 0;
  bool failed_ = false;
};

/// The file before any thread joins it.
class MadeFile final : public load::StoredFile {
 public:
  Result<void> write(Bytes, std::uint64_t) override { return unused(); }
  Result<std::size_t> read(MutableBytes, std::uint64_t) override { return unused(); }
  Result<void> sync() override { return {}; }
  Result<void> close() override { return {}; }

 private:
  static Error unused() { return make_error(Errc::internal, "this file is shared by its writers"); }
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
  StoreBackend(const LoadPlan& plan, load::Team& team, Env& env)
      : plan_(plan),
        store_(std::get<StorePlan>(plan.backend)),
        leads_(team.rank() == job::lead),
        others_(stream().shared && team.ranks() > 1 ? std::make_shared<Others>(team) : nullptr),
        files_(store_.folder, env) {
    if (others_) others_->listen();
  }

  void start(std::int64_t) override {}
  std::uint64_t alignment() const override { return 1; }

  Result<std::unique_ptr<load::StoredFile>> create(const std::string& name, bool& made) override {
    auto created = OpenStore::create(plan_, path_of(name), files_, others_);
    made = created.ok() || files_.has_made(name);
    PEN_ASSIGN(auto open, std::move(created));
    files_.note_made(*open->file(), name);
    if (!stream().shared) return written(name, std::move(open));
    std::lock_guard lock(mutex_);
    shared_[name] = std::move(open);
    return std::unique_ptr<load::StoredFile>(std::make_unique<MadeFile>());
  }

  Result<std::unique_ptr<load::StoredFile>> join(const std::string& name) override {
    PEN_ASSIGN(auto open, leads_ ? made(name) : joined(name));
    return written(name, std::move(open));
  }

  Json mark_of(const std::string& name) override {
    const auto open = made(name);
    if (!others_ || !open.ok()) return nullptr;
    auto mark = files_.mark_of(name);
    const auto file = (*open)->shared_file();
    mark["file_id"] = store::format::to_hex(file.id);
    mark["description_address"] = file.description_address;
    return mark;
  }
  void expect(const std::string& name, const Json& mark) override {
    if (leads_ || !mark.is_object()) return;
    if (mark.contains("inode")) files_.expect(name, mark);
    store::SharedFile file;
    if (const auto id = store::format::file_id_of(mark.value("file_id", "")); id.ok()) file.id = *id;
    file.description_address = mark.value("description_address", std::uint64_t{0});
    std::lock_guard lock(joining_);
    to_join_ = file;
  }
  std::uint64_t signs_of_others() const override { return others_ ? others_->heard() : 0; }

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

  Result<std::shared_ptr<OpenStore>> made(const std::string& name) {
    std::lock_guard lock(mutex_);
    const auto found = shared_.find(name);
    if (found == shared_.end()) return make_error(Errc::not_found, "{} was not created", name);
    return found->second;
  }

  /// The file that the lead made, of all threads of this rank: the first one opens it.
  Result<std::shared_ptr<OpenStore>> joined(const std::string& name) {
    std::lock_guard lock(joining_);
    if (no_join_) return *no_join_;
    if (auto before = made(name); before.ok()) return before;
    auto open = OpenStore::join(plan_, path_of(name), files_, others_, to_join_);
    if (!open.ok()) {
      no_join_ = open.error();
      others_->leave();  // the lead does not wait for this rank
      return open;
    }
    std::lock_guard among_the_open(mutex_);
    shared_[name] = *open;
    return open;
  }

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
  const bool leads_;
  const std::shared_ptr<Others> others_;  ///< null where no other rank writes into the file
  load::OwnFiles files_;

  std::mutex joining_;
  // guarded by joining_, which is held while the storage is asked
  store::SharedFile to_join_;
  std::optional<Error> no_join_;

  mutable std::mutex mutex_;
  // guarded by mutex_
  std::map<std::string, std::shared_ptr<OpenStore>> shared_;
  std::int64_t waited_ns_ = -1;
  std::atomic<std::uint64_t> direct_files_{0};
  std::atomic<std::uint64_t> cached_files_{0};
};

}  // namespace

std::shared_ptr<load::Backend> make_store_backend(const LoadPlan& plan, load::Team& team, Env& env) {
  return std::make_shared<StoreBackend>(plan, team, env);
}

}  // namespace penstock::load_hdf5
