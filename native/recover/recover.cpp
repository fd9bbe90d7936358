#include "recover/recover.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/time/clock.hpp"
#include "check/members.hpp"
#include "check/names.hpp"
#include "check/structures/index_process.hpp"
#include "check/structures/index_table.hpp"
#include "check/structures/scan_places.hpp"
#include "check/structures/superblock.hpp"
#include "recover/candidates.hpp"
#include "recover/chunk_frames.hpp"
#include "recover/completion.hpp"
#include "recover/contents.hpp"
#include "recover/described_by_tree.hpp"
#include "recover/layout.hpp"
#include "recover/ledger_rows.hpp"
#include "recover/members.hpp"
#include "recover/proof.hpp"
#include "recover/structure.hpp"
#include "recover/values/frame_axes.hpp"
#include "recover/values/frame_values.hpp"
#include "store/file_start.hpp"
#include "store/members/member_names.hpp"
#include "store/recovery/journal.hpp"
#include "store/recovery/journal_place.hpp"
#include "store/recovery/own_superblock.hpp"
#include "store/recovery/replacement.hpp"

namespace penstock::recover {
namespace {

/// Of the states of frames in a file: all of it came.
bool was_received(std::byte state) {
  constexpr auto received = std::byte{1}, lost = std::byte{4};
  return state == received || state == lost;
}

/// Frames whose values count: also of those whose pixels are lost.
std::vector<std::uint64_t> begun_or_damaged(const Frames& frames) {
  std::vector<std::uint64_t> numbers;
  std::set_union(frames.begun.begin(), frames.begun.end(), frames.damaged.begin(), frames.damaged.end(),
                 std::back_inserter(numbers));
  return numbers;
}

using check::Level;
using check::state_path;
using store::PlacedChunk;

constexpr const char* series_path = "/entry/penstock/series_unique_id";
constexpr std::size_t chunks_a_batch = 4096;
constexpr auto received = std::byte{1};
/// Of a file that is cut off: marked as lost if no state of them is left.
constexpr std::uint64_t unknown_frames_max = std::uint64_t{1} << 30;
/// Of the end of a file; more is taken for a damaged superblock.
constexpr std::uint64_t lost_bytes_max = std::uint64_t{1} << 30;
constexpr std::uint64_t extent_bytes = 1 << 20;
/// Of a column: places of 120 million frames.
constexpr std::uint64_t values_bytes_max = 960'000'000;

/// How the file was left.
struct Left {
  std::uint64_t file_bytes = 0;
  std::uint64_t used_bytes = 0;  ///< as the superblock says; a loss of power may have taken the end of the file
  std::uint64_t kept_bytes = 0;  ///< its length without what a recovery adds
  bool is_untouched = false;     ///< a recovery changed nothing of it yet
  bool marked_open = false;
  bool cut_off = false;              ///< it is finished, and its end is gone
  check::FoundMembers members = {};  ///< of a master
};

/// What segments say of frames, for the columns.
struct RowsOfSegments {
  std::vector<ReceivedTime> times;   ///< of the first dataset's chosen chunks
  std::vector<ValuesSource> values;  ///< of members
};

/// A loss of power while the file was closed may have spared what says that it is complete, and not the states. Frames
/// whose source file was missing in the last recovery are lost by their states, and come back with it.
bool states_are_behind(const check::Tree& tree, const Frames& frames, bool may_come_back) {
  const auto there = states_of(tree);
  if (tree.find(state_path) == nullptr) return false;
  constexpr auto missing = std::byte{0}, lost = std::byte{4}, partial = std::byte{5};
  return std::any_of(frames.whole.begin(), frames.whole.end(), [&](auto frame) {
    return frame >= there.size() || there[frame] == missing || there[frame] == partial ||
           (may_come_back && there[frame] == lost);
  });
}

/// New structures come over the old ones. No superblock may say meanwhile that the file is closed, and no batch of
/// before may be applied to them: so the journal goes first.
Result<void> take_structures_away(File& file, std::uint64_t front) {
  const std::vector<std::byte> zeros(std::min(front, store::journal_end) - store::journal_address);
  if (!zeros.empty()) PEN_TRY(write_at(file, zeros, store::journal_address));
  std::vector<std::byte> page(page_bytes);
  std::memcpy(page.data(), check::unfinished_rebuild.data(), check::unfinished_rebuild.size());
  return write_at(file, page, 0);
}

/// What was written so far lies behind the end of what was there.
Result<void> leave(File& file, const Left& left, const std::string& path, const Error& why) {
  if (!left.is_untouched)
    return make_error(Errc::no_space,
                      "{}: its index did not fit on the storage ({}): readers fail on it until a recovery completes it",
                      path, why.message());
  PEN_TRY(file.truncate(left.kept_bytes));
  return make_error(Errc::no_space,
                    "{}: what completes its index did not fit on the storage ({}); the file is as readable as before",
                    path, why.message());
}

/// Of the last one, if it is behind what HDF5 says is the end: a seal in front of that was written over through HDF5.
/// Bytes without the header of a seal were never a seal: an earlier use of the space has left them there.
Result<store::LeftOfSeal> left_of_seal(File& file, const Segments& segments) {
  PEN_ASSIGN(const auto superblock, store::read_own_superblock(file));
  const store::format::SegmentHeader* last = nullptr;
  for (const auto& seal : segments.seals)
    if (last == nullptr || seal.address > last->address) last = &seal;
  if (!superblock || last == nullptr || last->address < superblock->end_of_file) return store::LeftOfSeal{};
  return store::compare_with_left_seal(file, *last);
}

void report_cut_off(const Left& left, const std::string& path, check::Findings& findings) {
  if (!left.cut_off) return;
  findings.add({Level::error, "the file is shorter than it says", path, fmt::format("{} bytes", left.used_bytes),
                fmt::format("{} bytes", left.file_bytes), "what is cut off is lost: restore it from another copy"});
}

class Recovery {
 public:
  Recovery(Env& env, const RecoverPlan& plan, const check::Progress::Tell& tell, const std::function<bool()>& cancelled)
      : env_(env), plan_(plan), tell_(tell), progress_(tell), cancelled_(cancelled) {}

