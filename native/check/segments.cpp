#include "check/segments.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "check/names.hpp"
#include "store/recovery/scan.hpp"

namespace penstock::check {
namespace {

using store::format::FileId;
using store::format::SegmentHeader;
using store::format::SegmentKind;

/// How far a file that shows no sign of Penstock is searched for a segment.
constexpr std::uint64_t search_bytes = 64 << 20;

class SegmentWalk {
 public:
  SegmentWalk(const SegmentedFile& segmented, Verifier& verifier, Findings& findings,
              const std::function<bool()>& cancelled)
      : segmented_(segmented), verifier_(verifier), findings_(findings), cancelled_(cancelled), id_(segmented.id) {}

  FoundSegments run() {
    verifier_.set_subjects({}, all_subjects(), store::Placement::log);
    if (id_ || first_segment(segmented_.file, cancelled_))
      walk();
    else if (segmented_.is_hdf5 && !cancelled_())
      report_no_checksums();
    return std::move(found_);
  }

 private:
  void add(Level level, std::string what, Place where, std::string expected = {}, std::string actual = {},
           std::string remedy = {}) {
    findings_.add(
        {level, std::move(what), std::move(where), std::move(expected), std::move(actual), std::move(remedy)});
  }

  std::vector<Subject*> all_subjects() const {
    std::vector<Subject*> all;
    for (const auto& subject : segmented_.subjects) all.push_back(subject.get());
    return all;
  }
  void walk();
  void report_damaged_id(const FileId& of_segments);
  void take_description(const SegmentHeader& header);
  Subject* compare_dataset(const store::ChunkedNode& node);
  void require_others();
  void compare_assembled(const store::ChunkedNode& node);
  bool has_no_rows(const std::string& path) const;
  void judge(const store::SegmentScanner& scanner);
  void report_no_checksums();

