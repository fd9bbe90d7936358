#include "store/members/member_files.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>

#include "base/threads.hpp"
#include "base/time/clock.hpp"
#include "store/members/member_names.hpp"

namespace penstock::store {
namespace {

/// So many members may lack chunks before any is given up: senders need not keep in step.
constexpr std::size_t open_wanted = 3;
/// A chunk may be on its way, in a thread that waits for its turn: a member is not given up before so long without one,
/// however far others are ahead …
constexpr std::int64_t patience_ns = 2'000'000'000;
/// … unless there are so many.
constexpr std::size_t open_max = 32;
/// With those that are being closed.
constexpr std::size_t alive_max = open_max + 2;

std::string folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

void add(StoreStats& sum, const StoreStats& part) {
  sum.segments += part.segments;
  sum.written_bytes += part.written_bytes;
  sum.write_ns += part.write_ns;
  sum.writing_ns += part.writing_ns;
  sum.write_ns_max = std::max(sum.write_ns_max, part.write_ns_max);
  sum.sync_ns += part.sync_ns;
  sum.index_ns += part.index_ns;
  sum.flush_ns += part.flush_ns;
  sum.queue_segments += part.queue_segments;
  sum.index_segments += part.index_segments;
}

}  // namespace

/// Frame numbers outside, rows inside.
class MemberFiles::Member final : public Listener {
 public:
  Member(MemberFiles& files, std::uint64_t number_of_file, std::uint64_t rows)
      : number(number_of_file),
        files_(files),
        first_(files.layout_.members->first_frame(number_of_file)),
        chunks_(files.layout_.members->frames > 0 ? rows * files.layout_.chunked.size() : 0) {}

  void placed(std::span<const PlacedChunk> chunks, RowWriter&) override {
    placed_ += chunks.size();
    deliver(chunks, {});
    if (chunks_ == 0 || placed_ < chunks_) return;
    std::lock_guard lock(files_.mutex_);
    retired = true;
    files_.changed_.notify_all();
  }
  void lost(std::span<const PlacedChunk> chunks, const Error& why) override { deliver(chunks, why); }
  /// Whoever keeps count of the frames has heard of the first one, and refuses these too.
  void already_there(std::span<const PlacedChunk> chunks) override { deliver(chunks, {}); }
  void tick(RowWriter&) override {}

  const std::uint64_t number;
  // guarded by MemberFiles::mutex_
  unsigned holders = 0;  ///< writers, and those who look whether its file is there
  bool retired = false;  ///< to be closed when nobody holds it
  /// Monotonic, when it was last acquired, written to or let go; not guarded.
  std::atomic<std::int64_t> used_ns{0};

 private:
  void deliver(std::span<const PlacedChunk> chunks, std::optional<Error> failure) {
    WrittenSegment segment{{chunks.begin(), chunks.end()}, std::move(failure)};
    for (auto& chunk : segment.chunks) {
      chunk.head.index += first_;
      chunk.rank = files_.rank_;
    }
    files_.deliver_(std::move(segment));
  }

  MemberFiles& files_;
  const std::uint64_t first_;
  const std::uint64_t chunks_;  ///< of a complete one; 0 where nobody can tell
  std::uint64_t placed_ = 0;    ///< of the member's indexer

 public:
  std::unique_ptr<Store> store;  ///< last, for it calls until it is gone
};

/// Holds one member at a time, so that a writer never has more than one segment half full: those of the others could
/// not be sent while it waits for memory.
class MemberFiles::Writer final : public ChunkWriter {
 public:
  explicit Writer(MemberFiles& files) : files_(files), members_(*files.layout_.members) {}
  ~Writer() override { (void)let_go(); }

  Result<void> select_file(std::uint64_t index) override {
    if (member_ != nullptr && members_.member_of(index, files_.rank_) == member_->number) {
      member_->used_ns = monotonic_ns();
      return {};
    }
    PEN_TRY(let_go());
    PEN_ASSIGN(member_, files_.acquire(index));
    writer_ = member_->store->make_writer();
    return {};
  }

