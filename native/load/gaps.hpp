/// Whether the generator itself stood still: stopped, frozen or without a processor.
///
/// A thread that does nothing else looks at the clock a hundred times a second while a phase is measured. What lies
/// between two looks beyond that is time in which no thread of this process can be trusted to have run, and what the
/// storage's figures are not to blame for. It costs a wake-up each, 0.02 % of a processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/fields.hpp"
#include "base/mutex.hpp"
#include "load/crew.hpp"

namespace penstock::load {

/// Between two looks at the clock.
struct Gaps {
  /// Gaps below this are those of any machine that has something to do.
  static constexpr std::int64_t counted_ns_min = 50'000'000;

  static constexpr std::size_t listed_max = 1000;

  /// Monotonic times, in nanoseconds.
  struct Gap {
    std::int64_t begin_ns;
    std::int64_t end_ns;
  };

  std::int64_t longest_ns = 0;
  std::int64_t sum_ns = 0;  ///< of those that count
  std::vector<Gap> listed;  ///< the first of those that count

  void add(std::int64_t begin_ns, std::int64_t end_ns);
};

/// Without those that are listed.
Json to_json(const Gaps& gaps);

/// Safe from several threads. It may go at any time: its thread ends at once.
class GapWatch {
 public:
  GapWatch() = default;
  ~GapWatch();
  GapWatch(const GapWatch&) = delete;
  GapWatch& operator=(const GapWatch&) = delete;

  /// Before the rest; an error where the system gives no further thread.
  Result<void> start();
  /// A phase begins.
  void begin();
  /// It has ended: its gaps, the one until now among them. None where no phase had begun.
  Gaps end();

 private:
  void look_on();
  void look() PEN_REQUIRES(mutex_);

  Mutex mutex_;
  CondVar told_;
  bool goes_ PEN_GUARDED_BY(mutex_) = false;
  bool measures_ PEN_GUARDED_BY(mutex_) = false;
  std::int64_t looked_ns_ PEN_GUARDED_BY(mutex_) = 0;
  Gaps gaps_ PEN_GUARDED_BY(mutex_);

  Crew crew_;
};

}  // namespace penstock::load