  const SegmentedFile& segmented_;
  Verifier& verifier_;
  Findings& findings_;
  const std::function<bool()>& cancelled_;
  std::optional<FileId> id_;
  bool any_ = false;
  FoundSegments found_;
};

void SegmentWalk::walk() {
  store::ScanOptions options;
  options.file_id = id_;
  options.cancelled = cancelled_;
  auto scanner = store::SegmentScanner::create(segmented_.file, options);
  while (scanner.ok()) {
    const auto header = scanner->next();
    if (!header.ok())
      return add(Level::error, "the storage cannot read the data", segmented_.path, {}, header.error().message(),
                 "check the storage");
    if (!*header) break;
    any_ = true;
    if ((*header)->kind == SegmentKind::description)
      take_description(**header);
    else if ((*header)->kind == SegmentKind::chunks)
      verifier_.push(**header);
    else if ((*header)->kind == SegmentKind::seal)
      found_.seal = **header;
  }
  if (!scanner.ok()) return;
  // No segment has the id that the attribute names. A file with a description of its own is not a copy of another: its
  // attribute is damaged.
  if (const auto id = scanner->described_elsewhere(); id && !any_ && !cancelled_()) {
    report_damaged_id(*id);
    return walk();
  }
  judge(*scanner);
}

/// And takes that of the segments for the file's.
void SegmentWalk::report_damaged_id(const FileId& of_segments) {
  add(Level::error, "the file's identity is corrupt", fmt::format("/@{}", file_id_attribute),
      fmt::format("{}, as its segments have", store::format::to_hex(of_segments)), store::format::to_hex(*id_),
      "copy the file again from its source; `penstock recover --rebuild` corrects it if this is the only copy");
  id_ = of_segments;
}

void SegmentWalk::take_description(const SegmentHeader& header) {
  const auto text = store::read_description(segmented_.file, header);
  auto parsed = text.ok() ? store::format::parse_description(*text) : Result<store::format::Description>(text.error());
  if (!parsed.ok())
    return add(Level::error, "the description segment is corrupt", fmt::format("offset {}", header.address), {},
               parsed.error().message());
  if (found_.description) return;
  verifier_.drain();
  found_.description = std::move(*parsed);
  const auto& datasets = found_.description->datasets;
  for (const auto& node : datasets) found_.by_record.push_back(compare_dataset(node));
  require_others();
  const bool in_slots = std::any_of(datasets.begin(), datasets.end(),
                                    [](const auto& node) { return node.places.placement == store::Placement::slots; });
  verifier_.set_subjects(found_.by_record, all_subjects(), in_slots ? store::Placement::slots : store::Placement::log);
}

/// Returns the subject whose chunks the records speak of; null if the file has none.
Subject* SegmentWalk::compare_dataset(const store::ChunkedNode& node) {
  Subject* found = nullptr;
  for (auto* subject : all_subjects())
    for (const auto& path : subject->info().paths)
      if (path == node.path) found = subject;
  const auto& tree = segmented_.tree;
  if (found == nullptr && !found_.description->members && has_no_rows(node.path))
    found_.channel_without_rows = node.path;
  if (found == nullptr && tree.failure.empty() && tree.find(node.path) == nullptr)
    add(Level::error, std::string(missing_dataset), node.path);
  if (node.assembled && tree.failure.empty()) compare_assembled(node);
  if (found == nullptr) return nullptr;
  if (node.frame_shape.size() < found->info().shape.size()) found->frame_dimensions = node.frame_shape.size();
  if (found->compared && found->frame_dimensions > 2) {
    found->compared = false;
    add(Level::warning, "its frames are not compared", node.path, "2 dimensions",
        fmt::format("{} dimensions", found->frame_dimensions));
  }
  found->has_records = true;
  if (found->frames_a_chunk() > 1)
    found->frames_there = std::make_unique<std::atomic<std::uint32_t>[]>(found->index->chunks().size());
  return found;
}

/// Columns, and values such as masks. A link may lead to one that was moved. What HDF5 cannot read has its own
/// findings.
void SegmentWalk::require_others() {
  const auto& tree = segmented_.tree;
  if (!tree.failure.empty() || !tree.unreadable.empty()) return;
  const auto require = [&](const std::string& path) {
    if (tree.find(path) == nullptr)
      add(Level::warning, std::string(missing_dataset), path, {}, {},
          "another program removed or moved it, or a recovery could not bring it back: copy the file again from its "
          "source");
  };
  for (const auto& node : found_.description->columns) require(node.path);
  for (const auto& node : found_.description->values) require(node.path);
}

/// What most readers open has to lead to the frames.
void SegmentWalk::compare_assembled(const store::ChunkedNode& node) {
  const auto& path = node.assembled->path;
  const auto* dataset = segmented_.tree.find(path);
  if (dataset == nullptr) return add(Level::error, std::string(missing_dataset), path);
  const auto expected = node.assembled->frame_shape(node.frame_shape);
  const auto& info = dataset->info;
  const bool same_frames =
      info.shape.size() > expected.size() && std::equal(expected.rbegin(), expected.rend(), info.shape.rbegin());
  if (info.source != node.path || !same_frames)
    add(Level::error, "a dataset differs from the description", path,
        fmt::format("frames of {} × {} out of {}", expected[0], expected[1], node.path),
        fmt::format("[{}] out of {}", fmt::join(info.shape, ", "), info.source.empty() ? "elsewhere" : info.source));
}

bool SegmentWalk::has_no_rows(const std::string& path) const {
  const auto* dataset = segmented_.tree.find(path);
  return dataset != nullptr && !dataset->info.shape.empty() && dataset->info.shape.front() == 0;
}

void SegmentWalk::judge(const store::SegmentScanner& scanner) {
  for (const auto& damaged : scanner.damaged())
    add(Level::error, "a segment's header is corrupt", fmt::format("offset {}", damaged.address), {}, damaged.why);
  if (scanner.foreign_count() > 0)
    add(Level::info, "segments of another file lie in this one", segmented_.path, {},
        fmt::format("{}", scanner.foreign_count()), "left over on the storage; they do no harm");
  if (found_.description || cancelled_()) return;
  if (any_ || segmented_.unfinished || scanner.damaged_count() > 0)
    add(Level::error, "the description segment is missing", segmented_.path);
  else
    report_no_checksums();
}

/// HDF5's structures can be copied from a recording, its segments only byte for byte.
void SegmentWalk::report_no_checksums() {
  if (segmented_.truncated) return;
  add(Level::warning, std::string(no_checksums), segmented_.path, {}, {},
      "Penstock did not write it, or another program copied it: check the original, or compare the pixels with "
      "`--against`");
}

}  // namespace

FoundSegments verify_segments(const SegmentedFile& segmented, Verifier& verifier, Findings& findings,
                              const std::function<bool()>& cancelled) {
  return SegmentWalk(segmented, verifier, findings, cancelled).run();
}

std::optional<SegmentHeader> first_segment(File& file, const std::function<bool()>& cancelled) {
  auto scanner =
      store::SegmentScanner::create(file, {.begin = 0, .end = search_bytes, .file_id = {}, .cancelled = cancelled});
  if (!scanner.ok()) return std::nullopt;
  const auto first = scanner->next();
  return first.ok() ? *first : std::nullopt;
}

}  // namespace penstock::check