  Result<MutableBytes> reserve(std::size_t bound) override {
    if (!writer_) return make_error(Errc::invalid_argument, "reserve without the index of the chunk");
    return writer_->reserve(bound);
  }

  Result<void> commit(const ChunkHead& head, std::size_t size) override {
    if (!writer_ || members_.member_of(head.index, files_.rank_) != member_->number)
      return make_error(Errc::invalid_argument, "commit of chunk {}, which is not in the member", head.index);
    return writer_->commit(inside(head), size);
  }

  Result<void> put(const ChunkHead& head, Bytes data, std::shared_ptr<const void> owner,
                   std::size_t capacity) override {
    PEN_TRY(select_file(head.index));
    return writer_->put(inside(head), data, std::move(owner), capacity);
  }

  Result<void> flush() override {
    if (!writer_) return {};
    return is_retired() ? let_go() : writer_->flush();
  }

  /// Of a member that is to be closed somebody has to ask for the flush, though nothing waits in it.
  std::int64_t oldest_ns() const override {
    if (!writer_) return 0;
    const auto oldest = writer_->oldest_ns();
    return oldest == 0 && is_retired() ? 1 : oldest;
  }
  std::uint64_t waiting_bytes() const override { return writer_ ? writer_->waiting_bytes() : 0; }

 private:
  Result<void> let_go() {
    if (!writer_) return {};
    auto flushed = writer_->flush();
    writer_.reset();
    files_.release(std::exchange(member_, nullptr));
    return flushed;
  }

  bool is_retired() const {
    std::lock_guard lock(files_.mutex_);
    return member_->retired;
  }

  ChunkHead inside(ChunkHead head) const {
    head.index = members_.row_of(head.index);
    return head;
  }

