/// Bandwidth: each thread writes a file of its own, or its blocks of a shared one; then each reads what the next one
/// wrote, of a job a thread of the next rank, or of the next one that uses another folder.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <latch>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <vector>

#include "base/time/clock.hpp"
#include "base/time/pacing.hpp"
#include "load/crew.hpp"
#include "load/document.hpp"
#include "load/gaps.hpp"
#include "load/machine.hpp"
#include "load/made/recorded_files.hpp"
#include "load/time_series.hpp"
#include "load/workloads/content.hpp"
#include "load/workloads/permutation.hpp"
#include "load/workloads/workload.hpp"

namespace penstock::load {
namespace {

// What the random orders are for: equal names would be equal orders.
constexpr std::uint64_t of_the_writes = 3;
constexpr std::uint64_t of_the_reads = 4;

enum class Phase { write, read };

/// Whether the library of the back end makes one file of the ranks' files.
bool one_for_all_ranks(const LoadPlan& plan) {
  const auto* mpiio = std::get_if<MpiioPlan>(&plan.backend);
  const auto* hdf5 = std::get_if<Hdf5Plan>(&plan.backend);
  return (mpiio != nullptr && mpiio->shared) || (hdf5 != nullptr && hdf5->shared);
}

/// One thread in one phase. It is looked at while the thread works, or hangs.
struct Worker {
  Worker(std::uint64_t of_thread, std::uint64_t its_transfers, const TimeSeries& empty)
      : owner(of_thread), transfers(its_transfers), series(empty) {}

  const std::uint64_t owner;  ///< the thread, of all ranks, whose blocks it writes or reads
  const std::uint64_t transfers;
  // Made before it starts.
  std::optional<Memory> ground;  ///< of what it writes
  std::vector<Memory> blocks;    ///< one for each transfer that may be under way
  std::vector<bool> taken;       ///< blocks of the ground that are under way

  std::mutex mutex;
  // guarded by mutex
  std::uint64_t bytes = 0;
  std::uint64_t operations = 0;
  std::uint64_t mismatches = 0;  ///< blocks that were not what was written
  std::int64_t verify_ns = 0;    ///< spent on finding that out
  std::int64_t fill_ns = 0;      ///< spent on making what is written
  std::int64_t done_ns = -1;     ///< since the phase began; synced and closed too
  std::int64_t waited_for_processor_ns = -1;
  Times service;
  TimeSeries series;
  Problem problem;
};

/// A transfer that is under way.
struct UnderWay {
  std::int64_t begin_ns = 0;
  std::int64_t fill_ns = 0;
  std::uint64_t offset = 0;
  MutableBytes block;
  std::optional<std::uint64_t> taken;  ///< which block of the ground it is
};

/// All threads of one phase. Those that hang keep it alive.
class PhaseRun : public std::enable_shared_from_this<PhaseRun> {
 public:
  PhaseRun(const LoadPlan& plan, std::shared_ptr<Backend> backend, Phase phase, const RunContext& context)
      : plan_(plan),
        stream_(std::get<StreamPlan>(plan.workload)),
        backend_(std::move(backend), context.made),
        phase_(phase),
        content_(plan, stream_.transfer_bytes, blocks_of_file(stream_, context.team.ranks())),
        no_series_(static_cast<std::int64_t>(plan.interval_s * 1e9), intervals_max),
        ranks_(context.team.ranks()),
        rank_(context.team.rank()),
        threads_(std::uint64_t{context.team.ranks()} * stream_.threads),
        begun_(1),
        stop_now_(context.stop.load()) {}

  /// `transfers` of each thread, of all ranks: what is there to be written or read.
  Result<void> prepare(const std::vector<std::uint64_t>& transfers, const std::atomic<bool>& stop) {
    PEN_TRY(check_memory(memory_bytes(plan_, ranks_)));
    PEN_TRY(content_.open());
    if (phase_ == Phase::read && stream_.verify) {
      PEN_ASSIGN(ground_, laid_ground());
    }
    for (unsigned i = 0; i < stream_.threads; ++i) {
      const auto owner =
          (std::uint64_t{rank_} * stream_.threads + i + (phase_ == Phase::write ? 0 : shift())) % threads_;
      workers_.push_back(std::make_unique<Worker>(owner, transfers[owner], no_series_));
      PEN_TRY(give_memory(*workers_.back()));
    }
    if (phase_ == Phase::read)
      return ask_storage("see what is in memory", plan_.drain_timeout_s, stop, [self = shared_from_this()] {
        self->cached_bytes_ = self->cached_now();
        return Result<void>();
      });
    if (!stream_.shared || rank_ != 0) return {};
    return ask_storage("make " + file_name(plan_, 0), plan_.drain_timeout_s, stop,
                       [self = shared_from_this()]() -> Result<void> {
                         PEN_ASSIGN(self->made_, self->create(0));
                         return {};
                       });
  }

