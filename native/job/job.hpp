/// A job: processes, called ranks, that do one thing together. Rank 0 is the lead.
///
/// What ranks have in common: messages, in order from one rank to another, and counters that any rank
/// adds to. docs/explanation/decisions/0008-ranks-of-a-job.md tells why there is nothing else.
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

class Job {
 public:
  virtual ~Job() = default;

  virtual unsigned rank() const = 0;
  virtual unsigned ranks() const = 0;

  /// Every rank calls it, before start(); all of them get the lead's text.
  virtual Result<std::string> share_text(std::string text) = 0;

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
/// made; once a process.
Result<std::unique_ptr<Job>> join_mpi(int& argc, char**& argv);

}  // namespace penstock::job