  MemberFiles& files_;
  const Members& members_;
  Member* member_ = nullptr;  ///< held
  std::unique_ptr<ChunkWriter> writer_;
};

MemberFiles::MemberFiles(Env& env, const std::string& master, const FileLayout& layout, const StoreOptions& options,
                         unsigned rank, Deliver deliver)
    : env_(env),
      folder_(folder_of(master)),
      master_(std::filesystem::path(master).filename().string()),
      layout_(layout),
      options_(options),
      rank_(rank),
      deliver_(std::move(deliver)),
      closer_([this] {
        begin_thread("pen-members", Role::index);
        close_retired();
      }) {
  options_.overwrite = false;
  if (!options_.buffers) options_.buffers.emplace(options.buffer_bytes, options.huge_pages);
}

MemberFiles::~MemberFiles() { stop(false); }

std::unique_ptr<ChunkWriter> MemberFiles::make_writer() { return std::make_unique<Writer>(*this); }

Result<MemberFiles::Member*> MemberFiles::acquire(std::uint64_t frame) {
  const auto& members = *layout_.members;
  const auto block = members.frames > 0 ? frame / members.frames : 0;
  std::unique_lock lock(mutex_);
  while (!open_.contains(block) && !closed_.contains(block)) {
    const bool mine_to_make = !being_made_.contains(block);
    if (mine_to_make) retire_stale();
    if (mine_to_make && open_.size() + being_made_.size() < alive_max)
      PEN_TRY(make(block, lock));
    else
      changed_.wait(lock);
  }
  const auto found = open_.find(block);
  // One that is retired takes no more: it may be on its way to be closed.
  if (found == open_.end() || found->second->retired)
    return make_error(Errc::out_of_order, "image {} arrived after its file {} was closed", frame,
                      members.file_name(members.member_of(frame, rank_)));
  auto& member = *found->second;
  ++member.holders;
  member.used_ns = monotonic_ns();
  return &member;
}

/// With mutex_ held, but not while the storage is at work: it may hang, and whoever asks for numbers meanwhile is to
/// get them. Those who want the same member wait for it; if it cannot be made, each of them tries again.
Result<void> MemberFiles::make(std::uint64_t block, std::unique_lock<std::mutex>& lock) {
  const auto number = block * layout_.members->ranks + rank_;
  const bool replace = unmade_.contains(number);
  being_made_.insert(block);
  lock.unlock();
  auto made = create(number, replace);
  lock.lock();
  being_made_.erase(block);
  changed_.notify_all();
  if (made.ok()) {
    open_.emplace(block, std::move(*made));
    return {};
  }
  if (made.error().code() != Errc::already_exists) unmade_.insert(number);
  return std::move(made).error();
}

/// With mutex_ held, before another member is made.
void MemberFiles::retire_stale() {
  std::vector<Member*> taking;
  for (const auto& [block, member] : open_)
    if (!member->retired) taking.push_back(member.get());
  std::sort(taking.begin(), taking.end(), [](const auto* a, const auto* b) { return a->used_ns < b->used_ns; });
  const auto stale_ns = monotonic_ns() - patience_ns;
  bool any = false;
  for (std::size_t i = 0; i < taking.size(); ++i) {
    const auto left = taking.size() - i + being_made_.size();
    if (left < open_max && (left < open_wanted || taking[i]->used_ns >= stale_ns)) continue;
    taking[i]->retired = true;
    any = true;
  }
  if (any) changed_.notify_all();
}

void MemberFiles::release(Member* member) {
  std::unique_ptr<Member> unneeded;  // goes without mutex_
  std::lock_guard lock(mutex_);
  member->used_ns = monotonic_ns();
  unneeded = let_go(member);
}

/// With mutex_ held. Returns the member if it is closed and this was its last holder. It is destroyed without mutex_,
/// because to let go of its files may wait for the storage.
std::unique_ptr<MemberFiles::Member> MemberFiles::let_go(Member* member) {
  --member->holders;
  changed_.notify_all();
  if (member->holders > 0) return nullptr;
  const auto found =
      std::find_if(held_.begin(), held_.end(), [member](const auto& each) { return each.get() == member; });
  if (found == held_.end()) return nullptr;
  auto unneeded = std::move(*found);
  held_.erase(found);
  return unneeded;
}

/// Without mutex_: it needs what is constant alone.
Result<std::unique_ptr<MemberFiles::Member>> MemberFiles::create(std::uint64_t number, bool replace) {
  auto member = std::make_unique<Member>(*this, number, rows_of(number, 0));
  auto options = options_;
  options.overwrite = replace;
  PEN_ASSIGN(member->store, Store::create(env_, folder_ + "/" + layout_.members->file_name(number), layout_of(number),
                                          options, member.get()));
  return member;
}

FileLayout MemberFiles::layout_of(std::uint64_t number) const {
  const auto& members = *layout_.members;
  FileLayout layout;
  layout.groups = members.groups;
  layout.member = MemberMark{master_, number};
  layout.groups.push_back(member_attributes(*layout.member, members));
  layout.values = members.values;
  layout.chunked = layout_.chunked;
  for (auto& node : layout.chunked)
    if (members.frames > 0) node.frames_max = rows_of(number, 0);
  return layout;
}

/// Rows of a member of a series of so many frames; 0 where that is not known yet.
std::uint64_t MemberFiles::rows_of(std::uint64_t number, std::uint64_t frames) const {
  const auto& members = *layout_.members;
  if (members.frames == 0) return frames;
  const auto all = frames > 0 ? frames : layout_.chunked.front().frames_max;
  const auto first = members.first_frame(number);
  return all > first ? std::min(members.frames, all - first) : members.frames;
}

/// The closer's thread.
void MemberFiles::close_retired() {
  std::unique_lock lock(mutex_);
  const auto ready = [&] {
    return std::find_if(open_.begin(), open_.end(), [&](const auto& each) {
      // At the end writers are flushed, though they may still be there.
      return each.second->retired && (closing_all_ || each.second->holders == 0);
    });
  };
  while (true) {
    changed_.wait(lock, [&] { return (stopping_ && (!closing_all_ || open_.empty())) || ready() != open_.end(); });
    if (stopping_ && !closing_all_) return;
    const auto next = ready();
    if (next == open_.end()) return;
    // It stays in its place while it is closed, so that nobody makes it anew.
    auto& member = *next->second;
    const auto frames = frames_;
    lock.unlock();
    close(member, frames);
    lock.lock();
    add(closed_stats_, member.store->stats());
    closed_.insert(next->first);
    auto done = std::move(next->second);
    open_.erase(next);
    if (done->holders > 0) held_.push_back(std::move(done));
    changed_.notify_all();
    // To let go of its files may wait for the storage as well.
    lock.unlock();
    done.reset();
    lock.lock();
  }
}

void MemberFiles::close(Member& member, std::uint64_t frames) {
  FinalValues values;
  values.frames = rows_of(member.number, frames);
  const auto finished = member.store->finish(values);
  const auto name = layout_.members->file_name(member.number);
  if (!finished.ok()) spdlog::error("{}/{}: {}", folder_, name, finished.error().message());
  std::lock_guard lock(mutex_);
  if (!finished.ok() && !failure_) failure_ = finished.error().with_context(name);
}

Result<void> MemberFiles::finish(std::uint64_t frames) {
  {
    std::lock_guard lock(mutex_);
    frames_ = frames;
    for (const auto& [block, member] : open_) member->retired = true;
  }
  stop(true);
  if (failure_) return *failure_;
  return {};
}

void MemberFiles::stop(bool closing) {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    closing_all_ = closing;
  }
  changed_.notify_all();
  if (closer_.joinable()) closer_.join();
}