  /// How the other ranks know the shared file; null where this one did not make it.
  Json mark() { return made_ ? backend_->mark_of(file_name(plan_, 0)) : Json(); }
  void expect(const Json& mark) { backend_->expect(file_name(plan_, 0), mark); }

  /// Returns how many threads were left behind.
  unsigned run(const RunContext& context) {
    auto started = watch_.start();
    for (auto& worker : workers_) {
      if (!started.ok()) break;
      started = crew_.start("pen-load-stream", phase_ == Phase::write ? Role::write : Role::other,
                            [self = shared_from_this(), &worker] { self->work(*worker); });
      if (started.ok()) ++at_work_;
    }
    const auto patience_ns = static_cast<std::int64_t>(plan_.drain_timeout_s * 1e9);
    const auto opening_ns = monotonic_ns();
    // Also where some threads do not exist: nobody leaves a file that another one is about to join.
    const bool ready = all_are_ready(context, opening_ns + patience_ns);
    begin(!started.ok()  ? Result<Meeting>(started.error())
          : ready        ? context.team.meet(nullptr)
          : context.stop ? make_error(Errc::cancelled, "stopped before the files were open")
                         : make_error(Errc::timed_out, "the files were not open after {} s", plan_.drain_timeout_s));
    auto moved_ns = ready ? monotonic_ns() : opening_ns;
    std::uint64_t moved = 0;
    std::int64_t stopped_ns = 0;
    while (!crew_.wait_until(monotonic_ns() + tick_ns)) {
      const auto moves = tell_progress(context) + backend_->signs_of_others();
      const auto now_ns = monotonic_ns();
      if (moves != moved) moved_ns = now_ns;
      moved = moves;
      stop_now_ = stop_now_ || context.stop;
      if (context.stop && stopped_ns == 0) stopped_ns = now_ns;
      if (stopped_ns > 0 && now_ns - stopped_ns > patience_after_stop_ns) break;
      if (now_ns - moved_ns > patience_ns) break;
    }
    stop_now_ = true;
    gaps_ = watch_.end();
    return crew_.dismiss();
  }

  /// Of the threads of this rank.
  std::vector<std::uint64_t> transfers_done() {
    std::vector<std::uint64_t> transfers;
    for (auto& worker : workers_) {
      std::lock_guard lock(worker->mutex);
      transfers.push_back(worker->operations);
    }
    return transfers;
  }

  const LoadPlan& plan() const { return plan_; }

  /// `behind` threads were left behind.
  Problem problem(unsigned behind) {
    if (!no_start_.empty()) return no_start_;  // what else went wrong follows from it
    for (auto& worker : workers_) {
      std::lock_guard lock(worker->mutex);
      if (!worker->problem.empty()) return worker->problem;
    }
    if (behind == 0) return {};
    return make_error(Errc::timed_out, "{} stalled in the storage",
                      behind == 1 ? "1 thread is" : fmt::format("{} threads are", behind));
  }

  Json to_json() {
    Times service;
    auto series = no_series_;
    auto threads = Json::array();
    std::uint64_t bytes = 0, operations = 0, mismatches = 0;
    std::int64_t verify_ns = 0, fill_ns = 0;
    for (auto& worker : workers_) {
      std::lock_guard lock(worker->mutex);
      bytes += worker->bytes;
      operations += worker->operations;
      mismatches += worker->mismatches;
      verify_ns += worker->verify_ns;
      fill_ns += worker->fill_ns;
      service.add(worker->service);
      series.add(worker->series);
      threads.push_back({{"bytes", worker->bytes},
                         {"done_s", worker->done_ns < 0 ? Json() : Json(seconds_of(worker->done_ns))},
                         {"waited_ns", worker->waited_for_processor_ns}});
    }
    const auto waited = phase_ == Phase::write ? backend_->waited_for_processor_ns() : std::nullopt;
    return {{"phase", name()},
            {"bytes", bytes},
            {"operations", operations},
            {"mismatches", ground_ ? Json(mismatches) : Json()},
            {"verify_ns", ground_ ? Json(verify_ns) : Json()},
            {"fill_ns", phase_ == Phase::write ? Json(fill_ns) : Json()},
            {"cached_bytes", cached_bytes_ ? Json(*cached_bytes_) : Json()},
            {"times", {{"service", load::to_json(service)}}},
            {"threads", std::move(threads)},
            {"storage_waited_ns", waited ? Json(*waited) : Json()},
            {"gaps", load::to_json(gaps_)},
            {"series", series.to_json()}};
  }

