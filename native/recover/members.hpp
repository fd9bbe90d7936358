/// The members of a master file that is recovered: each is recovered by itself, and what they hold is put together.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "check/members.hpp"
#include "check/structures/index_process.hpp"
#include "recover/ledger_rows.hpp"
#include "recover/recover.hpp"
#include "recover/values/frame_values.hpp"
#include "store/format/description.hpp"
#include "store/store.hpp"

namespace penstock::recover {

/// What a recovery of one member found.
struct MemberContent {
  RecoverReport report;
  std::vector<std::vector<std::uint64_t>> rows;  ///< with a chunk, by dataset, rising
  std::vector<ReceivedTime> times;               ///< of rows of the first dataset that were recovered
  std::vector<std::uint64_t> damaged;            ///< rows
  ValuesSource values;                           ///< of frames, by their numbers in the series
};

struct MembersContent {
  std::vector<store::PlacedChunk> chunks;  ///< of the series, each with its rank; the same frame may be in two members
  std::vector<ReceivedTime> times;         ///< by rising frame
  std::vector<std::uint64_t> damaged;      ///< frames, rising
  std::vector<ValuesSource> values;        ///< of the frames
  check::FoundMembers found;
  bool written = false;  ///< something was missing in a member's index
};

/// `recover_one` gets the path of a source file. Files that are none of its own, or too damaged, become findings. An
/// error that may pass ends the recovery: the master would lose the member's frames.
Result<MembersContent> recover_members(
    Env& env, const std::string& master, const check::Tree& tree, const store::Members& members,
    check::Findings& findings, RecoverReport& report,
    const std::function<Result<MemberContent>(const std::string& path)>& recover_one);

/// The master's list of its source files: those with `chunks`, and those that are missing.
store::ValueNode member_names(const store::Members& members, const std::vector<store::PlacedChunk>& chunks,
                              const std::vector<std::string>& missing);

/// Gives a master that is made anew the attributes by which readers know it.
void mark_as_master(store::FileLayout& layout);

/// The master's layout, with what its recorder gave its datasets beside frames.
store::FileLayout master_layout(const check::Tree& tree, const store::format::Description& description);

}  // namespace penstock::recover
