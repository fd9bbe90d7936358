#include "check/check.hpp"

#include <algorithm>
#include <filesystem>

#include "check/accounting.hpp"
#include "check/compare/reference.hpp"
#include "check/members.hpp"
#include "check/names.hpp"
#include "check/seal.hpp"
#include "check/segments.hpp"
#include "check/structures/count_frames.hpp"
#include "check/structures/index_process.hpp"
#include "check/structures/scan_places.hpp"
#include "check/structures/segment_frames.hpp"
#include "check/structures/superblock.hpp"
#include "check/subject.hpp"
#include "check/verifier.hpp"
#include "store/format/description.hpp"
#include "store/recovery/journal.hpp"

namespace penstock::check {
namespace {

using store::format::FileId;

constexpr const char* frames_path = "/entry/data/data";
constexpr std::size_t tasks_at_once = 1024;

class Check {
 public:
  Check(Env& env, const CheckPlan& plan, const Progress::Tell& tell, const std::function<bool()>& cancelled)
      : env_(env), plan_(plan), tell_(tell), progress_(tell), cancelled_(cancelled) {}

  Report run();
  /// Before run(): the file is a member, whose first frame is this one of the series.
  void set_member(std::uint64_t first_frame) {
    member_ = true;
    first_frame_ = first_frame;
  }

 private:
  void add(Level level, std::string what, Place where, std::string expected = {}, std::string actual = {},
           std::string remedy = {}) {
    findings_.add(
        {level, std::move(what), std::move(where), std::move(expected), std::move(actual), std::move(remedy)});
  }

  Result<void> open();
  void look_at_superblock();
  std::optional<std::uint64_t> structures_end() const;
  void report_unfinished();
  Result<void> read_index();
  std::optional<FileId> find_file_id();
  void make_subjects();
  void find_reference();
  void report_not_compared(const Error& why);
  Subject* choose_compared();
  void verify();
  void verify_members();
  CheckPlan plan_of_members();
  void take_over(const MemberFile& member, const Check& check, const Report& report);
  void verify_without_records(Verifier& verifier);
  std::vector<ChunkTask> tasks_without_records();
  static Place where(const ChunkTask& task);
  void report_overlaps(const std::vector<ChunkTask>& tasks);
  void account();
  void find_recoverable();
  void take(const FrameCounts& counts);
  void count(const Verifier& verifier);

  Env& env_;
  const CheckPlan& plan_;
  const Progress::Tell& tell_;
  Progress progress_;
  const std::function<bool()>& cancelled_;
  Findings findings_;
  Report report_;