 private:
  Result<std::optional<Memory>> laid_ground() const {
    PEN_ASSIGN(auto memory, Memory::allocate(content_.ground_bytes()));
    content_.lay(memory.bytes().first(content_.ground_bytes()));
    return std::optional(std::move(memory));
  }

  Result<void> give_memory(Worker& worker) const {
    const auto slots = slots_of(plan_, worker.transfers);
    if (phase_ == Phase::write) {
      PEN_ASSIGN(worker.ground, laid_ground());
      worker.taken.resize(content_.ground_bytes() / stream_.transfer_bytes);
    }
    // What is written comes out of the ground; with a queue the piece of it may be under way still.
    if (phase_ == Phase::write && slots == 1) return {};
    for (unsigned slot = 0; slot < slots; ++slot) {
      PEN_ASSIGN(auto memory, Memory::allocate(stream_.transfer_bytes));
      std::fill(memory.bytes().begin(), memory.bytes().end(), std::byte{0});  // no page is missing later
      worker.blocks.push_back(std::move(memory));
    }
    return {};
  }

  /// From what a thread wrote to what it reads.
  std::uint64_t shift() const {
    return ranks_ > 1 ? std::uint64_t{stream_.threads} * reading_shift(plan_, ranks_).value_or(1) : 1;
  }

  /// Files are opened before the clock starts. False where that takes longer than storage may.
  bool all_are_ready(const RunContext& context, std::int64_t deadline_ns) {
    std::unique_lock lock(ready_mutex_);
    while (!one_is_ready_.wait_for(lock, std::chrono::nanoseconds(tick_ns), [this] { return ready_ == at_work_; })) {
      if (context.stop || monotonic_ns() > deadline_ns) return false;
      lock.unlock();
      tell_progress(context);
      lock.lock();
    }
    return true;
  }

  void say_ready() {
    {
      std::lock_guard lock(ready_mutex_);
      ++ready_;
    }
    one_is_ready_.notify_one();
  }

  /// Sets the start, which all ranks have in common; without one the phase ends at once.
  void begin(const Result<Meeting>& meeting) {
    if (!meeting.ok()) {
      stop_now_ = true;
      if (meeting.error().code() != Errc::cancelled) no_start_ = meeting.error();
    }
    start_ns_ = meeting.ok() ? meeting->start_ns : monotonic_ns();
    backend_->start(start_ns_);
    watch_.begin();
    begun_.count_down();
  }

  const char* name() const { return phase_ == Phase::write ? "write" : "read"; }
  std::int64_t now_ns() const { return monotonic_ns() - start_ns_; }

  std::optional<std::uint64_t> cached_now() const {
    // Each host has pages of its own to forget; each rank counts its share of them.
    if (stream_.shared) {
      const auto cached = backend_->cached_bytes(file_name(plan_, 0));
      return cached ? std::optional(*cached * stream_.threads / threads_) : std::nullopt;
    }
    std::uint64_t all = 0;
    for (const auto& worker : workers_) {
      const auto cached = backend_->cached_bytes(file_name(plan_, worker->owner));
      if (!cached) return std::nullopt;
      all += *cached;
    }
    return all;
  }

  void work(Worker& worker) {
    const auto done = transfer(worker);
    book_end(worker, done);
    if (&worker == workers_.front().get()) made_.reset();  // all have joined it
  }

  void book_end(Worker& worker, const Result<void>& done) {
    std::lock_guard lock(worker.mutex);
    if (done.ok()) worker.done_ns = now_ns();
    worker.waited_for_processor_ns = waited_for_processor_ns();
    if (done.ok()) return;
    // Of several ranks the one whose error ended the others tells it.
    if (ranks_ == 1 || done.error().code() != Errc::cancelled)
      worker.problem = Problem(done.error(), file_name(plan_, file_of(worker)));
    stop_now_ = true;  // the others' figures would not be of all threads together
  }

