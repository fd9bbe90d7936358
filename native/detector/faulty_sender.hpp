/// A sender on whose way frames are lost, held up, sent twice and damaged, as a plan says, and which notes what it did.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/time/pacing.hpp"
#include "detector/fault_plan.hpp"
#include "stream/sender.hpp"

namespace penstock::detector {

/// How frames go out, which decides what a recorder can see of it.
struct FaultySetting {
  std::uint32_t elements = 1;
  std::uint64_t receivers = 1;  ///< of a detector without elements, whose frames go to them in turns
  bool sums = false;            ///< pixels have a checksum on their way
};

/// The log is a JSON document a line: the plan, one for each frame of an element that something was done to, in the
/// order in which they were sent, and at the end `expected`: what a recorder's ledger has to say that got all that was
/// sent; null, with the reason, where nobody knows what was.
class FaultySender : public stream::FrameSender {
 public:
  /// `already_exists` where there is a file with the log's name. `clock` outlives the sender.
  static Result<std::unique_ptr<FaultySender>> open(std::unique_ptr<stream::FrameSender> inner, FaultPlan plan,
                                                    const FaultySetting& setting, PaceClock& clock);
  ~FaultySender() override;

  Result<void> begin(const Series& series) override;
  Result<void> put(const Frame& frame) override;
  Result<void> flush() override { return inner_->flush(); }
  /// What is held back goes out before the end.
  Result<void> end() override;
  /// The log is complete, as it is where something went wrong before.
  Result<stream::Receipt> finish(std::chrono::nanoseconds wait) override;
  stream::Receipt receipt() const override;
  void cancel() override { inner_->cancel(); }
  std::string address() const override { return inner_->address(); }

  /// Frames, of elements, that each kind of fault was done to, by name.
  Json done() const;

 private:
  struct Unit {
    Frame frame;
    const FaultRule* rule = nullptr;
  };
  struct Held {
    Unit unit;
    std::uint64_t due = 0;    ///< when this many frames of the element have been put
    std::int64_t due_ns = 0;  ///< where not 0, instead
  };
  /// Of one element.
  struct Stream {
    std::uint64_t put = 0;
    std::deque<Held> held;
    std::vector<Unit> gathered;  ///< that will change places
    std::uint64_t to_gather = 0;
    std::uint64_t gathering_key = 0;
    std::map<std::uint64_t, std::uint64_t> ends;  ///< by receiver: one past the highest frame that went out whole
    std::uint64_t lost = 0;                       ///< of those put, that did not go out whole
  };

  FaultySender(std::unique_ptr<stream::FrameSender> inner, FaultPlan plan, const FaultySetting& setting,
               PaceClock& clock)
      : inner_(std::move(inner)), plan_(std::move(plan)), setting_(setting), clock_(clock) {}

  Result<void> take(Unit unit, Stream& stream);
  Result<void> send(const Unit& unit, Stream& stream);
  Result<void> send_damaged(const Unit& unit);
  Result<void> send_whole(const Unit& unit, Stream& stream);
  Result<void> send_due(Stream& stream, bool all);
  Result<void> send_gathered(Stream& stream);
  Result<void> send_rest();
  /// It did not go out whole.
  void lose(const Unit& unit, Stream& stream);
  /// In the log: number of messages sent, `late` if behind frames with higher numbers that went out whole.
  void note(const Unit& unit, int sent, bool late);
  void write(const Json& line);
  /// Of what has gone out; what is held back does not go any more.
  Json expected();
  /// The last line, once; `sent` is how it ended.
  Result<void> conclude(const Result<void>& sent);

  const std::unique_ptr<stream::FrameSender> inner_;
  const FaultPlan plan_;
  const FaultySetting setting_;
  PaceClock& clock_;
  std::FILE* log_ = nullptr;
  bool log_failed_ = false;
  bool concluded_ = false;
  std::uint64_t announced_ = 0;
  std::map<std::uint32_t, Stream> streams_;
  std::array<std::uint64_t, fault_names.size()> done_{};
  std::set<std::uint64_t> lost_;  ///< frames of which an element did not go out whole
  std::uint64_t late_ = 0;
  std::uint64_t duplicate_ = 0;
  std::uint64_t damaged_ = 0;  ///< that a recorder refuses
};

}  // namespace penstock::detector