  Result<RecoverReport> run() {
    const auto started = monotonic_ns();
    PEN_TRY(open());
    PEN_TRY(begin_index());
    PEN_TRY(read_segments_of_file());
    PEN_TRY(read_index());
    if (master_ != nullptr) PEN_TRY(check_member());
    if (plan_.series) PEN_TRY(check_series());
    if (report_.way == Way::rebuild) PEN_TRY(can_be_rebuilt(segments_), "{}", plan_.file);
    chunk_frames_.learn(segments_, tree_, indexed_, states_of(tree_));
    PEN_TRY(segments_.description.members ? choose_members() : choose_chunks());
    judge_frames();
    if (const auto& members = segments_.description.members)
      check::find_absent_ranks(plan_.file, tree_, *members, begun_or_damaged(frames_), left_.members, findings_);
    // Of a source file that cannot be recovered the first file still says that its frames were received.
    const bool marks_lost = plan_.salvage && newly_lost(frames_, before_.states) > 0;
    if (report_.way == Way::nothing && (states_are_behind(tree_, frames_, segments_.description.members.has_value()) ||
                                        !changes_.empty() || marks_lost))
      report_.way = Way::repair;
    PEN_TRY(look_for_seal());
    if (plan_.series) PEN_TRY(describe_contents());
    count_missing_by_state();
    report_lost();
    if (report_.way != Way::nothing && !plan_.dry_run) PEN_TRY(write_or_begin_anew());
    remove_left_members();
    report_.findings = findings_.list();
    report_.seconds = static_cast<double>(monotonic_ns() - started) * 1e-9;
    return std::move(report_);
  }

  /// Before run(): the file has the name of a member of that one's.
  void set_master(const Recovery& master) { master_ = &master; }
  /// After run(): what the master of this member has to know.
  MemberContent content() const;

 private:
  Result<void> open();
  Result<void> require_unused() const;
  bool remove_left(const std::string& path) const;
  void remove_left_members() const;
  Result<void> choose_members();
  Result<void> begin_index();
  Result<void> read_segments_of_file();
  Result<void> read_index();
  Result<void> check_member() const;
  Result<void> check_series() const;
  Result<void> describe_contents();
  Result<void> choose_chunks();
  Result<std::vector<Proof>> prove_what_lacks();
  void choose_among(std::span<const Candidate> same, std::span<const Proof> proofs);
  void note_times(const Candidate& candidate);
  bool was_on_its_way(const Candidate& candidate, Proof proof) const;
  void report_left_out(const Candidate& candidate, Proof proof);
  void judge_frames();
  void assume_states(std::uint64_t seen_end);
  std::uint64_t frames_cut_off() const;
  void count_missing_by_state();
  void report_lost();
  bool has_object(const std::string& path) const;
  ChunkFrames::Found frames_of(std::uint16_t dataset) const;
  void begin_anew(const std::string& why);
  Result<void> write_or_begin_anew();
  Result<void> look_for_seal();
  Result<void> begin_writing();
  Result<void> write();
  Result<std::uint64_t> rebuild();
  Result<std::uint64_t> repair();
  Result<std::uint64_t> write_index(store::Space& space);
  Result<void> close(std::uint64_t end);
  Result<void> complete(store::hdf5::IndexFile& index, store::Space& space);
  Result<void> write_seal_alone();
  Result<std::unique_ptr<store::hdf5::IndexFile>> open_index(store::Space& space);

  Env& env_;
  const RecoverPlan& plan_;
  const Recovery* master_ = nullptr;  ///< of a member
  const check::Progress::Tell& tell_;
  check::Progress progress_;
  const std::function<bool()>& cancelled_;
  check::Findings findings_;
  RecoverReport report_;

