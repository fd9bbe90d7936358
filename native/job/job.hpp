/// A job: processes, called ranks, that do one thing together. Rank 0 is the lead.
///
/// What ranks have in common: messages, in order from one rank to another, and counters that any rank
/// adds to. docs/explanation/decisions/0008-ranks-of-a-job.md explains why there is nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace penstock::job {

constexpr unsigned lead = 0;
/// Counters that a job has; each starts at 0.
constexpr unsigned counters = 256;

/// How a rank's monotonic clock stands to the lead's.
struct ClockComparison {
  std::int64_t lead_ahead_ns = 0;  ///< the lead's time minus this rank's, at one moment
  std::int64_t error_ns = 0;       ///< it is known to within this; what clocks drift later is not in it
};

/// From which threads MPI is called.
enum class Calls {
  of_the_job,     ///< the job's own alone
  of_any_thread,  ///< others too, at the same time
};

class Job {
 public:
  virtual ~Job() = default;

  virtual unsigned rank() const = 0;
  virtual unsigned ranks() const = 0;
  /// What the ranks are joined by, as it names itself; one line.
  virtual std::string library() const = 0;

  /// Every rank calls it, before start(); all of them get the lead's text.
  virtual Result<std::string> share_text(std::string text) = 0;
  /// Every rank calls it, before start(); takes a fraction of a second.
  virtual Result<ClockComparison> compare_clocks() = 0;

  using Handler = std::function<void(unsigned from, std::vector<std::byte> message)>;
  /// Every rank calls it once. From now on messages come to `handler`, on a thread of the job's, one after
  /// the other; the handler must not wait for anything that needs the job.
  virtual void start(Handler handler) = 0;
  /// Does not wait. Safe from several threads, the handler among them.
  virtual void send(unsigned to, std::vector<std::byte> message) = 0;

  /// Adds to a counter that all ranks share and gives its value before. Waits; not for the handler.
  virtual Result<std::uint64_t> fetch_add(unsigned counter, std::uint64_t amount) = 0;

  /// Every rank calls it once, after its last send, whether or not it called start(); returns when all ranks
  /// have and nothing is on its way.
  virtual void stop() = 0;
};

/// A job of one rank, for programs that run alone.
std::unique_ptr<Job> make_alone();

/// The job that this process was started in, of the MPI that the program was linked with. Before threads are
/// made; once a process. `unsupported` where the MPI does not allow the calls.
Result<std::unique_ptr<Job>> join_mpi(int& argc, char**& argv, Calls calls);

}  // namespace penstock::job
