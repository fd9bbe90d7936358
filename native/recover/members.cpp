#include "recover/members.hpp"

#include <algorithm>
#include <set>

#include "check/names.hpp"
#include "store/members/member_names.hpp"
#include "store/recovery/scan.hpp"

namespace penstock::recover {
namespace {

void add(RecoverReport& sum, const RecoverReport& part) {
  sum.segments += part.segments;
  sum.indexed += part.indexed;
  sum.recovered += part.recovered;
  sum.damaged += part.damaged;
}

void add(MembersContent& all, const MemberContent& one, const check::MemberFile& file, const store::Members& members) {
  for (std::size_t dataset = 0; dataset < one.rows.size(); ++dataset)
    for (const auto row : one.rows[dataset]) {
      store::PlacedChunk chunk;
      chunk.head.dataset = store::DatasetId{static_cast<std::uint16_t>(dataset)};
      chunk.head.index = file.first_frame + row;
      chunk.rank = static_cast<unsigned>(file.number % members.ranks);
      all.chunks.push_back(chunk);
    }
  for (const auto& time : one.times) all.times.push_back({file.first_frame + time.frame, time.ns});
  for (const auto row : one.damaged) all.damaged.push_back(file.first_frame + row);
  all.values.push_back(one.values);
  all.written = all.written || one.report.way == Way::repair || one.report.way == Way::rebuild;
}

/// Of an error that may pass.
const char* remedy_of(Errc code) {
  switch (code) {
    case Errc::cancelled:
    case Errc::no_space: return "";  // whoever asked knows what to do
    case Errc::locked: return "; recover again when that process has ended";
    default: return "; move it away to recover the others without it";
  }
}

/// A dataset that is made again keeps the attributes and the other names that it has.
void take_over(const check::Tree& tree, const store::format::Description& description, store::Subset& subset,
               std::vector<store::LinkNode>& links) {
  const auto* dataset = tree.find(subset.path);
  if (dataset == nullptr) {
    for (const auto& link : description.links)
      if (link.target == subset.path) links.push_back(link);
    return;
  }
  subset.attributes = dataset->info.attributes;
  std::erase_if(subset.attributes, [](const auto& each) { return each.name == store::left_empty_attribute; });
  for (const auto& path : dataset->info.paths)
    if (path != subset.path) links.push_back({path, subset.path});
}

}  // namespace

Result<MembersContent> recover_members(
    Env& env, const std::string& master, const check::Tree& tree, const store::Members& members,
    check::Findings& findings, RecoverReport& report,
    const std::function<Result<MemberContent>(const std::string& path)>& recover_one) {
  MembersContent all;
  // Also one that was elsewhere, or could not be read, when the master was completed.
  all.found = check::find_members(env, master, tree, members, findings, check::Unlisted::own);
  for (const auto& file : all.found.files) {
    auto one = recover_one(file.path);
    // An error that speaks of the file will be there the next time too; any other may pass.
    const auto speaks_of_file = [](Errc code) {
      return code == Errc::mismatch || code == Errc::malformed || code == Errc::corrupt || code == Errc::truncated ||
             code == Errc::unsupported;
    };
    if (!one.ok() && !speaks_of_file(one.error().code()))
      return make_error(one.error().code(), "{}: {}{}", file.name, one.error().message(),
                        remedy_of(one.error().code()));
    if (!one.ok() && check::was_only_begun(env, tree, file.path)) {
      findings.add({check::Level::warning,
                    std::string(check::half_made_member),
                    file.name,
                    {},
                    one.error().message(),
                    "its recorder died while creating it, and it has no frames: nothing is lost"});
      continue;
    }
    if (!one.ok()) {
      findings.add({check::Level::error,
                    "a file with a part of the frames cannot be recovered",
                    file.name,
                    {},
                    one.error().message(),
                    "readers fail on its frames: copy it again from its source, then recover again. To read the others "
                    "without it, move it away: its frames then read as the fill value"});
      continue;
    }
    for (auto finding : one->report.findings) {
      finding.where.text = file.name + ": " + finding.where.text;
      findings.add(std::move(finding));
    }
    add(report, one->report);
    add(all, *one, file, members);
    const bool has_frames =
        std::any_of(one->rows.begin(), one->rows.end(), [](const auto& rows) { return !rows.empty(); });
    all.written = all.written || (!file.listed && has_frames);
  }
  std::sort(all.times.begin(), all.times.end(), [](const auto& a, const auto& b) { return a.frame < b.frame; });
  const auto again =
      std::unique(all.times.begin(), all.times.end(), [](const auto& a, const auto& b) { return a.frame == b.frame; });
  all.times.erase(again, all.times.end());
  std::sort(all.damaged.begin(), all.damaged.end());
  return all;
}

store::ValueNode member_names(const store::Members& members, const std::vector<store::PlacedChunk>& chunks,
                              const std::vector<std::string>& missing) {
  std::set<std::uint64_t> numbers;
  for (const auto& chunk : chunks) numbers.insert(members.member_of(chunk.head.index, chunk.rank));
  for (const auto& name : missing)
    if (const auto number = store::member_number(name, members)) numbers.insert(*number);
  std::vector<std::string> names;
  names.reserve(numbers.size());
  for (const auto number : numbers) names.push_back(members.file_name(number));
  // As the store describes those that it writes.
  const std::string description = "files that hold the frames, in this folder";
  return {check::member_names_path, std::move(names), {{"description", description}}};
}

void mark_as_master(store::FileLayout& layout) {
  const auto& members = *layout.members;
  layout.groups.push_back({"/",
                           {{"penstock_layout", std::string(members.frames > 0 ? "split" : "per_writer")},
                            {"penstock_member_files", members.stem + "*" + members.suffix}}});
}

store::FileLayout master_layout(const check::Tree& tree, const store::format::Description& description) {
  store::FileLayout layout;
  layout.chunked = description.datasets;
  layout.columns = description.columns;
  layout.members = description.members;
  for (auto& node : layout.chunked) {
    const auto* dataset = tree.find(node.path);
    if (dataset == nullptr) continue;
    node.attributes = dataset->info.attributes;
    for (const auto& path : dataset->info.paths)
      if (path != node.path) layout.links.push_back({path, node.path});
  }
  layout.subsets = description.subsets;
  if (layout.subsets)
    for (auto& subset : layout.subsets->datasets) take_over(tree, description, subset, layout.links);
  return layout;
}

}  // namespace penstock::recover
