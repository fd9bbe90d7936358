/// Proves that a file holds what it should.
///
/// Integrity: every chunk's checksum, and the index against the segments. Completeness: every frame
/// accounted for. On request, every pixel against what was sent. A file of others is read as far as
/// it can be: it has no checksums, so every chunk is expanded. Nothing in a file makes a
/// check fail as such: what is wrong with it becomes a finding.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "base/files/env.hpp"
#include "check/findings.hpp"
#include "check/plan.hpp"
#include "check/progress.hpp"

namespace penstock::check {

enum class State {
  closed,
  unfinished,      ///< the file, or one that has its frames, is marked as open for writing
  being_recorded,  ///< and another process has locked it: its recorder
};

struct Report {
  bool complete = false;        ///< false where the check was stopped before its end
  Progress::State reached;      ///< how far it came then
  State state = State::closed;  ///< of several files the last one in this order
  std::vector<Finding> findings;
  std::uint64_t chunks = 0;        ///< verified
  std::uint64_t frame_chunks = 0;  ///< of these, with a record in a segment; the others are of columns or foreign data
  std::uint64_t frames = 0;
  std::uint64_t missing = 0;         ///< without all their chunks
  std::uint64_t partial = 0;         ///< of the missing frames
  std::uint64_t damaged_frames = 0;  ///< of the missing frames, by their state
  std::uint64_t dropped_frames = 0;
  std::uint64_t lost_frames = 0;
  /// Of an unfinished series: frames that the segments hold; the others are the missing ones.
  std::optional<std::uint64_t> recoverable;
  std::uint64_t segments = 0;
  std::uint64_t bytes = 0;  ///< stored bytes of the chunks that were verified
  std::uint64_t compared_frames = 0;
  std::uint64_t different_frames = 0;
  double seconds = 0;

  bool unfinished() const { return state != State::closed; }
  bool being_recorded() const { return state == State::being_recorded; }
  /// The check came to its end and found no error.
  bool ok() const;
};

nlohmann::json to_json(const Report& report);

/// Forks once, before it starts threads. `cancelled` may be called from any thread.
Report run_check(Env& env, const CheckPlan& plan, const Progress::Tell& tell, const std::function<bool()>& cancelled);

}  // namespace penstock::check