  /// Everyone begins at once, with a file that is open. Whatever fails, calls that ranks make together are made.
  Result<void> transfer(Worker& worker) {
    auto file = open(worker);
    say_ready();
    begun_.wait();
    while (monotonic_ns() < start_ns_) monotonic_pace_clock().sleep_until_ns(start_ns_);
    auto done = file.ok() ? Result<void>() : Result<void>(file.error());
    const Permutation written(stream_.transfers(), key_of({plan_.seed, of_the_writes, worker.owner}));
    const Permutation read(worker.transfers, key_of({plan_.seed, of_the_reads, worker.owner}));
    const auto offset_at = [&](std::uint64_t i) {
      if (stream_.order != Order::random) return offset_of(worker.owner, i);
      return offset_of(worker.owner, written.at(phase_ == Phase::write ? i : read.at(i)));
    };
    if (file.ok() && (*file)->depth() > 1) {
      done = keep_under_way(worker, **file, offset_at);
    } else if (phase_ == Phase::read) {
      for (std::uint64_t i = 0; !all_end(worker, done, i); ++i) done = read_block(worker, **file, offset_at(i));
    } else {
      done = write_blocks(worker, file, offset_at);
    }
    if (!file.ok()) return done;
    const bool syncs = phase_ == Phase::write && backend_->sync() != Sync::none;
    const auto synced = syncs ? (*file)->sync() : Result<void>();
    const auto closed = (*file)->close();
    if (!done.ok()) return done;
    return synced.ok() ? closed : synced;
  }

  /// Before transfer `number`, and once after the last one.
  bool all_end(const Worker& worker, const Result<void>& done, std::uint64_t number) {
    return backend_->agree_to_end(!done.ok() || number >= worker.transfers || ends());
  }

  /// Between two writes the thread makes what it writes, and nothing else: that takes no third look at the clock.
  template <typename OffsetAt>
  Result<void> write_blocks(Worker& worker, const Result<std::unique_ptr<StoredFile>>& file, OffsetAt offset_at) {
    const bool waits = backend_->agrees_with_others();
    Result<void> done = file.ok() ? Result<void>() : Result<void>(file.error());
    auto free_ns = now_ns();
    for (std::uint64_t i = 0; !all_end(worker, done, i); ++i) {
      if (waits) free_ns = now_ns();
      done = write_block(worker, **file, offset_at(i), free_ns);
    }
    return done;
  }

  /// As many transfers as the file takes at once. What has begun is waited for, however this ends.
  template <typename OffsetAt>
  Result<void> keep_under_way(Worker& worker, StoredFile& file, OffsetAt offset_at) {
    const auto slots = std::min(file.depth(), slots_of(plan_, worker.transfers));
    std::vector<UnderWay> transfers(slots);
    std::vector<unsigned> free(slots);
    std::iota(free.begin(), free.end(), 0U);
    Result<void> done;
    for (std::uint64_t next = 0;;) {
      while (done.ok() && !free.empty() && next < worker.transfers && !ends()) {
        const auto slot = free.back();
        transfers[slot] = {0, 0, offset_at(next++), {}, std::nullopt};
        done = begin_one(worker, file, slot, transfers[slot]);
        if (done.ok()) free.pop_back();
      }
      if (free.size() == transfers.size()) return done;
      PEN_ASSIGN(const auto ended, file.wait_for_one());
      free.push_back(ended.slot);
      const auto booked = end_one(worker, ended, transfers[ended.slot]);
      if (done.ok()) done = booked;
    }
  }

  Result<void> begin_one(Worker& worker, StoredFile& file, unsigned slot, UnderWay& transfer) {
    const auto fill_begin_ns = now_ns();
    if (phase_ == Phase::write)
      lay_one(worker, slot, transfer);
    else
      transfer.block = block_of(worker, slot);
    transfer.begin_ns = now_ns();
    transfer.fill_ns = transfer.begin_ns - fill_begin_ns;
    return phase_ == Phase::write ? file.begin_write(slot, transfer.block, transfer.offset)
                                  : file.begin_read(slot, transfer.block, transfer.offset);
  }

  /// Where it lies in the ground, unless that piece is on its way to another place: then in the slot's own block.
  void lay_one(Worker& worker, unsigned slot, UnderWay& transfer) const {
    const auto file = file_of(worker);
    const auto place = content_.place(file, transfer.offset);
    const auto piece = place / stream_.transfer_bytes;
    const auto ground = worker.ground->bytes();
    if (!worker.taken[piece]) {
      worker.taken[piece] = true;
      transfer.taken = piece;
      transfer.block = content_.block(ground, file, transfer.offset);
      return;
    }
    transfer.block = block_of(worker, slot);
    std::memcpy(transfer.block.data(), ground.data() + place, transfer.block.size());
    content_.stamp(transfer.block, file, transfer.offset);
  }