/// Without mutex_ while the storage is asked: it may hang. Of those that are closed one is looked at each time.
void MemberFiles::hurry() {
  std::lock_guard lock(mutex_);
  for (const auto& [block, member] : open_) member->store->hurry();
}

std::string MemberFiles::lost_file() {
  std::vector<Member*> held;
  std::string closed;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [block, member] : open_) {
      ++member->holders;
      held.push_back(member.get());
    }
    if (auto next = closed_.lower_bound(looked_at_); !closed_.empty()) {
      if (next == closed_.end()) next = closed_.begin();
      looked_at_ = *next + 1;
      closed = folder_ + "/" + layout_.members->file_name(*next * layout_.members->ranks + rank_);
    }
  }
  std::string lost;
  for (const auto* member : held)
    if (lost.empty()) lost = member->store->lost_file();
  if (lost.empty() && !closed.empty()) {
    const auto opened = env_.open(closed, {});
    if (!opened.ok() && opened.error().code() == Errc::not_found) lost = closed;
  }
  std::vector<std::unique_ptr<Member>> unneeded;  // go without mutex_
  unneeded.reserve(held.size());
  std::lock_guard lock(mutex_);
  for (auto* member : held) unneeded.push_back(let_go(member));
  return lost;
}

Result<std::vector<LateSource>> MemberFiles::late_sources() const {
  PEN_ASSIGN(const auto paths, member_paths(env_, folder_ + "/" + master_, *layout_.members));
  std::vector<LateSource> sources;
  for (const auto& path : paths) {
    PEN_ASSIGN(const auto file, env_.open(path, {}));
    PEN_ASSIGN(auto segments, find_values(*file, {}));
    sources.push_back({path, [this, path] { return env_.open(path, {}); }, std::move(segments)});
  }
  return sources;
}

std::string lost_file(const std::string& path, const File& file, MemberFiles* members) {
  if (!file.still_named()) return path;
  return members != nullptr ? members->lost_file() : std::string();
}

StoreStats MemberFiles::stats() const {
  std::lock_guard lock(mutex_);
  auto sum = closed_stats_;
  for (const auto& [block, member] : open_) add(sum, member->store->stats());
  return sum;
}

StoreStats stats_of(const Counters& counters, const Pipeline* pipeline, const MemberFiles* members) {
  auto stats = stats_of(counters);
  if (pipeline != nullptr) stats.queue_segments = pipeline->waiting();
  if (members != nullptr) add(stats, members->stats());
  return stats;
}

}  // namespace penstock::store
