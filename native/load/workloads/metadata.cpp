/// Names: trees of folders with folders and files in them, made, found, read, renamed and removed, each in a phase that
/// all threads, of all ranks, begin together.

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/time/clock.hpp"
#include "base/time/pacing.hpp"
#include "load/crew.hpp"
#include "load/document.hpp"
#include "load/gaps.hpp"
#include "load/gate.hpp"
#include "load/machine.hpp"
#include "load/names.hpp"
#include "load/workloads/content.hpp"
#include "load/workloads/metadata_phases.hpp"
#include "load/workloads/tree.hpp"
#include "load/workloads/workload.hpp"

namespace penstock::load {
namespace {

/// One thread. In a phase it is the thread's own, but for what is atomic.
struct Worker {
  Worker(std::uint64_t its_number, Memory of_writes, Memory of_reads)
      : number(its_number), written(std::move(of_writes)), read(std::move(of_reads)) {}

  /// The time of an operation is that since the one before: one look at the clock each.
  void book() {
    const auto now_ns = monotonic_ns();
    service.add(now_ns - last_ns);
    last_ns = now_ns;
    operations.store(operations.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  const std::uint64_t number;  ///< among those of all ranks
  const Memory written;
  const Memory read;
  std::atomic<std::uint64_t> operations{0};  ///< in this phase
  std::int64_t last_ns = 0;
  std::int64_t done_ns = -1;  ///< monotonic; −1 where it has not done all of its phase
  std::int64_t waited_for_processor_ns = -1;
  Times service;
  bool made_one_more = false;  ///< the call that failed has created its name
  Problem problem;
};

/// All phases. Threads that hang keep it alive.
class MetadataRun : public std::enable_shared_from_this<MetadataRun> {
 public:
  MetadataRun(const LoadPlan& plan, std::shared_ptr<Backend> backend, std::unique_ptr<Names> names,
              const RunContext& context)
      : plan_(plan),
        metadata_(std::get<MetadataPlan>(plan.workload)),
        backend_(std::move(backend)),
        names_(std::move(names)),
        ranks_(context.team.ranks()),
        threads_(metadata_.threads_of(ranks_)),
        trees_(metadata_.trees(ranks_)),
        first_thread_(std::uint64_t{context.team.rank()} * metadata_.threads),
        operations_(operations_of(metadata_)),
        places_(tree_places(metadata_.tree_folders(), metadata_.branch)),
        content_(plan, metadata_.file_bytes, metadata_.files_made(ranks_)),
        made_(context.made),
        times_(std::make_unique<TimesOfAll>()) {}

  Result<Measured> run(const RunContext& context) {
    PEN_TRY(check_memory(memory_bytes(plan_, ranks_)));
    PEN_TRY(make_workers());
    PEN_TRY(watch_.start());
    gate_.expect(workers_.size());
    Result<void> started;
    for (auto& worker : workers_) {
      if (!started.ok()) break;
      started =
          crew_.start("pen-load-name", Role::other, [self = shared_from_this(), &worker] { self->work(*worker); });
    }
    const bool all_are_there = !started.ok() || go_through(context);
    stop_now_ = true;
    gate_.end();
    // Whoever does not hang ends now; who does was waited for.
    crew_.wait_until(monotonic_ns() + (all_are_there ? patience_after_stop_ns : tick_ns));
    const auto behind = crew_.dismiss();
    if (!started.ok()) return started.error();
    return measured(behind);
  }

 private:
  Result<void> make_workers() {
    PEN_TRY(content_.open());
    for (unsigned i = 0; i < metadata_.threads; ++i) {
      PEN_ASSIGN(auto written, Memory::allocate(content_.ground_bytes()));
      PEN_ASSIGN(auto read, Memory::allocate(metadata_.file_bytes));
      content_.lay(written.bytes().first(content_.ground_bytes()));
      workers_.push_back(std::make_unique<Worker>(first_thread_ + i, std::move(written), std::move(read)));
    }
    return {};
  }

  /// All phases, unless the run ends before. False where threads hang in one.
  bool go_through(const RunContext& context) {
    while (all_come(context)) {
      if (begun_ > 0) close(phase_of(begun_ - 1));
      if (begun_ == phases_planned() || stop_now_ || context.stop || !begin(context)) return true;
    }
    return false;
  }

  /// Whether all threads of this rank are at the gate. Not where some hang, or take too long to end.
  bool all_come(const RunContext& context) {
    const auto patience_ns = std::max(tick_ns, static_cast<std::int64_t>(plan_.drain_timeout_s * 1e9));
    auto moved_ns = monotonic_ns();
    std::uint64_t moved = 0;
    std::int64_t stopped_ns = 0;
    while (!gate_.wait_until(next_look_ns_)) {
      next_look_ns_ = monotonic_ns() + tick_ns;
      const auto done = tell_progress(context);
      const auto now_ns = monotonic_ns();
      if (done != moved) moved_ns = now_ns;
      moved = done;
      if (context.stop) stop_now_ = true;
      if (context.stop && stopped_ns == 0) stopped_ns = now_ns;
      if (stopped_ns > 0 && now_ns - stopped_ns > patience_after_stop_ns) return false;
      if (now_ns - moved_ns > patience_ns) return false;
    }
    return true;
  }

  /// The next phase, at the moment that all ranks have in common. False where they do not meet any more.
  bool begin(const RunContext& context) {
    const auto meeting = context.team.meet(nullptr);
    if (!meeting.ok()) {
      if (meeting.error().code() != Errc::cancelled) found_.problem = meeting.error();
      return false;
    }
    start_ns_ = meeting->start_ns;
    if (begun_++ == 0) backend_->start(start_ns_);
    watch_.begin();
    gate_.open();
    return true;
  }

  std::uint64_t tell_progress(const RunContext& context) {
    if (begun_ == 0) return 0;
    std::uint64_t done = 0;
    for (const auto& worker : workers_) done += worker->operations.load(std::memory_order_relaxed);
    const auto phase = phase_of(begun_ - 1);
    context.emit("progress", {{"phase", name(phase.operation)},
                              {"unit", "operations"},
                              {"done", done},
                              {"total", operations_planned(phase.operation)},
                              {"iteration", phase.iteration}});
    return done;
  }

  std::size_t phases_planned() const { return operations_.size() * metadata_.iterations; }
  Phase phase_of(std::size_t number) const {
    Phase phase;
    phase.operation = operations_[number % operations_.size()];
    phase.iteration = static_cast<unsigned>(number / operations_.size());
    return phase;
  }
  /// By this rank.
  std::uint64_t operations_planned(Operation operation) const {
    const auto works = [&](const auto& worker) { return !has_no_part(*worker, operation); };
    const auto threads = static_cast<std::uint64_t>(std::count_if(workers_.begin(), workers_.end(), works));
    return places_.size() * threads * (is_of_trees(operation) ? 1 : metadata_.items);
  }

  void close(Phase phase) {
    phase.gaps = watch_.end();
    phase.complete = true;
    for (auto& worker : workers_) {
      const auto operations = worker->operations.exchange(0);
      phase.operations += operations;
      report(*worker, phase, operations, operations + (worker->made_one_more ? 1 : 0));
      (*times_)[static_cast<std::size_t>(phase.operation)].add(worker->service);
      worker->service = Times();
      if (found_.problem.empty()) found_.problem = worker->problem;
      phase.complete = phase.complete && worker->done_ns >= 0;
      // Who has nothing to do in it was not the first one that was done.
      if (has_no_part(*worker, phase.operation)) continue;
      const auto done_ns = worker->done_ns - start_ns_;
      if (phase.first_done_ns < 0 || done_ns < phase.first_done_ns) phase.first_done_ns = done_ns;
      phase.last_done_ns = std::max(phase.last_done_ns, done_ns);
    }
    found_.phases.push_back(phase);
  }

  bool has_no_part(const Worker& worker, Operation operation) const {
    return is_of_trees(operation) && worker.number >= trees_;
  }

  void work(Worker& worker) {
    while (gate_.come()) {
      worker.done_ns = -1;
      while (monotonic_ns() < start_ns_) monotonic_pace_clock().sleep_until_ns(start_ns_);
      worker.last_ns = monotonic_ns();
      const auto phase = phase_of(begun_ - 1);
      const auto done = perform(worker, phase);
      if (!done.ok()) {
        if (worker.problem.empty()) worker.problem = done.error();
        stop_now_ = true;  // the others' figures would not be of all threads together
      } else if (*done) {
        worker.done_ns = worker.last_ns;
      }
    }
    worker.waited_for_processor_ns = waited_for_processor_ns();
  }

  /// Whether all of it was done.
  Result<bool> perform(Worker& worker, const Phase& phase) {
    using enum Operation;
    const auto sync = backend_->sync() != Sync::none;
    const auto into = worker.read.bytes().first(metadata_.file_bytes);
    const auto each = [&](char letter, auto act) { return each_item(worker, phase, letter, act); };
    switch (phase.operation) {
      case tree_create: return make_tree(worker, phase.iteration);
      case tree_remove: return remove_tree(worker, phase.iteration);
      case folder_create: return each('d', [&](const char* path) { return names_->make_folder(path); });
      case folder_stat: return each('d', [&](const char* path) { return names_->look_up(path); });
      case folder_remove:
        return each(metadata_.rename ? 'e' : 'd', [&](const char* path) { return names_->remove_folder(path); });
      case folder_rename: return rename_each(worker, phase, 'd', 'e');
      case file_create:
        return each('f', [&, number = first_file(worker, phase)](const char* path) mutable {
          bool made = false;
          auto created = names_->create(path, content_.block(worker.written.bytes(), number++, 0), sync, made);
          worker.made_one_more = made && !created.ok();
          return created;
        });
      case file_stat: return each('f', [&](const char* path) { return names_->look_up(path); });
      case file_read: return each('f', [&](const char* path) { return read_whole(path, into); });
      case file_rename: return rename_each(worker, phase, 'f', 'g');
      case file_remove:
        return each(metadata_.rename ? 'g' : 'f', [&](const char* path) { return names_->remove(path); });
    }
    return true;
  }

  /// Numbers of files differ, and with them their contents.
  std::uint64_t first_file(const Worker& worker, const Phase& phase) const {
    return (phase.iteration * threads_ + worker.number) * places_.size() * metadata_.items;
  }

  Result<void> read_whole(const char* path, MutableBytes into) const {
    PEN_ASSIGN(const auto bytes, names_->read(path, into));
    if (bytes == into.size()) return {};
    return make_error(Errc::truncated, "{} has {} bytes, and {} were written", path, bytes, into.size());
  }

  std::string top_of(unsigned iteration, std::uint64_t owner) const {
    return tree_name(plan_, tree_of(iteration, owner));
  }
  std::uint64_t tree_of(unsigned iteration, std::uint64_t owner) const {
    return iteration * trees_ + (metadata_.shared ? 0 : owner);
  }

  /// Whose items, or whose tree, a thread works on.
  std::uint64_t owner_of(const Worker& worker, Operation operation) const {
    using enum Operation;
    const bool makes = operation == folder_create || operation == file_create || operation == tree_create;
    return makes ? worker.number : (worker.number + metadata_.shift) % threads_;
  }

  template <typename Act>
  Result<bool> each_item(Worker& worker, const Phase& phase, char letter, Act act) {
    const auto owner = owner_of(worker, phase.operation);
    const auto top = top_of(phase.iteration, owner);
    ItemPath path(letter, owner);
    for (const auto& place : places_) {
      path.enter(top, place);
      for (std::uint64_t i = 0; i < metadata_.items; ++i, path.next()) {
        if (stop_now_.load(std::memory_order_relaxed)) return false;
        PEN_TRY(noted(worker, path.text(), act(path.text())));
        worker.book();
      }
    }
    return true;
  }

  /// The result of a call about `path`, which becomes the worker's problem if it is an error.
  static Result<void> noted(Worker& worker, const char* path, Result<void> result) {
    if (!result.ok() && worker.problem.empty()) worker.problem = Problem(result.error(), path);
    return result;
  }

  /// For the removal of what exists.
  void report(const Worker& worker, const Phase& phase, std::uint64_t done, std::uint64_t attempted) {
    if (attempted == 0 || !changes_names(phase.operation)) return;
    const auto owner = owner_of(worker, phase.operation);
    made_->handled({name(phase.operation), tree_of(phase.iteration, owner), owner, done, attempted});
  }

  Result<bool> rename_each(Worker& worker, const Phase& phase, char from, char to) {
    std::string renamed;
    return each_item(worker, phase, from, [&](const char* path) {
      renamed = path;
      renamed[renamed.rfind('/') + 1] = to;
      return noted(worker, renamed.c_str(), names_->rename(path, renamed.c_str()));
    });
  }

  Result<bool> make_tree(Worker& worker, unsigned iteration) {
    if (has_no_part(worker, Operation::tree_create)) return true;
    const auto top = top_of(iteration, worker.number);
    std::string path;
    for (const auto& place : places_) {
      if (stop_now_) return false;
      (path = top).append(place);
      PEN_TRY(noted(worker, path.c_str(), names_->make_folder(path.c_str())));
      worker.book();
    }
    return true;
  }

  Result<bool> remove_tree(Worker& worker, unsigned iteration) {
    if (has_no_part(worker, Operation::tree_remove)) return true;
    const auto top = top_of(iteration, metadata_.shared ? 0 : owner_of(worker, Operation::tree_remove));
    std::string path;
    for (auto place = places_.rbegin(); place != places_.rend(); ++place) {
      if (stop_now_) return false;
      (path = top).append(*place);
      PEN_TRY(noted(worker, path.c_str(), names_->remove_folder(path.c_str())));
      worker.book();
    }
    return true;
  }

  Measured measured(unsigned behind) {
    auto phases = Json::array();
    for (const auto& phase : found_.phases) phases.push_back(to_json(phase));
    if (begun_ > found_.phases.size()) {
      const auto phase = hanging();
      if (behind > 0) phases.push_back(to_json(phase));
    }
    auto times = Json::object();
    for (const auto operation : operations_)
      times[name(operation)] = load::to_json((*times_)[static_cast<std::size_t>(operation)]);
    auto waited = Json::array();
    // A thread that hangs writes its own when it comes back.
    for (const auto& worker : workers_) waited.push_back(behind > 0 ? -1 : worker->waited_for_processor_ns);
    if (found_.problem.empty() && behind > 0)
      found_.problem = make_error(Errc::timed_out, "{} stalled in the storage",
                                  behind == 1 ? "1 thread is" : fmt::format("{} threads are", behind));
    Json fields = {
        {"metadata", {{"phases", std::move(phases)}, {"times", std::move(times)}, {"waited_ns", std::move(waited)}}}};
    return {std::move(fields), found_.problem, behind > 0};
  }

  /// The phase that nobody could close, in which threads hang, or hung a moment ago.
  Phase hanging() {
    auto phase = phase_of(begun_ - 1);
    phase.gaps = watch_.end();
    for (const auto& worker : workers_) {
      const auto operations = worker->operations.load(std::memory_order_relaxed);
      phase.operations += operations;
      if (!has_no_part(*worker, phase.operation)) report(*worker, phase, operations, operations + 1);
    }
    return phase;
  }

  const LoadPlan plan_;
  const MetadataPlan metadata_;
  const std::shared_ptr<Backend> backend_;
  const std::unique_ptr<Names> names_;
  const unsigned ranks_;
  // of all ranks together
  const std::uint64_t threads_;
  const std::uint64_t trees_;         ///< of an iteration
  const std::uint64_t first_thread_;  ///< of this rank
  const std::vector<Operation> operations_;
  const std::vector<std::string> places_;
  Content content_;
  std::vector<std::unique_ptr<Worker>> workers_;

  Gate gate_;
  std::atomic<bool> stop_now_{false};
  // of the thread that calls run(); of these, the others read begun_ and start_ns_ in a phase
  std::size_t begun_ = 0;  ///< phases
  std::int64_t start_ns_ = 0;
  std::int64_t next_look_ns_ = 0;
  struct {
    std::vector<Phase> phases;
    Problem problem;
  } found_;
  const std::shared_ptr<Made> made_;
  std::unique_ptr<TimesOfAll> times_;

  GapWatch watch_;
  Crew crew_;
};

}  // namespace

Result<Measured> run_metadata(const LoadPlan& plan, std::shared_ptr<Backend> backend, const RunContext& context) {
  const auto names = std::make_shared<std::unique_ptr<Names>>();
  PEN_TRY(ask_storage("open the folder", plan.drain_timeout_s, context.stop, [backend, names]() -> Result<void> {
    PEN_ASSIGN(*names, backend->names());
    return {};
  }));
  return std::make_shared<MetadataRun>(plan, std::move(backend), std::move(*names), context)->run(context);
}

}  // namespace penstock::load
