#include "check/structures/count_frames.hpp"

#include <algorithm>
#include <filesystem>

#include "check/members.hpp"
#include "check/names.hpp"
#include "check/structures/index_process.hpp"
#include "check/structures/segment_frames.hpp"
#include "check/structures/superblock.hpp"
#include "store/format/description.hpp"
#include "store/recovery/scan.hpp"

namespace penstock::check {
namespace {

using store::format::SegmentKind;

struct Held {
  SegmentFrames frames;
  std::optional<store::format::Description> description;
  std::uint64_t segments = 0;
  State state = State::closed;
  bool cut_off = false;  ///< it is finished, and its end is gone: a recovery leaves it as it is
};

Result<void> read_description(File& file, const store::format::SegmentHeader& header, Held& held) {
  PEN_ASSIGN(const auto text, store::read_description(file, header));
  PEN_ASSIGN(held.description, store::format::parse_description(text));
  return {};
}

Result<void> read_records_of(Env& env, const std::string& path, Progress& progress,
                             const std::function<bool()>& cancelled, Held& held) {
  if (!std::filesystem::is_regular_file(path))
    return make_error(Errc::invalid_argument, "{} is not a regular file", path);
  PEN_ASSIGN(const auto file, env.open(path, {}));
  PEN_ASSIGN(const auto bytes, file->size());
  PEN_ASSIGN(const auto superblock, read_superblock(*file));
  const auto unlocked = require_unlocked(*file);
  const bool locked = !unlocked.ok() && unlocked.error().code() == Errc::locked;
  if (superblock && superblock->open_for_writing) held.state = locked ? State::being_recorded : State::unfinished;
  const auto end = superblock ? superblock->end_of_file : ~std::uint64_t{0};
  held.cut_off = held.state == State::closed && end != ~std::uint64_t{0} && end > bytes;
  progress.start("reading the segments' records", bytes);
  store::ScanOptions options;
  options.cancelled = cancelled;
  PEN_ASSIGN(auto scanner, store::SegmentScanner::create(*file, options));
  for (std::uint64_t before = 0;;) {
    PEN_ASSIGN(const auto header, scanner.next());
    if (!header) return {};
    progress.advance(scanner.position() - std::min(before, scanner.position()));
    before = scanner.position();
    // The second copy of the description serves where the first is damaged.
    if (header->kind == SegmentKind::description && !held.description) (void)read_description(*file, *header, held);
    if (header->kind != SegmentKind::chunks) continue;
    const auto records = store::read_records(*file, *header);
    if (!records.ok()) continue;
    ++held.segments;
    for (const auto& record : *records)
      if (header->address + record.offset + record.size <= bytes) held.frames.add(record);
  }
}

/// Returns the file with the names of its members and the states of its frames; an empty tree if HDF5 cannot read it.
Tree tree_of_master(Env& env, const std::string& path, const std::function<bool()>& cancelled) {
  IndexProcessOptions options;
  options.cancelled = cancelled;
  options.read.small_value_bytes = 1 << 16;
  options.read.left = true;
  options.read.wants_value = [](const store::DatasetInfo& info) {
    return std::any_of(info.paths.begin(), info.paths.end(),
                       [](const auto& each) { return each == state_path || each == member_names_path; });
  };
  auto tree = read_tree_in_process(env, path, options);
  return tree.ok() ? std::move(*tree) : Tree();
}

}  // namespace

Report count_frames(Env& env, const CheckPlan& plan, const Progress::Tell& tell,
                    const std::function<bool()>& cancelled) {
  const auto start = monotonic_ns();
  Progress progress(tell);
  Findings findings;
  Held all;
  const auto cannot_read = [&](const std::string& path, const Error& why) {
    findings.add({Level::error, "the file cannot be read", path, {}, why.message(), {}});
  };
  if (const auto read = read_records_of(env, plan.file, progress, cancelled, all); !read.ok())
    cannot_read(plan.file, read.error());
  if (all.state == State::being_recorded) findings.ignore_lags();
  if (all.description && all.description->members) {
    const auto tree = tree_of_master(env, plan.file, cancelled);
    auto found = find_members(env, plan.file, tree, *all.description->members, findings);
    for (const auto& member : found.files) {
      Held held;
      if (const auto read = read_records_of(env, member.path, progress, cancelled, held); !read.ok())
        cannot_read(member.path, read.error());
      // As in a check: a recovery without `--salvage` leaves such a file as it is.
      if (!held.cut_off) all.frames.take(held.frames, all.description->datasets, member.first_frame);
      all.segments += held.segments;
      all.state = std::max(all.state, held.state);
    }
    find_absent_ranks(plan.file, tree, *all.description->members, all.frames.begun(all.description->datasets), found,
                      findings);
  }
  Report report;
  report.complete = !cancelled();
  if (!report.complete) report.reached = progress.state();
  report.state = all.state;
  report.segments = all.segments;
  report.findings = findings.list();
  if (report.complete && report.unfinished() && all.description) {
    const auto counts = all.frames.count(all.description->datasets);
    report.recoverable = counts.whole.size();
    report.bytes = counts.bytes;
  }
  report.seconds = static_cast<double>(monotonic_ns() - start) * 1e-9;
  return report;
}

}  // namespace penstock::check