  std::shared_ptr<File> file_;
  std::uint64_t file_bytes_ = 0;
  bool left_ = false;  ///< its recorder, or its recovery, died with changes in its journal
  std::optional<Superblock> superblock_;
  Tree tree_;
  std::vector<std::unique_ptr<Subject>> subjects_;
  std::unique_ptr<Reference> reference_;
  SeriesState series_;
  SegmentFrames held_;
  bool member_ = false;
  std::string stopped_in_;  ///< the member in which the check was stopped
  std::uint64_t first_frame_ = 0;
  FoundSegments segments_;
  std::optional<MemberFrames> member_frames_;  ///< of a master file
};

Report Check::run() {
  const auto start = monotonic_ns();
  bool whole = true;
  if (const auto opened = open(); !opened.ok()) {
    add(Level::error, "the file cannot be read", plan_.file, {}, opened.error().message());
  } else {
    look_at_superblock();
    if (const auto read = read_index(); !read.ok()) {
      whole = false;
    } else {
      make_subjects();
      if (plan_.against && !is_master(tree_)) find_reference();
      verify();
      if (segments_.description && !cancelled_())
        verify_outside_chunks({*file_, file_bytes_, structures_end(), plan_.file, tree_, *segments_.description,
                               segments_.seal, series_.unfinished, series_.truncated},
                              findings_, progress_, cancelled_);
      verify_members();
      account();
    }
  }
  report_.complete = whole && stopped_in_.empty() && !cancelled_();
  if (!report_.complete && stopped_in_.empty()) report_.reached = progress_.state();
  if (!stopped_in_.empty()) report_.reached.what = fmt::format("{}: {}", stopped_in_, report_.reached.what);
  report_.findings = findings_.list();
  if (series_.unfinished && !report_.being_recorded()) report_unfinished();
  report_.seconds = static_cast<double>(monotonic_ns() - start) * 1e-9;
  return std::move(report_);
}

Result<void> Check::open() {
  std::error_code error;
  const auto status = std::filesystem::status(plan_.file, error);
  if (error && error != std::errc::no_such_file_or_directory)
    return errno_error(error.value(), fmt::format("look at {}", plan_.file));
  if (!std::filesystem::exists(status)) return make_error(Errc::not_found, "{} does not exist", plan_.file);
  // Opening a pipe would wait for somebody to write into it.
  if (!std::filesystem::is_regular_file(status))
    return make_error(Errc::invalid_argument, "{} is not a regular file", plan_.file);
  PEN_ASSIGN(file_, env_.open(plan_.file, {}));
  PEN_ASSIGN(auto left, store::unfinished_changes(*file_));
  auto& changes = left.changes;
  // A recorder that has the file open makes them itself.
  const auto unlocked = require_unlocked(*file_);
  series_.locked = !unlocked.ok() && unlocked.error().code() == Errc::locked;
  left_ = !changes.empty() && unlocked.ok();
  if (left_) {
    file_ = store::with_changes(std::move(file_), std::move(changes));
  }
  PEN_ASSIGN(file_bytes_, file_->size());
  return {};
}

void Check::look_at_superblock() {
  const auto found = read_superblock(*file_);
  if (!found.ok())
    return add(Level::error, "the storage cannot read the data", plan_.file, {}, found.error().message());
  superblock_ = *found;
  if (!superblock_ && first_segment(*file_, cancelled_))
    return add(Level::error, "HDF5's signature is corrupt", plan_.file, "the 8 bytes that an HDF5 file begins with",
               "others, and segments of Penstock",
               "copy the file again from its source; `penstock recover` rebuilds HDF5's structures if this is the only "
               "copy");
  if (!superblock_)
    return add(Level::error, "not an HDF5 file", plan_.file, "HDF5's signature",
               file_bytes_ == 0 ? "an empty file" : "none of it");
  // The journal's changes may close the file: until they are in place nothing else was done to it.
  series_.unfinished = superblock_->open_for_writing || left_;
  if (series_.unfinished) report_.state = series_.locked ? State::being_recorded : State::unfinished;
  if (report_.being_recorded()) findings_.ignore_lags();
  const auto end = structures_end();
  series_.truncated = end && *end > file_bytes_;
  const auto* remedy = series_.unfinished ? "copy it again from its source"
                                          : "copy it again from its source; `penstock recover --salvage` marks what is "
                                            "cut off as lost if this is the only copy";
  if (series_.truncated)
    add(series_.unfinished ? Level::warning : Level::error, "the file is shorter than it says", plan_.file,
        fmt::format("{} bytes", *end), fmt::format("{} bytes", file_bytes_), remedy);
}

std::optional<std::uint64_t> Check::structures_end() const {
  const bool known = superblock_ && superblock_->end_of_file != ~std::uint64_t{0};
  return known ? std::optional(superblock_->end_of_file) : std::nullopt;
}

/// The first warning. Where frames can be recovered, the caller knows by `recoverable` what to do, unless the remedy
/// says it. Of a source file the caller asks for the first file.
void Check::report_unfinished() {
  const auto* again = "free space if its storage is full, then run `penstock recover` again";
  const auto* remedy =
      "wait until the program that writes it closes it; if it was killed, `penstock recover` completes "
      "a file of Penstock";
  Finding finding{Level::warning, unfinished_series, plan_.file, {}, "the file is marked as open for writing", remedy};
  if (superblock_->rebuilding) {
    finding.what = unfinished_recovery;
    finding.actual = "HDF5's structures are not in the file yet";
    finding.remedy = again;
  } else if (report_.recoverable && !superblock_->swmr) {
    finding.actual = "its recorder, or `penstock recover`, ended before it had closed the file";
    finding.remedy = again;
  } else if (report_.recoverable || member_) {
    finding.remedy.clear();
  }
  const auto is_error = [](const auto& each) { return each.level == Level::error; };
  report_.findings.insert(std::find_if_not(report_.findings.begin(), report_.findings.end(), is_error),
                          std::move(finding));
}

Result<void> Check::read_index() {
  if (!superblock_ || superblock_->rebuilding) {
    tree_.failure = "no HDF5 signature";
    return {};
  }
  progress_.start("reading the index", 0);
  IndexProcessOptions options;
  options.cancelled = cancelled_;
  options.stall = std::chrono::milliseconds(static_cast<std::int64_t>(plan_.index_timeout_s * 1000));
  options.read.small_value_bytes = 1 << 16;
  options.read.left = left_;
  options.read.wants_value = [](const store::DatasetInfo& info) {
    return std::any_of(info.paths.begin(), info.paths.end(), [](const auto& path) {
      return path == state_path || path == user_data_path || path == places_path || path == member_names_path;
    });
  };
  auto tree = read_tree_in_process(env_, plan_.file, options);
  if (!tree.ok() && tree.error().code() == Errc::cancelled) return std::move(tree).error();
  if (tree.ok())
    tree_ = std::move(*tree);
  else
    tree_.failure = tree.error().message();
  if (!tree_.failure.empty())
    add(Level::error, "HDF5 cannot read the index", plan_.file, {}, tree_.failure,
        "chunks with correct checksums are complete nevertheless, and can be read from their segments");
  for (const auto& part : tree_.unreadable)
    add(Level::error, "HDF5 cannot read a part of the file", part.path, {}, part.why);
  return {};
}

std::optional<FileId> Check::find_file_id() {
  const auto* value = tree_.root_attribute(file_id_attribute);
  if (value == nullptr && tree_.root_attribute(format_attribute) != nullptr)
    add(Level::error, "a part that every recorded file has is missing", fmt::format("/@{}", file_id_attribute));
  if (value == nullptr) return std::nullopt;
  const auto* text = std::get_if<std::string>(value);
  const auto id = text == nullptr ? Result<FileId>(make_error(Errc::malformed, "it is not text"))
                                  : store::format::file_id_of(*text);
  if (id.ok()) return *id;
  add(Level::error, "the file's identity is corrupt", fmt::format("/@{}", file_id_attribute), {}, id.error().message());
  return std::nullopt;
}

void Check::make_subjects() {
  for (const auto& dataset : tree_.datasets) {
    std::string why_not;
    auto subject = make_subject(dataset, {plan_.plugins, plan_.plugin_folders}, why_not);
    const auto& path = dataset.info.paths.front();
    if (!why_not.empty() && subject)
      add(Level::warning, "the chunks of a dataset cannot be decoded here; only their checksums are verified", path, {},
          why_not);
    else if (!why_not.empty() && !is_master(tree_))
      add(Level::info, "a dataset cannot be examined", path, {}, why_not);
    if (subject && member_) subject->first_frame = first_frame_;
    if (subject) subjects_.push_back(std::move(subject));
  }
}

Subject* Check::choose_compared() {
  std::string wanted = plan_.dataset.empty() ? frames_path : plan_.dataset;
  // What shows frames with gaps holds none itself.
  if (const auto* dataset = tree_.find(wanted); dataset != nullptr && !dataset->info.source.empty())
    wanted = dataset->info.source;
  for (const auto& subject : subjects_)
    for (const auto& path : subject->info().paths)
      if (path == wanted) return subject.get();
  if (!plan_.dataset.empty()) return nullptr;
  const auto elements = [](const Subject& subject) {
    long double product = 1;
    for (const auto extent : subject.info().shape) product *= static_cast<long double>(extent);
    return subject.info().shape.size() == 3 ? product : 0;
  };
  Subject* best = nullptr;
  for (const auto& subject : subjects_)
    if (elements(*subject) > (best == nullptr ? 0 : elements(*best))) best = subject.get();
  return best;
}

void Check::find_reference() {
  const auto make = [this]() -> Result<std::unique_ptr<Reference>> {
    if (const auto* npy = std::get_if<AgainstNpy>(&*plan_.against)) return reference_from_npy(env_, npy->path);
    if (const auto* simulation = std::get_if<AgainstSimulation>(&*plan_.against))
      return reference_from_simulation(simulation->json);
    PEN_ASSIGN(const auto recorded, recorded_simulation(tree_));
    return reference_from_simulation(recorded);
  };
  auto reference = make();
  if (!reference.ok()) return report_not_compared(reference.error());
  auto* subject = choose_compared();
  if (subject == nullptr)
    return add(Level::error, "no frames to compare", plan_.dataset.empty() ? plan_.file : plan_.dataset, {}, {},
               "name the dataset of frames");
  if (const auto prepared = prepare_comparison(*subject); !prepared.ok())
    return add(Level::error, "no frames to compare", subject->path, {}, prepared.error().message());
  if (const auto places = places_of(tree_)) subject->frame_at = frames_at(*places, subject->frames);
  const auto& spec = (*reference)->frame_spec();
  if (spec.shape != std::vector<std::uint64_t>{subject->rows(), subject->columns()}) {
    subject->compared = false;
    return add(Level::error, "the frames differ in shape from the reference", subject->path,
               fmt::format("{} × {}", spec.shape[0], spec.shape[1]),
               fmt::format("{} × {}", subject->rows(), subject->columns()));
  }
  if (spec.type != *subject->info().type)
    add(Level::info, "the frames differ in type from the reference", subject->path, std::string(name(spec.type)),
        std::string(name(*subject->info().type)));
  reference_ = shifted(std::move(*reference), first_frame_);
}

/// The file is not at fault. Where its end is lost, a description of its simulation may be lost with it.
void Check::report_not_compared(const Error& why) {
  if (series_.truncated) return;
  const bool recorded = std::holds_alternative<AgainstRecorded>(*plan_.against);
  add(Level::warning, "pixels not compared", plan_.file, {},
      recorded ? "not recorded from `penstock simulate`" : why.message(),
      fmt::format("name {} with `--against PATH`, or leave out `--against`", recorded ? "the images" : "other images"));
}

void Check::verify() {
  VerifierOptions options;
  options.threads = plan_.threads;
  options.decode = plan_.decode || plan_.against.has_value();
  options.unfinished = series_.unfinished;
  options.index_complete = tree_.failure.empty() && tree_.unreadable.empty();
  options.cancelled = cancelled_;
  if (series_.unfinished || member_) options.held = &held_;
  std::uint64_t total = 0;
  for (const auto& subject : subjects_)
    for (const auto& chunk : subject->index->chunks()) total += chunk.size;
  progress_.start("verifying chunks", total > 0 ? total : file_bytes_);
  Verifier verifier(*file_, file_bytes_, reference_.get(), options, findings_, progress_);
  segments_ = verify_segments({*file_, plan_.file, tree_, subjects_, find_file_id(), superblock_.has_value(),
                               series_.unfinished, series_.truncated},
                              verifier, findings_, cancelled_);
  verifier.drain();
  verify_without_records(verifier);
  verifier.drain();
  count(verifier);
}

/// The checks of all members are this one's.
void Check::verify_members() {
  if (!segments_.description || !segments_.description->members) return;
  const auto& datasets = segments_.description->datasets;
  const auto& members = *segments_.description->members;
  std::vector<std::string> paths;
  paths.reserve(datasets.size());
  for (const auto& node : datasets) paths.push_back(node.path);
  member_frames_.emplace(std::move(paths));
  if (member_) return add(Level::error, "a file with frames has such files itself", plan_.file);
  auto plan = plan_of_members();
  auto found = find_members(env_, plan_.file, tree_, members, findings_);
  for (const auto& member : found.files) {
    if (cancelled_()) return;
    plan.file = member.path;
    Check check(env_, plan, tell_, cancelled_);
    check.set_member(member.first_frame);
    const auto report = check.run();
    if (report.complete && !report.ok() && was_only_begun(env_, tree_, member.path))
      add(Level::warning, std::string(half_made_member), member.name, {}, {}, "it has no frames: nothing is lost");
    else if (!report_if_misnamed(check.tree_, member, findings_))
      take_over(member, check, report);
  }
  if (series_.unfinished) find_absent_ranks(plan_.file, tree_, members, held_.begun(datasets), found, findings_);
}

/// How their frames were made stands in the master.
CheckPlan Check::plan_of_members() {
  auto plan = plan_;
  if (!plan.against || !std::holds_alternative<AgainstRecorded>(*plan.against)) return plan;
  plan.against.reset();
  if (const auto simulation = recorded_simulation(tree_); simulation.ok())
    plan.against = AgainstSimulation{*simulation};
  else
    report_not_compared(simulation.error());
  return plan;
}

void Check::take_over(const MemberFile& member, const Check& check, const Report& report) {
  for (auto finding : report.findings) {
    finding.source_file = member.name;
    if (auto& where = finding.where.text; where != member.path) where = fmt::format("{}: {}", member.name, where);
    findings_.add(std::move(finding));
  }
  if (report.complete) compare_series(tree_, check.tree_, member.name, findings_);
  member_frames_->add(check.subjects_, member.first_frame);
  // A recovery leaves a finished file that was cut off as it is: its finding says that `--salvage` brings what is left.
  if (check.series_.unfinished || !check.series_.truncated)
    held_.take(check.held_, segments_.description->datasets, member.first_frame);
  report_.state = std::max(report_.state, report.state);
  series_.truncated = series_.truncated || check.series_.truncated;
  if (!report.complete) {
    report_.reached = report.reached;
    stopped_in_ = member.name;
  }
  report_.chunks += report.chunks;
  report_.frame_chunks += report.frame_chunks;
  report_.segments += report.segments;
  report_.bytes += report.bytes;
  report_.compared_frames += report.compared_frames;
  report_.different_frames += report.different_frames;
}

std::vector<ChunkTask> Check::tasks_without_records() {
  std::vector<ChunkTask> tasks;
  for (const auto& subject : subjects_) {
    const auto& chunks = subject->index->chunks();
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      if (subject->index->vouched(i)) continue;
      const auto& chunk = chunks[i];
      tasks.push_back({subject.get(), chunk.number, chunk.address, chunk.size, chunk.filter_mask, std::nullopt, true});
      if (subject->has_records)
        add(Level::error, "an indexed chunk is in no segment", subject->where(chunk.number, chunk.address),
            "a record in a segment", "none", "its record, with its checksum, is lost");
    }
  }
  std::sort(tasks.begin(), tasks.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
  return tasks;
}

Place Check::where(const ChunkTask& task) {
  return task.subject != nullptr ? task.subject->where(task.number, task.address)
                                 : Place(fmt::format("frame {} at offset {}", task.number, task.address));
}

void Check::report_overlaps(const std::vector<ChunkTask>& tasks) {
  for (std::size_t i = 1; i < tasks.size(); ++i) {
    const auto& before = tasks[i - 1];
    if (before.address + before.size <= tasks[i].address) continue;
    add(Level::error, "chunks overlap", where(tasks[i]), {}, where(before).text);
  }
}

void Check::verify_without_records(Verifier& verifier) {
  if (cancelled_()) return;
  const auto tasks = tasks_without_records();
  report_overlaps(tasks);
  for (std::size_t i = 0; i < tasks.size() && !cancelled_(); i += tasks_at_once) {
    const auto end = std::min(tasks.size(), i + tasks_at_once);
    verifier.push(std::vector<ChunkTask>(tasks.begin() + static_cast<std::ptrdiff_t>(i),
                                         tasks.begin() + static_cast<std::ptrdiff_t>(end)));
  }
}

void Check::find_recoverable() {
  if (report_.unfinished() && segments_.description && !member_ && !cancelled_())
    series_.recoverable = held_.count(segments_.description->datasets).whole;
  if (series_.recoverable) report_.recoverable = series_.recoverable->size();
  if (report_.recoverable && superblock_ && superblock_->rebuilding) {
    report_.frames = *report_.recoverable;
    for (const auto& node : segments_.description->datasets) report_.frames = std::max(report_.frames, node.frames_max);
    report_.missing = report_.frames - *report_.recoverable;
  }
}

void Check::take(const FrameCounts& counts) {
  report_.frames = counts.frames;
  report_.missing = counts.missing;
  report_.partial = counts.partial;
  report_.damaged_frames = counts.damaged;
  report_.dropped_frames = counts.dropped;
  report_.lost_frames = counts.lost;
}

void Check::account() {
  if (cancelled_()) return;
  find_recoverable();
  std::vector<const Subject*> channels;
  for (const auto* subject : segments_.by_record)
    if (subject != nullptr && subject->info().shape.size() >= 3) channels.push_back(subject);
  if (member_frames_) channels = member_frames_->channels(tree_);
  // What became of each frame of the series stands in the master.
  const bool member = is_member(tree_);
  if (member) channels.clear();
  if (!member && !segments_.channel_without_rows.empty())
    return take(account_for_no_frames(tree_, channels, segments_.channel_without_rows, series_, findings_));
  if (!channels.empty()) return take(account_for_frames(tree_, channels, series_, findings_));
  if (const auto* frames = choose_compared(); frames != nullptr && frames->info().shape.size() == 3)
    report_.frames = frames->info().shape.front();
}

void Check::count(const Verifier& verifier) {
  const auto& counts = verifier.counts();
  report_.segments = counts.segments;
  report_.chunks = counts.chunks;
  report_.frame_chunks = counts.in_segments;
  report_.bytes = counts.bytes;
  if (counts.superseded > 0)
    add(Level::info, "segments hold chunks that later ones replaced", plan_.file, {},
        fmt::format("{}", counts.superseded.load()));
  for (const auto& subject : subjects_) {
    if (!subject->compared) continue;
    for (std::uint64_t frame = 0; frame < subject->frames; ++frame) {
      const auto marks = subject->frame_marks[frame].load(std::memory_order_relaxed);
      if ((marks & Subject::was_compared) != 0) ++report_.compared_frames;
      if ((marks & Subject::was_different) != 0) ++report_.different_frames;
    }
  }
}

}  // namespace

Report run_check(Env& env, const CheckPlan& plan, const Progress::Tell& tell, const std::function<bool()>& cancelled) {
  return plan.count_only ? count_frames(env, plan, tell, cancelled) : Check(env, plan, tell, cancelled).run();
}

}  // namespace penstock::check
