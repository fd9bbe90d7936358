/// The ranks that put load on a storage together: when they begin, whether they go on, and what each of them found.
///
/// A rank shows a few times a second that it works still. Whoever waits for one that has shown nothing for too long
/// gives it up, so that nobody waits for ever; MPI ends a job in which a rank died by itself, mostly sooner.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/fields.hpp"
#include "base/result.hpp"
#include "job/job.hpp"

namespace penstock::load {

/// What all ranks know after they have met.
struct Meeting {
  std::int64_t start_ns =
      0;                    ///< when they begin, on this machine's monotonic clock; for those that came late it is past
  std::vector<Json> notes;  ///< what each rank brought
};

/// Receives a message of another rank. Must not wait.
using Told = std::function<void(unsigned from, Bytes bytes)>;

/// As workloads and back ends see it. Workloads use it from one thread; what back ends have is safe from several.
class Team {
 public:
  virtual ~Team() = default;
  virtual unsigned rank() const = 0;
  virtual unsigned ranks() const = 0;
  /// Every rank calls it as often as the others, and it returns when all have. `cancelled` where the run is to end,
  /// `timed_out` where a rank shows nothing any more.
  virtual Result<Meeting> meet(Json note) = 0;

  /// What a back end has to say to itself in another rank. Does not wait; from one rank to another it comes in order.
  virtual void tell(unsigned /*to*/, Bytes /*bytes*/) {}
  /// Whom such bytes come to, on a thread of the team's. Before any rank sends something.
  virtual void listen(const Told& /*told*/) {}
  /// Adds to the one number that all ranks share, which begins at 0, and gives what it was. Waits; not while something
  /// sent is received.
  virtual Result<std::uint64_t> fetch_add(std::uint64_t /*amount*/) {
    return make_error(Errc::internal, "a single process shares no counters");
  }
};

/// One process that begins whenever it likes; lives as long as the program.
Team& no_team();

class JobTeam final : public Team {
 public:
  /// `job` and `stop` outlive its calls; before it goes the job is stopped, for messages come to it. `stop` is set here
  /// as well, where another rank says that the run is to end. `look` is called a few times a second, by whoever calls
  /// this, and may set it. A rank is given up when it has shown nothing for `silence_s_max`.
  JobTeam(job::Job& job, std::atomic<bool>& stop, std::function<void()> look, double silence_s_max);

  /// Before any other call. Every rank calls it.
  Result<void> start();

  unsigned rank() const override { return job_.rank(); }
  unsigned ranks() const override { return job_.ranks(); }
  std::string library() const { return job_.library(); }
  bool leads() const { return rank() == job::lead; }
  Result<Meeting> meet(Json note) override;
  void tell(unsigned to, Bytes bytes) override;
  void listen(const Told& told) override;
  Result<std::uint64_t> fetch_add(std::uint64_t amount) override { return job_.fetch_add(0, amount); }

  /// To be called a few times a second while the rank works: shows that, hands on that the run is to end, and, at the
  /// lead, makes the fields "done", "total" and "held" of `progress` those of all ranks.
  Json beat(Json progress);
  /// The others end their runs, for nobody needs their figures any more.
  void end_for_all();
  /// Whether somebody, at any rank, asked for the end of the run.
  bool interrupted();

  /// Every rank calls it once, at its end. The lead's returns what each rank brought, null where one is given up, and
  /// the others' nothing, when the lead has it. `some` is called once, where the run is to end and parts are missing
  /// after a moment: with those that are there.
  std::vector<Json> gather(Json part, const std::function<void(const std::vector<Json>&)>& some);
  /// After gather(): whether all parts came, so that nobody is missing where the ranks leave together.
  bool complete();

  /// {host, lead_ahead_ns, clock_error_ns, late_ns}: of this rank.
  Json describe() const;

 private:
  using Lock = std::unique_lock<std::mutex>;

  void send(unsigned to, const Json& message);
  void send_to_others(const Json& message);
  void hear(unsigned from, const std::vector<std::byte>& message);
  void hear_bytes(unsigned from, Bytes bytes);
  void arrive(unsigned from, std::uint64_t meeting, Json note);
  void show_life();
  void hand_on_the_end();
  /// Until `there` or an error; `missing` names a rank that is waited for.
  Result<void> wait(Lock& lock, const std::function<bool()>& there, const std::function<unsigned()>& missing,
                    bool ends_with_the_run);

  job::Job& job_;
  std::atomic<bool>& stop_;
  const std::function<void()> look_;
  const std::int64_t silence_ns_max_;
  job::ClockComparison clock_;
  std::uint64_t meeting_ = 0;
  std::int64_t late_ns_ = 0;

  std::mutex told_mutex_;
  Told told_bytes_;  ///< guarded by told_mutex_

  std::mutex mutex_;
  std::condition_variable changed_;
  // guarded by mutex_
  std::vector<std::int64_t> heard_ns_;    ///< from each rank, last
  std::vector<std::uint64_t> arrived_;    ///< at which meeting each rank is; of the lead
  std::vector<Json> notes_;               ///< of those that arrived; of the lead
  std::map<std::uint64_t, Json> starts_;  ///< of meetings, as sent by rank 0
  std::vector<Json> progress_;            ///< of each rank, last; of the lead
  std::vector<Json> parts_;               ///< of the lead
  std::vector<bool> given_up_;
  std::int64_t next_life_ns_ = 0;
  bool told_ = false;         ///< that the run is to end
  bool interrupted_ = false;  ///< because somebody asked for that
  bool taken_ = false;        ///< the lead has this rank's part
  bool complete_ = false;
};

}  // namespace penstock::load