  std::shared_ptr<File> file_;
  std::shared_ptr<File> written_file_;  ///< file_ without the journal's changes
  std::vector<store::Change> changes_;  ///< that the file may lack
  std::string journal_damage_;          ///< why they are not known
  Left left_;
  bool index_is_damaged_ = false;
  std::optional<check::TreeReading> reading_;  ///< until the tree is there
  Segments segments_;
  store::FileLayout layout_;  ///< of structures that are made anew
  check::Tree tree_;
  FramesBefore before_;
  std::vector<std::unique_ptr<check::IndexTable>> indexed_;  ///< by dataset; empty in a rebuild
  std::vector<PlacedChunk> chosen_;                          ///< to be entered, by dataset and index
  RowsOfSegments rows_;
  ChunkFrames chunk_frames_;
  Frames frames_;
  std::uint64_t frames_end_ = 0;  ///< one past the highest number of which a chunk, a record or a column says something
};

/// A recorder that makes a file at this moment may have what has its hidden name, if nothing shows that.
bool Recovery::remove_left(const std::string& path) const {
  const bool may_be_made = !plan_.not_in_use && !plan_.series;
  return !plan_.dry_run && store::remove_left_replacement(
                               env_, path, may_be_made ? store::WithoutLocks::keep : store::WithoutLocks::remove);
}

/// Holds the lock that a recorder and HDF5's readers want until it is done.
Result<void> Recovery::open() {
  auto opened = env_.open(plan_.file, {.mode = plan_.dry_run ? OpenOptions::Mode::read : OpenOptions::Mode::update});
  if (!opened.ok() && opened.error().code() == Errc::not_found && remove_left(plan_.file))
    return make_error(Errc::not_found,
                      "{} does not exist: its recorder died before the file was complete, and it had no frame; what it "
                      "left, {}, is removed",
                      plan_.file, store::replacement_path(plan_.file));
  PEN_ASSIGN(file_, std::move(opened));
  PEN_TRY(lock_when_free(*file_));
  PEN_TRY(require_unused());
  (void)remove_left(plan_.file);
  // Until something is written the file stays as it is, and is read as its journal completes it.
  PEN_ASSIGN(auto left, store::unfinished_changes(*file_));
  changes_ = std::move(left.changes);
  journal_damage_ = std::move(left.damage);
  written_file_ = file_;
  file_ = store::with_changes(file_, changes_);
  PEN_ASSIGN(left_.file_bytes, file_->size());
  PEN_ASSIGN(const auto superblock, check::read_superblock(*file_));
  left_.marked_open = superblock && superblock->open_for_writing;
  left_.used_bytes = left_.file_bytes;
  if (superblock && superblock->end_of_file != ~std::uint64_t{0})
    left_.used_bytes = std::max(left_.used_bytes, superblock->end_of_file);
  // Until the journal is cleared its recorder was not done.
  left_.cut_off = left_.used_bytes > left_.file_bytes && !left_.marked_open && changes_.empty();
  if (left_.cut_off && !plan_.salvage)
    return make_error(Errc::truncated,
                      "{} is truncated: it has {} of {} bytes; copy it again from its source, or, if it is the only "
                      "copy, mark what is cut off as lost with `penstock recover --salvage`",
                      plan_.file, left_.file_bytes, left_.used_bytes);
  return {};
}

/// Without locks only the user knows whether the file is in use. A recorder that starts in a directory without locks
/// warns that no second one may record there. One that makes a file has not marked it yet.
Result<void> Recovery::require_unused() const {
  if (plan_.dry_run || plan_.not_in_use || plan_.series) return {};
  PEN_ASSIGN(const bool in_use, store::may_be_in_use(*file_));
  const bool may_be_made = !file_->locks() && store::path_of_replacement(plan_.file);
  if (!in_use && !may_be_made) return {};
  return make_error(Errc::locked,
                    "{} may be recorded at this moment: it is not closed, and its file system has no locks that would "
                    "show it. If no recorder has it open, on any machine, repeat with `penstock recover --not-in-use`",
                    plan_.file);
}

/// HDF5's index is read while the segments are looked for.
Result<void> Recovery::begin_index() {
  if (plan_.rebuild) return {};
  check::IndexProcessOptions options;
  options.cancelled = cancelled_;
  options.stall = std::chrono::milliseconds(static_cast<std::int64_t>(plan_.index_timeout_s * 1000));
  options.read.index_blocks = true;
  options.read.left = true;
  options.read.small_value_bytes = store::format::large_value_bytes;
  options.read.value_bytes_max = values_bytes_max;
  options.read.wants_value = [](const store::DatasetInfo& info) {
    const auto is_at = [&](const char* path) {
      return std::find(info.paths.begin(), info.paths.end(), path) != info.paths.end();
    };
    return is_at(state_path) || is_at(received_path) || is_at(check::places_path) || is_at(check::member_names_path);
  };
  PEN_ASSIGN(reading_, check::TreeReading::begin(env_, plan_.file, std::move(options)));
  return {};
}

Result<void> Recovery::read_segments_of_file() {
  progress_.start("looking for segments", left_.file_bytes);
  std::uint64_t told = 0;
  PEN_ASSIGN(segments_, read_segments(*file_, findings_, cancelled_, [&](std::uint64_t position) {
               progress_.advance(position - std::min(told, position));
               told = position;
             }));
  report_.segments = segments_.of_chunks;
  if (segments_.no_description) return {};
  if (!journal_damage_.empty() && segments_.description.sealed)
    findings_.add({Level::warning,
                   "the journal of HDF5's structures cannot be used",
                   plan_.file,
                   {},
                   journal_damage_,
                   "their last changes may be incomplete; they are rebuilt if necessary"});
  if (segments_.description.datasets.empty())
    return make_error(Errc::malformed, "{}: its description names no dataset", plan_.file);
  return {};
}

Result<void> Recovery::read_index() {
  if (left_.cut_off && segments_.no_description)
    return make_error(Errc::truncated,
                      "{} has only {} of {} bytes left, and no complete description in them: nothing can be recovered; "
                      "copy it again from its source",
                      plan_.file, left_.file_bytes, left_.used_bytes);
  if (plan_.rebuild && segments_.no_description)
    return segments_.no_description->with_context(
        "no complete copy of the description, from which structures are rebuilt");
  if (plan_.rebuild) {
    report_cut_off(left_, plan_.file, findings_);
    begin_anew("a rebuild was requested");
    return {};
  }
  progress_.start("reading the index", 0);
  auto tree = reading_->finish();
  reading_.reset();
  if (!tree.ok()) return std::move(tree).error();
  tree_ = std::move(*tree);
  if (left_.cut_off) {
    report_cut_off(left_, plan_.file, findings_);
    begin_anew("its end is cut off");
    return {};
  }
  if (tree_.undecided) return undecided(tree_, plan_.file);
  if (segments_.no_description) PEN_TRY(describe_by_tree(*file_, tree_, segments_, findings_), "{}", plan_.file);
  const auto beyond = beyond_end(tree_, left_.file_bytes);
  // HDF5 wants as many bytes as its superblock says, though nothing that it needs is in those that are gone.
  if (beyond.empty() && left_.used_bytes - left_.file_bytes <= lost_bytes_max && is_usable(tree_, segments_)) {
    before_ = frames_before(tree_, segments_.description, left_.file_bytes);
    report_damaged_id(tree_, segments_, findings_);
    if (!left_.marked_open && changes_.empty()) report_removed_mark(tree_, segments_, plan_.file, findings_);
    if (segments_.description.members) return {};
    for (const auto& node : segments_.description.datasets)
      indexed_.push_back(std::make_unique<check::IndexTable>(tree_.find(node.path)->chunks));
    return {};
  }
  const auto& parts = tree_.unreadable;
  auto why = tree_.failure;
  if (why.empty() && !parts.empty()) why = parts.front().path + ": " + parts.front().why;
  if (why.empty()) why = beyond;
  if (const auto missing = missing_part(tree_, segments_); why.empty() && !missing.empty()) {
    // A program that changes a finished file and dies leaves it marked as open.
    const bool is_finished = changes_.empty() && (!left_.marked_open || has_final_counts(tree_));
    const bool is_asked_for = master_ != nullptr && master_->plan_.rebuild;
    if (is_finished && !is_asked_for) return changed_by_another(missing, plan_.file);
    why = fmt::format("{} is missing, or differs from its description", missing);
  }
  if (why.empty()) why = fmt::format("its superblock names {} of {} bytes", left_.used_bytes, left_.file_bytes);
  if (names_chunks_beyond_end(tree_, left_.file_bytes))
    findings_.add({Level::error,
                   "the file ends before chunks that its index names",
                   plan_.file,
                   {},
                   fmt::format("a file of {} bytes", left_.file_bytes),
                   "copy it again from its source; otherwise their frames are lost"});
  begin_anew(why);
  return {};
}

void Recovery::begin_anew(const std::string& why) {
  report_.way = Way::rebuild;
  before_ = frames_before(tree_, segments_.description, left_.file_bytes);
  findings_.add({Level::warning,
                 plan_.rebuild ? "HDF5's structures are rebuilt" : "HDF5's structures are unusable",
                 plan_.file,
                 {},
                 why,
                 "they are rebuilt from the description and the segments; what other programs added is lost"});
  tree_ = {};
  layout_ = rebuilt_layout(*file_, segments_, master_ == nullptr ? nullptr : &master_->segments_, findings_);
}

/// A file may only have the name of a member. Before anything is written.
Result<void> Recovery::check_member() const {
  const auto& own = segments_.description;
  const auto& masters = master_->segments_.description;
  if (own.members)
    return make_error(Errc::mismatch, "it has files with frames itself, which a file with frames cannot have");
  const auto name = std::filesystem::path(master_->plan_.file).filename().string();
  const auto number = store::member_number(std::filesystem::path(plan_.file).filename().string(), *masters.members);
  if (own.member && own.member->number != number)
    return make_error(Errc::mismatch, "it says that it is file {} of {}, not file {}", own.member->number,
                      own.member->master, number.value_or(0));
  // A master whose structures tell the series is compared by that: it may have been renamed.
  if (master_->tree_.datasets.empty() && own.member && own.member->master != name)
    return make_error(Errc::mismatch, "it says that it is a part of {}", own.member->master);
  const auto is_same = [](const store::ChunkedNode& a, const store::ChunkedNode& b) {
    return a.path == b.path && a.type == b.type && a.frame_shape == b.frame_shape;
  };
  if (!std::equal(own.datasets.begin(), own.datasets.end(), masters.datasets.begin(), masters.datasets.end(), is_same))
    return make_error(Errc::mismatch, "its datasets of frames differ from those of {}", master_->plan_.file);
  check::Findings differences;
  check::compare_series(master_->tree_, tree_, plan_.file, differences);
  if (const auto list = differences.list(); !list.empty())
    return make_error(Errc::mismatch, "it belongs to the series {}, {} of {}", list.front().actual, master_->plan_.file,
                      list.front().expected);
  return {};
}

/// Before anything is written.
Result<void> Recovery::check_series() const {
  const auto because = [&] {
    for (const auto& finding : findings_.list())
      if (finding.level == Level::warning) return finding.actual;
    return std::string();
  };
  // One that was left before HDF5's structures were in it holds nothing: its recorder begins it anew.
  const bool holds_nothing = segments_.candidates.empty() && !findings_.any_error();
  if (report_.way == Way::rebuild && !holds_nothing)
    return make_error(Errc::corrupt,
                      "{}: HDF5's structures are unusable ({}), so nothing is added; `penstock recover` rebuilds them "
                      "from the segments",
                      plan_.file, because());
  const auto* node = tree_.find(series_path);
  const auto* name = node != nullptr && node->value ? std::get_if<std::string>(&*node->value)
                                                    : described_text(segments_.description, series_path);
  if (name == nullptr || *name != plan_.series->unique_id)
    return make_error(Errc::mismatch, "{} holds the series \"{}\", not \"{}\"", plan_.file,
                      name == nullptr ? "" : *name, plan_.series->unique_id);
  return {};
}

Result<void> Recovery::describe_contents() {
  if (report_.way == Way::nothing && !plan_.series->finished)
    return make_error(Errc::already_exists, "{} holds this series and is complete", plan_.file);
  auto contents = contents_of(frames_.whole, states_of(tree_));
  for (std::size_t i = 0; i < segments_.description.datasets.size(); ++i)
    contents.datasets.push_back(runs_of(frames_of(static_cast<std::uint16_t>(i)).whole));
  for (const auto& table : indexed_)
    for (const auto& chunk : table->chunks()) contents.stored_bytes += chunk.size;
  for (const auto& chunk : chosen_) contents.stored_bytes += chunk.size;
  contents.last_sequence = segments_.last_sequence;
  contents.last_received_ns = last_received_ns(tree_, rows_.times);
  report_.contents = std::move(contents);
  return {};
}

Result<std::vector<Proof>> Recovery::prove_what_lacks() {
  const auto& all = segments_.candidates;
  std::vector<std::size_t> wanted;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!indexed_.empty() && indexed_[all[i].dataset]->find(all[i].index) != nullptr) continue;
    wanted.push_back(i);
    bytes += all[i].size;
  }
  progress_.start("verifying frames that the index lacks", bytes);
  ProofOptions options;
  options.cancelled = cancelled_;
  options.advance = [this](std::uint64_t by) { progress_.advance(by); };
  return prove(*file_, all, std::move(wanted), options);
}