  Result<void> end_one(Worker& worker, const Ended& ended, const UnderWay& transfer) {
    const auto done_ns = now_ns();
    if (transfer.taken) worker.taken[*transfer.taken] = false;
    PEN_ASSIGN(const auto bytes, ended.bytes);
    if (phase_ == Phase::read) PEN_TRY(check_size(worker, bytes, transfer.offset));
    book(worker, transfer.fill_ns, transfer.begin_ns, done_ns);
    if (ground_) verify(worker, transfer.block, transfer.offset);
    return {};
  }

  MutableBytes block_of(const Worker& worker, unsigned slot) const {
    return worker.blocks[slot].bytes().first(stream_.transfer_bytes);
  }

  std::uint64_t file_of(const Worker& worker) const { return stream_.shared ? 0 : worker.owner; }

  Result<std::unique_ptr<StoredFile>> open(const Worker& worker) const {
    const auto name = file_name(plan_, file_of(worker));
    if (phase_ == Phase::read) return backend_->open(name);
    return stream_.shared ? backend_->join(name) : create(worker.owner);
  }

  Result<std::unique_ptr<StoredFile>> create(std::uint64_t owner) const {
    return backend_.create(file_name(plan_, owner), one_for_all_ranks(plan_) ? 0 : owner);
  }

  /// Of a thread's transfer `number`, as they lie one behind the other in its blocks.
  std::uint64_t offset_of(std::uint64_t owner, std::uint64_t number) const {
    const auto at = number * stream_.transfer_bytes;
    if (!stream_.shared) return at;
    const auto segment = at / stream_.block_bytes();
    return (segment * threads_ + owner) * stream_.block_bytes() + at % stream_.block_bytes();
  }

  bool ends() const { return stop_now_ || (stream_.seconds_max > 0 && seconds_of(now_ns()) >= stream_.seconds_max); }

  /// `free_ns`: when the thread was done with the block before, and on return with this one.
  Result<void> write_block(Worker& worker, StoredFile& file, std::uint64_t offset, std::int64_t& free_ns) {
    const auto block = content_.block(worker.ground->bytes(), file_of(worker), offset);
    const auto begin_ns = now_ns();
    PEN_TRY(file.write(block, offset));
    if (backend_->sync() == Sync::each) PEN_TRY(file.sync());
    const auto done_ns = now_ns();
    book(worker, begin_ns - free_ns, begin_ns, done_ns);
    free_ns = done_ns;
    return {};
  }

  Result<void> read_block(Worker& worker, StoredFile& file, std::uint64_t offset) {
    const auto block = block_of(worker, 0);
    const auto begin_ns = now_ns();
    PEN_ASSIGN(const auto bytes, file.read(block, offset));
    const auto done_ns = now_ns();
    PEN_TRY(check_size(worker, bytes, offset));
    book(worker, 0, begin_ns, done_ns);
    if (ground_) verify(worker, block, offset);
    return {};
  }

  Result<void> check_size(const Worker& worker, std::size_t bytes, std::uint64_t offset) const {
    if (bytes >= stream_.transfer_bytes) return {};
    return make_error(Errc::truncated, "{} ends at {}, and {} bytes were written at {}",
                      file_name(plan_, file_of(worker)), offset + bytes, stream_.transfer_bytes, offset);
  }

  /// The thread reads nothing meanwhile: the document tells for how long.
  void verify(Worker& worker, Bytes read, std::uint64_t offset) const {
    const auto begin_ns = monotonic_ns();
    const bool right = content_.is_block(read, ground_->bytes(), file_of(worker), offset);
    const auto end_ns = monotonic_ns();
    std::lock_guard lock(worker.mutex);
    worker.verify_ns += end_ns - begin_ns;
    if (!right) ++worker.mismatches;
  }

  void book(Worker& worker, std::int64_t fill_ns, std::int64_t begin_ns, std::int64_t done_ns) {
    std::lock_guard lock(worker.mutex);
    worker.fill_ns += fill_ns;
    worker.bytes += stream_.transfer_bytes;
    ++worker.operations;
    worker.service.add(done_ns - begin_ns);
    auto& interval = worker.series.at(done_ns);
    ++interval.done;
    interval.bytes += stream_.transfer_bytes;
    interval.time_max_ns = std::max(interval.time_max_ns, done_ns - begin_ns);
  }

