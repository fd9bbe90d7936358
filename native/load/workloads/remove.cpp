/// Removes the files and trees of a run from a server, and their folder. Names follow from numbers: nothing else in the
/// folder is touched.

#include <atomic>
#include <memory>

#include "base/time/clock.hpp"
#include "load/crew.hpp"
#include "load/workloads/tree.hpp"
#include "load/workloads/workload.hpp"

namespace penstock::load {
namespace {

/// A thread that hangs keeps it alive.
class Removal {
 public:
  Removal(const LoadPlan& plan, std::shared_ptr<Backend> backend)
      : plan_(plan), remove_(std::get<RemovePlan>(plan.workload)), backend_(std::move(backend)) {}

  /// Returns why something is still there. Names that are already gone are skipped.
  Result<void> run() {
    PEN_ASSIGN(names_, backend_->names());
    for (std::uint64_t number = 0; number < remove_.files; ++number)
      PEN_TRY(gone(names_->remove(file_name(plan_, number).c_str())));
    for (std::uint64_t number = 0; remove_.trees && number < remove_.trees->count; ++number)
      PEN_TRY(remove_tree(tree_name(plan_, number), *remove_.trees));
    return remove_.folder ? gone(names_->remove_folder("")) : Result<void>();
  }

  /// Calls that have ended.
  std::uint64_t done() const { return done_; }

 private:
  Result<void> gone(const Result<void>& removed) {
    ++done_;
    return removed.ok() || removed.error().code() == Errc::not_found ? Result<void>() : removed;
  }

  Result<void> remove_tree(const std::string& top, const TreesPlan& trees) {
    if (trees.folders) {
      const auto found = names_->look_up(top.c_str());
      if (!found.ok()) return gone(found);
    }
    MetadataPlan shape;
    shape.depth = trees.depth;
    shape.branch = trees.branch;
    const auto places = tree_places(shape.tree_folders(), trees.branch);
    for (auto place = places.rbegin(); place != places.rend(); ++place) {
      for (std::uint64_t thread = 0; thread < trees.threads; ++thread)
        PEN_TRY(remove_items(top, *place, thread, trees));
      PEN_TRY(gone(names_->remove_folder((top + *place).c_str())));
    }
    return {};
  }

  Result<void> remove_items(const std::string& top, const std::string& place, std::uint64_t thread,
                            const TreesPlan& trees) {
    for (const char letter : {'f', 'g', 'd', 'e'}) {
      const bool is_folder = letter == 'd' || letter == 'e';
      if (is_folder && !trees.folders) continue;
      ItemPath path(letter, thread);
      path.enter(top, place);
      for (std::uint64_t i = 0; i < trees.items; ++i, path.next())
        PEN_TRY(gone(is_folder ? names_->remove_folder(path.text()) : names_->remove(path.text())));
    }
    return {};
  }

  const LoadPlan plan_;
  const RemovePlan remove_;
  const std::shared_ptr<Backend> backend_;
  std::unique_ptr<Names> names_;
  std::atomic<std::uint64_t> done_{0};
};

/// Until the crew has ended; why it is not waited for any longer.
Problem wait_for(Crew& crew, const Removal& removal, double patience_s, const std::atomic<bool>& stop) {
  const auto patience_ns = static_cast<std::int64_t>(patience_s * 1e9);
  std::uint64_t done = 0;
  auto moved_ns = monotonic_ns();
  while (!crew.wait_until(monotonic_ns() + tick_ns)) {
    if (stop) return make_error(Errc::cancelled, "it was interrupted");
    if (removal.done() != done) moved_ns = monotonic_ns();
    done = removal.done();
    if (monotonic_ns() - moved_ns > patience_ns)
      return make_error(Errc::timed_out, "the server did not answer for {} s", patience_s);
  }
  return {};
}

}  // namespace

Result<Measured> run_remove(const LoadPlan& plan, std::shared_ptr<Backend> backend, const RunContext& context) {
  const auto removal = std::make_shared<Removal>(plan, std::move(backend));
  const auto removed = std::make_shared<Result<void>>();
  Crew crew;
  PEN_TRY(crew.start("pen-load-remove", Role::other, [removal, removed] { *removed = removal->run(); }));
  auto problem = wait_for(crew, *removal, plan.drain_timeout_s, context.stop);
  const auto behind = crew.dismiss();
  if (behind == 0 && !removed->ok()) problem = removed->error();
  return Measured{Json::object(), std::move(problem), behind > 0};
}

}  // namespace penstock::load