/// Of each chunk's candidates the first whose bytes are right, where the index has none.
Result<void> Recovery::choose_chunks() {
  const auto& all = segments_.candidates;
  PEN_ASSIGN(const auto proofs, prove_what_lacks());
  for (std::size_t first = 0, last = 0; first < all.size(); first = last) {
    while (last < all.size() && all[last].dataset == all[first].dataset && all[last].index == all[first].index) ++last;
    choose_among(std::span(all).subspan(first, last - first), std::span(proofs).subspan(first, last - first));
  }
  report_.recovered = chosen_.size();
  for (const auto& table : indexed_) report_.indexed += table->chunks().size();
  const bool behind = !chosen_.empty() || left_.marked_open || !was_completed(tree_) || segments_.no_description;
  if (report_.way == Way::nothing && behind) report_.way = Way::repair;
  return {};
}

/// Its recorder died while it wrote it, and never acknowledged it. Its frame is missing, as those are that the recorder
/// had not begun to write. A frame that the file calls received or lost was written, and so was one that an incomplete
/// copy cut.
bool Recovery::was_on_its_way(const Candidate& candidate, Proof proof) const {
  if (proof != Proof::cut_short || left_.cut_off || is_cut_off(segments_, candidate, left_.file_bytes)) return false;
  const auto frame = ChunkFrames::first_of(segments_, candidate);
  return frame >= before_.states.size() || !was_received(before_.states[frame]);
}