  std::uint64_t tell_progress(const RunContext& context) {
    std::uint64_t bytes = 0, planned = 0;
    for (auto& worker : workers_) {
      std::lock_guard lock(worker->mutex);
      bytes += worker->bytes;
      planned += worker->transfers * stream_.transfer_bytes;
    }
    context.emit("progress", {{"phase", name()}, {"done", bytes}, {"total", planned}});
    return bytes;
  }

  const LoadPlan plan_;
  const StreamPlan stream_;
  const RecordedFiles backend_;
  const Phase phase_;
  Content content_;
  const TimeSeries no_series_;
  std::vector<std::unique_ptr<Worker>> workers_;
  /// The shared file, where this rank made it: its number is of no other file while it is open.
  std::unique_ptr<StoredFile> made_;
  std::optional<Memory> ground_;  ///< of what should be read, where that is verified
  std::optional<std::uint64_t> cached_bytes_;

  const unsigned ranks_;
  const unsigned rank_;
  const std::uint64_t threads_;  ///< of all ranks

  std::mutex ready_mutex_;
  std::condition_variable one_is_ready_;
  std::size_t ready_ = 0;  // guarded by ready_mutex_
  std::latch begun_;
  std::int64_t start_ns_ = 0;  ///< set before begun_
  // of the thread that calls run()
  Problem no_start_;         ///< why the threads did not begin
  std::size_t at_work_ = 0;  ///< threads that there are
  std::atomic<bool> stop_now_;
  Gaps gaps_;  ///< of the thread that calls run()
  GapWatch watch_;
  Crew crew_;
};

/// Adds what a phase found; whether the next one may follow.
Result<bool> run_phase(PhaseRun& phase, const std::vector<std::uint64_t>& transfers, const RunContext& context,
                       Measured& measured) {
  if (const auto ready = phase.prepare(transfers, context.stop); !ready.ok()) {
    if (measured.fields["phases"].empty()) return ready.error();
    // What was measured stays.
    const auto code = ready.error().code();
    if (code != Errc::cancelled) measured.problem = ready.error();
    measured.left_behind = code == Errc::cancelled || code == Errc::timed_out;
    return false;
  }
  if (std::get<StreamPlan>(phase.plan().workload).shared) {
    // Whoever joins a shared file finds it made, and knows which one it is.
    const auto met = context.team.meet(phase.mark());
    if (!met.ok() && met.error().code() != Errc::cancelled) measured.problem = met.error();
    if (!met.ok()) return false;
    phase.expect(met->notes.front());
  }
  const auto behind = phase.run(context);
  measured.fields["phases"].push_back(phase.to_json());
  measured.problem = phase.problem(behind);
  measured.left_behind = behind > 0;
  return measured.problem.empty() && !context.stop;
}

/// Of the threads of all ranks.
std::vector<std::uint64_t> transfers_of(const Meeting& written) {
  std::vector<std::uint64_t> all;
  for (const auto& rank : written.notes)
    for (const auto& transfers : rank) all.push_back(transfers.get<std::uint64_t>());
  return all;
}

}  // namespace

Result<Measured> run_stream(const LoadPlan& plan, std::shared_ptr<Backend> backend, const RunContext& context) {
  const auto& stream = std::get<StreamPlan>(plan.workload);
  Measured measured{{{"phases", Json::array()}}, {}, false};
  auto write = std::make_shared<PhaseRun>(plan, backend, Phase::write, context);
  const std::vector<std::uint64_t> all(context.team.ranks() * stream.threads, stream.transfers());
  PEN_ASSIGN(const bool wrote, run_phase(*write, all, context, measured));
  if (!wrote || !stream.read) return measured;
  const auto written = context.team.meet(write->transfers_done());
  if (!written.ok()) {
    if (written.error().code() != Errc::cancelled) measured.problem = written.error();
    return measured;
  }
  const auto transfers = transfers_of(*written);
  if (transfers.size() != all.size()) {
    measured.problem = make_error(Errc::mismatch, "ranks do not agree about what was written");
    return measured;
  }
  write.reset();  // and its blocks
  const auto read = std::make_shared<PhaseRun>(plan, std::move(backend), Phase::read, context);
  PEN_ASSIGN([[maybe_unused]] const bool done, run_phase(*read, transfers, context, measured));
  return measured;
}

}  // namespace penstock::load