void Recovery::report_left_out(const Candidate& candidate, Proof proof) {
  const bool on_its_way = was_on_its_way(candidate, proof);
  const bool read = proof != Proof::unreadable;
  ++report_.damaged;
  const bool cut_off =
      proof == Proof::cut_short && (left_.cut_off || is_cut_off(segments_, candidate, left_.file_bytes));
  const auto* remedy = on_its_way ? "it was not completely written; it is left out"
                       : cut_off
                           ? "the file ends within it, or before it: copy it again from its source; otherwise its "
                             "frame is lost"
                       : read ? "its bytes changed after they were written; its frame is lost"
                              : "it is left out; a later recovery tries again";
  findings_.add({on_its_way ? Level::warning : Level::error, read ? "a chunk is corrupt" : "a chunk cannot be read",
                 fmt::format("{} frame {} at offset {}", segments_.description.datasets[candidate.dataset].path,
                             ChunkFrames::first_of(segments_, candidate), candidate.address),
                 "the checksum of its record", read ? "another" : "the storage gives an error", remedy});
}

void Recovery::choose_among(std::span<const Candidate> same, std::span<const Proof> proofs) {
  const auto& first = same.front();
  if (proofs.front() == Proof::not_asked) {  // the index has it
    if (master_ != nullptr) note_times(first);
    return;
  }
  bool is_lost = false;
  for (std::size_t i = 0; i < same.size(); ++i) {
    const auto& candidate = same[i];
    if (proofs[i] != Proof::whole) {
      report_left_out(candidate, proofs[i]);
      is_lost = is_lost || !was_on_its_way(candidate, proofs[i]);
      continue;
    }
    PlacedChunk chunk;
    chunk.head.dataset = store::DatasetId{candidate.dataset};
    chunk.head.index = candidate.index;
    chunk.head.filter_mask = candidate.filter_mask;
    chunk.address = candidate.address;
    chunk.size = candidate.size;
    chunk.crc = candidate.crc;
    chunk.head.frame = candidate.frame;
    chosen_.push_back(chunk);
    chunk_frames_.choose(candidate);
    note_times(candidate);
    return;
  }
  if (!is_lost) return;
  chunk_frames_.choose(first);
  for (const auto frame : chunk_frames_.in(first.dataset, first.index)) frames_.damaged.push_back(frame);
}

/// Also of what a member's index has: the column of times is the master's, which may have less.
void Recovery::note_times(const Candidate& candidate) {
  if (candidate.dataset != 0) return;
  const auto frames = chunk_frames_.in(candidate.dataset, candidate.index);
  if (frames.empty() || (!rows_.times.empty() && rows_.times.back().frame == frames.back())) return;
  for (const auto frame : frames) rows_.times.push_back({frame, candidate.received_ns});
}

/// A master's chunks lie in its members, each of which is recovered first. The master's virtual datasets are made again
/// where it was not completed, or a member has become more than it says.
Result<void> Recovery::choose_members() {
  const auto recover_one = [&](const std::string& path) -> Result<MemberContent> {
    auto plan = plan_;
    plan.file = path;
    plan.series.reset();
    plan.rebuild = false;  // of the master, and of members that need it
    Recovery one(env_, plan, tell_, cancelled_);
    one.set_master(*this);
    PEN_ASSIGN(auto report, one.run());
    auto content = one.content();
    content.report = std::move(report);
    return content;
  };
  PEN_ASSIGN(auto all,
             recover_members(env_, plan_.file, tree_, *segments_.description.members, findings_, report_, recover_one));
  chosen_ = std::move(all.chunks);
  rows_.times = std::move(all.times);
  rows_.values = std::move(all.values);
  frames_.damaged = std::move(all.damaged);
  left_.members = std::move(all.found);
  // What somebody took away from a complete one may come back: then it must still be named.
  const bool all_there = !findings_.any(check::member_is_gone);
  const bool behind = left_.marked_open || !was_completed(tree_) || (all.written && all_there);
  if (report_.way == Way::nothing && behind) report_.way = Way::repair;
  return {};
}

MemberContent Recovery::content() const {
  MemberContent content;
  for (std::size_t i = 0; i < segments_.description.datasets.size(); ++i)
    content.rows.push_back(frames_of(static_cast<std::uint16_t>(i)).whole);
  content.times = rows_.times;
  content.damaged = frames_.damaged;
  content.values = {plan_.file, segments_.of_values};
  return content;
}

/// Of the chunks that the index had, or has now.
ChunkFrames::Found Recovery::frames_of(std::uint16_t dataset) const {
  std::vector<std::uint64_t> chunks;
  if (!indexed_.empty())
    for (const auto& chunk : indexed_[dataset]->chunks()) chunks.push_back(chunk.number);
  for (const auto& chunk : chosen_)
    if (chunk.head.dataset == store::DatasetId{dataset}) chunks.push_back(chunk.head.index);
  std::sort(chunks.begin(), chunks.end());
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  return chunk_frames_.among(dataset, chunks);
}

void Recovery::judge_frames() {
  const auto& datasets = segments_.description.datasets;
  auto& whole = frames_.whole;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    auto [frames, partial] = frames_of(static_cast<std::uint16_t>(i));
    for (const auto* numbers : {&frames, &partial})
      if (!numbers->empty()) frames_end_ = std::max(frames_end_, numbers->back() + 1);
    for (const auto* numbers : {&frames, &partial})
      frames_.begun.insert(frames_.begun.end(), numbers->begin(), numbers->end());
    report_.frames = std::max(report_.frames, datasets[i].frames_max);
    if (i == 0) {
      whole = frames;
      continue;
    }
    std::vector<std::uint64_t> both;
    std::set_intersection(whole.begin(), whole.end(), frames.begin(), frames.end(), std::back_inserter(both));
    whole = std::move(both);
  }
  for (auto* numbers : {&frames_.damaged, &frames_.begun}) {
    std::sort(numbers->begin(), numbers->end());
    numbers->erase(std::unique(numbers->begin(), numbers->end()), numbers->end());
  }
  if (!frames_.damaged.empty()) frames_end_ = std::max(frames_end_, frames_.damaged.back() + 1);
  const auto seen_end = frames_end_;
  // The datasets and the columns end with the same frame: the last of which anything says something.
  frames_end_ = std::max(frames_end_, before_.count);
  report_.frames = std::max(report_.frames, frames_end_);
  if (left_.cut_off && before_.states.empty()) assume_states(seen_end);
  std::sort(rows_.times.begin(), rows_.times.end(), [](const auto& a, const auto& b) { return a.frame < b.frame; });
  report_.missing = report_.frames - std::min<std::uint64_t>(report_.frames, whole.size());
}

/// As the file will have them, in which the states stay if nothing but a seal is written.
void Recovery::count_missing_by_state() {
  const bool states_stay = report_.way == Way::nothing || report_.way == Way::seal;
  const auto counts = count_states(frames_, states_stay ? Bytes() : Bytes(before_.states), states_of(tree_));
  report_.damaged_frames = counts.damaged;
  report_.dropped_frames = counts.dropped;
  report_.lost_frames = counts.lost;
  report_.partial = counts.partial;
}

/// Where no state is left: frames without all of their data count as received, the first of them, as many as may be in
/// what is cut off. Of those from `seen_end` on the file has nothing.
void Recovery::assume_states(std::uint64_t seen_end) {
  const auto end = std::min(report_.frames, unknown_frames_max);
  auto left = frames_cut_off();
  auto& states = before_.states;
  auto whole = frames_.whole.begin(), damaged = frames_.damaged.begin();
  const auto is_next = [](auto& at, auto last, std::uint64_t frame) {
    while (at != last && *at < frame) ++at;
    return at != last && *at == frame;
  };
  for (std::uint64_t frame = 0; frame < end && (frame < seen_end || left > 0); ++frame) {
    const bool is_known = is_next(whole, frames_.whole.end(), frame) || is_next(damaged, frames_.damaged.end(), frame);
    states.push_back(is_known || left > 0 ? received : std::byte{0});
    if (!is_known && left > 0) --left;
  }
  before_.assumed = true;
}

/// Frames in the bytes that are cut off, at most, if none takes less than the smallest that is in the file.
std::uint64_t Recovery::frames_cut_off() const {
  const auto& datasets = segments_.description.datasets;
  std::vector<std::uint64_t> smallest;
  smallest.reserve(datasets.size());
  for (const auto& node : datasets) smallest.push_back(node.filters.empty() ? node.raw_bytes() : 0);
  for (const auto& candidate : segments_.candidates) {
    auto& bytes = smallest[candidate.dataset];
    if (bytes == 0 || candidate.size < bytes) bytes = candidate.size;
  }
  std::uint64_t block_bytes = 0;
  for (std::size_t i = 0; i < datasets.size(); ++i)
    block_bytes += datasets[i].chunks_a_frame() * (smallest[i] + store::format::record_size_bytes);
  return ((left_.used_bytes - left_.file_bytes) / block_bytes + 1) * datasets.front().frames_a_chunk();
}

/// A frame that was received is lost if neither the index nor a segment has it. Damaged chunks are findings themselves.
/// A recorder that goes on in the file wants to know only what it did not report itself.
void Recovery::report_lost() {
  if (master_ != nullptr) return;
  const auto& whole = frames_.whole;
  const auto is_missing = [&](auto frame) { return !std::binary_search(whole.begin(), whole.end(), frame); };
  const auto damaged = std::count_if(frames_.damaged.begin(), frames_.damaged.end(), is_missing);
  const auto lost = plan_.series ? newly_lost(frames_, before_.states) : report_.lost_frames;
  if (lost <= static_cast<std::uint64_t>(damaged)) return;
  findings_.add(
      {Level::error,
       "frames are lost",
       plan_.file,
       {},
       fmt::format("{}: {}",
                   before_.assumed ? "lost or never came (the file was cut off)" : "received, and not in the file",
                   report_.lost_frames),
       "they read as the fill value: restore them from another copy"});
}

/// In the file as it will be.
bool Recovery::has_object(const std::string& path) const {
  const auto is_among = [&](const auto& nodes) {
    return std::any_of(nodes.begin(), nodes.end(), [&](const auto& node) { return node.path == path; });
  };
  if (report_.way != Way::rebuild) return tree_.find(path) != nullptr || is_among(tree_.groups);
  return is_among(layout_.groups) || is_among(layout_.values) || is_among(layout_.columns) ||
         is_among(layout_.chunked) || (layout_.subsets && is_among(layout_.subsets->datasets));
}

Result<std::unique_ptr<store::hdf5::IndexFile>> Recovery::open_index(store::Space& space) {
  if (report_.way == Way::rebuild) return store::hdf5::IndexFile::create(file_, space, layout_, segments_.file_id);
  return store::hdf5::IndexFile::open_to_complete(file_, space, master_layout(tree_, segments_.description), [this] {
    left_.is_untouched = false;
    return begin_writing();
  });
}

/// Structures that were never read before may turn out to be damaged when they are added to.
Result<void> Recovery::write_or_begin_anew() {
  if (report_.way == Way::seal) return write_seal_alone();
  auto written = write();
  const bool may_begin_anew = report_.way == Way::repair && !segments_.no_description && !plan_.series &&
                              !segments_.description.members && can_be_rebuilt(segments_).ok();
  if (written.ok() || !index_is_damaged_ || !may_begin_anew) return written;
  begin_anew(written.error().message());
  indexed_.clear();
  chosen_.clear();
  rows_.times.clear();
  frames_ = {};
  frames_end_ = 0;
  report_.frames = report_.indexed = report_.recovered = report_.damaged = 0;
  chunk_frames_.learn(segments_, tree_, indexed_, states_of(tree_));
  PEN_TRY(choose_chunks());
  judge_frames();
  count_missing_by_state();
  return write();
}

/// A recorder that goes on in the file writes the seal itself.
Result<void> Recovery::look_for_seal() {
  if (report_.way != Way::nothing || plan_.series || !segments_.description.sealed) return {};
  PEN_ASSIGN(const bool sealed, store::is_sealed(*file_, segments_.file_id));
  if (sealed) return {};
  PEN_ASSIGN(const auto left, left_of_seal(*file_, segments_));
  if (left.differ > 0)
    return make_error(
        Errc::corrupt,
        "{} changed after it was closed, and its seal is damaged or cut off: {} of the seal's {} readable "
        "checksums differ; copy it again from its source, or, if it is the only copy, rebuild what is "
        "outside its frames, as it was recorded, with `penstock recover --rebuild`",
        plan_.file, left.differ, left.agree + left.differ);
  report_.way = Way::seal;
  findings_.add({Level::warning,
                 left.agree > 0 ? "the file's seal is incomplete" : "the file has no seal",
                 plan_.file,
                 {},
                 left.agree > 0 ? fmt::format("its {} readable checksums are right", left.agree) : "",
                 "its recorder was killed while closing the file, the file is an incomplete copy, or another program "
                 "changed it later: it is sealed in its present state"});
  return {};
}

/// What vouches for the file is not right any more from here on.
Result<void> Recovery::begin_writing() {
  file_ = written_file_;
  PEN_TRY(store::remove_seals(*file_, segments_.seals));
  if (segments_.no_description) return remove_damaged_descriptions(*file_, segments_);
  return mend_descriptions(*file_, segments_);
}

Result<void> Recovery::write_seal_alone() {
  PEN_TRY(begin_writing());
  PEN_TRY(file_->sync());
  PEN_TRY(seal(*file_, segments_, std::max(left_.used_bytes, segments_.end)));
  PEN_TRY(file_->sync());
  report_.written = true;
  return file_->unlock();
}

Result<void> Recovery::write() {
  progress_.start("completing the index", chosen_.size());
  if (report_.way == Way::rebuild) {
    PEN_ASSIGN(const auto end, rebuild());
    return close(end);
  }
  PEN_ASSIGN(left_.kept_bytes, written_file_->size());
  left_.is_untouched = true;
  const auto end = repair();
  if (!end.ok() && end.error().code() == Errc::no_space) return leave(*written_file_, left_, plan_.file, end.error());
  PEN_TRY(end);
  return close(*end);
}

Result<std::uint64_t> Recovery::rebuild() {
  const auto front = segments_.first_address;
  PEN_TRY(begin_writing());
  PEN_TRY(take_structures_away(*file_, front));
  store::Space space(file_, {extent_bytes, page_bytes}, std::max(left_.file_bytes, segments_.end), front);
  return write_index(space);
}

/// The journal's changes first: the last of them, which may need space, come before all others.
Result<std::uint64_t> Recovery::repair() {
  PEN_TRY(store::make_changes(*written_file_, changes_));
  PEN_ASSIGN(left_.kept_bytes, written_file_->size());
  file_ = written_file_;
  store::Space space(file_, {extent_bytes, page_bytes}, std::max(left_.used_bytes, segments_.end), 0);
  return write_index(space);
}

/// Returns where HDF5's structures end. The index is damaged if HDF5 says so; what fails for another reason would fail
/// again.
Result<std::uint64_t> Recovery::write_index(store::Space& space) {
  auto opened = open_index(space);
  const auto outcome = opened.ok() ? complete(**opened, space) : Result<void>(opened.error());
  index_is_damaged_ = !outcome.ok() && outcome.error().code() == Errc::hdf5;
  PEN_TRY(outcome);
  opened->reset();
  PEN_ASSIGN(const auto superblock, store::read_own_superblock(*file_));
  return superblock ? superblock->end_of_file : space.end();
}

Result<void> Recovery::close(std::uint64_t end) {
  PEN_TRY(file_->truncate(end));
  PEN_TRY(file_->sync());
  if (const auto sealed = seal(*file_, segments_, end); !sealed.ok()) {
    findings_.add(
        {Level::warning, "the file gets no checksums of its structures", plan_.file, {}, sealed.error().message(), {}});
    PEN_TRY(file_->truncate(end));
  }
  PEN_TRY(file_->sync());
  report_.written = true;
  return file_->unlock();
}

/// Last, because until the master names its members they show that these have no frames.
void Recovery::remove_left_members() const {
  if (!segments_.description.members) return;
  for (const auto& path : check::begun_members(plan_.file, *segments_.description.members)) (void)remove_left(path);
}

/// Enters chunks, rows and values. If HDF5 fails, structures that it had not read before may be damaged.
Result<void> Recovery::complete(store::hdf5::IndexFile& index, store::Space& space) {
  PEN_TRY(index.start(true));
  if (segments_.no_description)
    PEN_TRY(store::write_description_again(*file_, space, segments_.file_id, layout_of(segments_.description)));
  for (std::size_t done = 0; done < chosen_.size(); done += chunks_a_batch) {
    const auto batch = std::span(chosen_).subspan(done, std::min(chunks_a_batch, chosen_.size() - done));
    PEN_TRY(index.put_chunks(batch));
    progress_.advance(batch.size());
  }
  store::FinalValues values;
  const bool is_completed = report_.way != Way::rebuild && !left_.marked_open && was_completed(tree_);
  if (report_.way == Way::repair && !is_completed) add_missing_parts(*file_, tree_, segments_, findings_, values);
  if (const auto& members = segments_.description.members; members && !left_.members.missing.empty())
    values.values.push_back(member_names(*members, chosen_, left_.members.missing));
  values.frames = plan_.series ? frames_end_ : report_.frames;
  PEN_ASSIGN(auto counts, write_rows(index, segments_.description.columns, frames_, before_.states, states_of(tree_),
                                     rows_.times, report_.frames));
  LastKnown last{LastFrames(segments_.description.columns.size()), {}};
  if (report_.way != Way::rebuild) last.in_columns = last_received(states_of(tree_));
  const auto frames_with_values = begun_or_damaged(frames_);
  store::hdf5::FillLate fill_late;
  if (master_ == nullptr) {
    rows_.values.push_back({plan_.file, segments_.of_values});
    PEN_ASSIGN(auto written,
               write_values(env_, rows_.values, index, segments_.description.columns, frames_with_values, findings_));
    last.in_segments = std::move(written.last_frames);
    if (written.has_late)
      fill_late = [&](store::LateColumnSink& out) {
        return write_late_values(env_, rows_.values, frames_with_values, findings_, out);
      };
  }
  const auto known = check::places_of(tree_).value_or(std::vector<std::uint64_t>());
  PEN_TRY(write_places(index, segments_.description.columns, chunk_frames_.new_places(known, frames_.whole)));
  const auto is_there = [this](const std::string& path) { return has_object(path); };
  if (!is_completed) PEN_TRY(add_last_rows(index, segments_, last, frames_, is_there, findings_, values));
  if (!plan_.series) {
    std::move(counts.begin(), counts.end(), std::back_inserter(values.attributes));
    if (before_.assumed && report_.lost_frames > 0 && master_ == nullptr)
      values.attributes.emplace_back(state_path,
                                     store::Attribute{check::lost_or_never_came, store::scalar(report_.lost_frames)});
    add_end_time(tree_, segments_, rows_.times, values);
    if (master_ == nullptr && !is_completed) add_ended_by(before_.ended_by, values);
    if (master_ == nullptr)
      add_frame_axes(*file_, {tree_, segments_.description, is_completed, report_.frames, frames_end_, is_there},
                     values);
  }
  PEN_TRY(index.flush());
  return index.finish(values, fill_late);
}

}  // namespace

Result<RecoverReport> run_recover(Env& env, const RecoverPlan& plan, const check::Progress::Tell& tell,
                                  const std::function<bool()>& cancelled) {
  return Recovery(env, plan, tell, cancelled).run();
}

}  // namespace penstock::recover
