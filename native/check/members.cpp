#include "check/members.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <set>

#include "check/names.hpp"
#include "store/format/description.hpp"
#include "store/members/member_names.hpp"
#include "store/recovery/replacement.hpp"
#include "store/recovery/scan.hpp"

namespace penstock::check {
namespace {

constexpr const char* layout_attribute = "penstock_layout";
constexpr const char* member_attribute = "penstock_member";
constexpr const char* series_path = "/entry/penstock/series_unique_id";
/// Files that are missing one after the other; a stray file may have any number.
constexpr std::uint64_t gap_max = 1000;

template <typename T>
const T* value_at(const Tree& tree, const char* path) {
  const auto* dataset = tree.find(path);
  return dataset != nullptr && dataset->value ? std::get_if<T>(&*dataset->value) : nullptr;
}

class Shifted final : public Reference {
 public:
  Shifted(std::unique_ptr<Reference> reference, std::uint64_t first)
      : reference_(std::move(reference)), first_(first) {}
  const ArraySpec& frame_spec() const override { return reference_->frame_spec(); }
  Result<Bytes> frame(std::uint64_t number, std::vector<std::byte>& scratch) const override {
    return reference_->frame(first_ + number, scratch);
  }

 private:
  const std::unique_ptr<Reference> reference_;
  const std::uint64_t first_;
};

constexpr const char* is_another = "a file has the name of another one of its series";

/// What is missing of the master at a path.
class Missing {
 public:
  Missing(const std::string& master, FoundMembers& found, Findings& findings)
      : master_(master), found_(found), findings_(findings) {}

  /// `lag`: as the master is behind its members while it is recorded.
  void add(const std::string& name, bool lag) {
    found_.missing.push_back(name);
    const auto& all = found_.misnamed;
    const auto in_its_place = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.name == name; });
    const auto is_it = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.own_name == name; });
    const bool is_taken = in_its_place != all.end();
    std::string actual = is_taken ? "one that says that it is " + in_its_place->own_name : "none";
    std::string remedy = is_taken ? "its frames are not those of this name: move it away, and copy the right file here"
                                  : "its frames read as the fill value; copy it into the same folder";
    if (is_it != all.end()) {
      actual += fmt::format("; {} says that it is this file", is_it->name);
      remedy = is_taken ? "give each of them the name that it says" : "rename that one";
    }
    findings_.add({Level::error, std::string(member_is_gone), name, "a file next to " + master_, actual, remedy, lag});
  }

  /// After the last one: misnamed files in whose place no other is missing.
  void report_misnamed() {
    for (const auto& each : found_.misnamed)
      if (each.listed && std::find(found_.missing.begin(), found_.missing.end(), each.name) == found_.missing.end())
        findings_.add({Level::warning, is_another, each.name, each.own_name, each.name,
                       "its frames are not taken from it; move it away, or give it its own name if no file has that"});
  }

 private:
  const std::string& master_;
  FoundMembers& found_;
  Findings& findings_;
};

/// Frames, rising, of which the column of states says that they are in the file, or in part.
std::vector<std::uint64_t> frames_received(const Tree& tree) {
  std::vector<std::uint64_t> frames;
  const auto* states = value_at<store::ArrayValue>(tree, state_path);
  if (states == nullptr || states->spec.type != ElementType::u8) return frames;
  for (std::uint64_t frame = 0; frame < states->data.size(); ++frame)
    if (const auto state = states->data[frame]; state == std::byte{1} || state == std::byte{5}) frames.push_back(frame);
  return frames;
}

std::string folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::uint64_t number_at(const std::string& path, const store::Members& members) {
  return store::member_number(std::filesystem::path(path).filename().string(), members).value_or(0);
}

/// Members that are not complete, and have no frames, are not missing.
std::set<std::uint64_t> report_begun(const std::string& master, const store::Members& members, Findings& findings) {
  std::set<std::uint64_t> begun;
  for (const auto& path : begun_members(master, members)) {
    begun.insert(number_at(path, members));
    findings.add({Level::warning,
                  std::string(half_made_member),
                  std::filesystem::path(store::replacement_path(path)).filename().string(),
                  {},
                  {},
                  "it has no frames: nothing is lost",
                  true});
  }
  return begun;
}

/// Of a split series whose master names no members yet. A block of frames has a file if the states say that it has
/// frames, or if it lies between the last such block and a file that is there: the column is behind the files. A block
/// without a frame has none. The `others`, numbers of files that say that they are of another series, prove nothing:
/// any file may have such a name. If several ranks write, a rank has a file of a block only if it received frames of
/// that block: then only a block of which no rank has a file is reported, and a file in whose place a misnamed one is.
void report_gaps(const std::string& master, const Tree& tree, const store::Members& members, const FoundMembers& found,
                 const std::set<std::uint64_t>& others, Missing& missing, Findings& findings) {
  const auto begun = report_begun(master, members, findings);
  if (members.frames == 0) return;  // find_absent_ranks()
  std::set<std::uint64_t> there, ranks, misnamed;
  for (const auto& file : found.files) {
    if (others.contains(file.number)) continue;
    there.insert(file.number / members.ranks);
    ranks.insert(file.number % members.ranks);
  }
  for (const auto& file : found.misnamed) misnamed.insert(store::member_number(file.name, members).value_or(0));
  if (ranks.empty()) ranks.insert(0);
  std::set<std::uint64_t> received;
  for (const auto frame : frames_received(tree)) received.insert(received.end(), frame / members.frames);
  auto expected = received;
  auto next = expected.empty() ? 0 : *expected.rbegin() + 1;
  for (const auto block : there) {
    for (auto gap = next; gap < std::min(block, next + gap_max); ++gap) expected.insert(gap);
    next = std::max(next, block + 1);
  }
  for (const auto number : misnamed)
    if (number / members.ranks < next) missing.add(members.file_name(number), true);
  for (const auto block : expected)
    for (const auto rank : ranks) {
      const auto number = block * members.ranks + rank;
      const bool is_begun = begun.contains(number) && !received.contains(block);
      if (!there.contains(block) && !is_begun && !misnamed.contains(number))
        missing.add(members.file_name(number), true);
    }
}

/// Whether the storage gives all of the file, and it has neither a segment with frames nor a damaged one: its recorder
/// was stopped while it made it.
bool holds_no_frames(Env& env, const std::string& path) {
  const auto file = env.open(path, {});
  if (!file.ok()) return false;
  // It begins with nothing, or with HDF5's signature; whatever begins otherwise may have held frames.
  std::array<std::byte, 8> front{};
  if (!(*file)->read_at(front, 0).ok()) return false;
  if (front != std::array<std::byte, 8>{} && as_text(front) != "\x89HDF\r\n\x1a\n") return false;
  auto scanner = store::SegmentScanner::create(**file, {});
  while (scanner.ok()) {
    const auto header = scanner->next();
    if (!header.ok()) return false;
    if (!*header) return scanner->damaged().empty();
    if ((*header)->kind == store::format::SegmentKind::chunks) return false;
    if ((*header)->kind != store::format::SegmentKind::description) continue;
    const auto text = store::read_description(**file, **header);
    const auto description =
        text.ok() ? store::format::parse_description(*text) : Result<store::format::Description>(text.error());
    if (!description.ok()) return false;
  }
  return false;
}

/// By the name of the master, or by the series: either may be renamed, not both.
bool is_member_of(const store::format::Description& own, const std::string& master, const Tree& tree) {
  if (own.member->master == std::filesystem::path(master).filename()) return true;
  const auto* series = value_at<std::string>(tree, series_path);
  return series != nullptr && std::any_of(own.values.begin(), own.values.end(), [&](const auto& node) {
           const auto* text = std::get_if<std::string>(&node.value);
           return node.path == series_path && text != nullptr && *text == *series;
         });
}

std::string own_name(const store::MemberMark& mark, const store::Members& members, bool is_of_master) {
  return is_of_master ? members.file_name(mark.number) : fmt::format("file {} of {}", mark.number, mark.master);
}

}  // namespace

bool was_only_begun(Env& env, const Tree& master, const std::string& path) {
  return master.find(member_names_path) == nullptr && holds_no_frames(env, path);
}

std::vector<std::string> begun_members(const std::string& master, const store::Members& members) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of(master), error))
    if (const auto path = store::path_of_replacement(entry.path().string()))
      if (store::member_number(std::filesystem::path(*path).filename().string(), members)) paths.push_back(*path);
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool is_master(const Tree& tree) { return tree.root_attribute(layout_attribute) != nullptr; }
bool is_member(const Tree& tree) { return tree.root_attribute(member_attribute) != nullptr; }

std::optional<store::MemberMark> mark_of(const Tree& tree) {
  const auto* master = tree.root_attribute("penstock_master");
  const auto* name = master == nullptr ? nullptr : std::get_if<std::string>(master);
  const auto* value = tree.root_attribute(member_attribute);
  const auto* array = value == nullptr ? nullptr : std::get_if<store::ArrayValue>(value);
  store::MemberMark mark;
  if (name == nullptr || array == nullptr || array->data.size() != sizeof mark.number) return std::nullopt;
  mark.master = *name;
  std::memcpy(&mark.number, array->data.data(), sizeof mark.number);
  return mark;
}

FoundMembers find_members(Env& env, const std::string& path, const Tree& tree, const store::Members& members,
                          Findings& findings, Unlisted unlisted) {
  FoundMembers all;
  auto& found = all.files;
  std::vector<MemberFile> named;
  Missing missing(path, all, findings);
  std::set<std::uint64_t> others;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of(path), error)) {
    const auto name = entry.path().filename().string();
    if (const auto number = store::member_number(name, members))
      named.push_back({name, entry.path().string(), *number, members.first_frame(*number)});
  }
  std::sort(named.begin(), named.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
  // A master that was completed names its members; others of the same pattern are none of its own.
  const auto* names = value_at<std::vector<std::string>>(tree, member_names_path);
  for (auto& file : named)
    file.listed = names == nullptr || std::find(names->begin(), names->end(), file.name) != names->end();
  for (auto& file : named) {
    const auto own = store::description_of_member(env, file.path);
    const bool is_of_master = own.ok() && is_member_of(*own, path, tree);
    if (own.ok() && own->member->number != file.number) {
      all.misnamed.push_back({file.name, own_name(*own->member, members, is_of_master), file.listed});
      continue;
    }
    if (own.ok() && !is_of_master) others.insert(file.number);
    if (file.listed || (is_of_master && unlisted != Unlisted::none)) found.push_back(std::move(file));
  }
  if (names == nullptr) report_gaps(path, tree, members, all, others, missing, findings);
  for (const auto& name : names == nullptr ? std::vector<std::string>() : *names)
    if (std::none_of(found.begin(), found.end(), [&](const auto& file) { return file.name == name; }))
      missing.add(name, false);
  if (names != nullptr || members.frames > 0) missing.report_misnamed();
  return all;
}

void find_absent_ranks(const std::string& path, const Tree& tree, const store::Members& members,
                       const std::vector<std::uint64_t>& begun, FoundMembers& found, Findings& findings) {
  if (members.frames > 0 || tree.find(member_names_path) != nullptr) return;
  const auto received = frames_received(tree);
  Missing missing(path, found, findings);
  const bool all_there = std::includes(begun.begin(), begun.end(), received.begin(), received.end());
  for (std::uint64_t rank = 0; rank < members.ranks && !all_there; ++rank)
    if (std::none_of(found.files.begin(), found.files.end(), [&](const auto& file) { return file.number == rank; }))
      missing.add(members.file_name(rank), true);
  missing.report_misnamed();
}

bool report_if_misnamed(const Tree& member, const MemberFile& file, Findings& findings) {
  const auto mark = mark_of(member);
  if (!mark || mark->number == file.number) return false;
  findings.add({Level::error, is_another, file.name, fmt::format("file {}", file.number),
                fmt::format("file {} of {}", mark->number, mark->master),
                "its frames are not those of this name: move it away, and copy the right file here"});
  return true;
}

void compare_series(const Tree& master, const Tree& member, const std::string& name, Findings& findings) {
  const auto* expected = value_at<std::string>(master, series_path);
  const auto* actual = value_at<std::string>(member, series_path);
  if (expected == nullptr || actual == nullptr || *expected == *actual) return;
  findings.add({Level::error, "a file belongs to another series", name, *expected, *actual,
                "it has the name of one of this series' files; replace it by the right one"});
}

std::unique_ptr<Reference> shifted(std::unique_ptr<Reference> reference, std::uint64_t first) {
  if (first == 0) return reference;
  return std::make_unique<Shifted>(std::move(reference), first);
}

MemberFrames::MemberFrames(std::vector<std::string> paths) : paths_(std::move(paths)), frames_(paths_.size()) {}

void MemberFrames::add(const std::vector<std::unique_ptr<Subject>>& subjects, std::uint64_t first_frame) {
  for (const auto& subject : subjects)
    for (std::size_t i = 0; i < paths_.size(); ++i)
      if (std::find(subject->info().paths.begin(), subject->info().paths.end(), paths_[i]) !=
          subject->info().paths.end())
        for (const auto& chunk : subject->index->chunks())
          frames_[i].push_back(first_frame + subject->grid_position(chunk.number).front());
}

std::vector<const Subject*> MemberFrames::channels(const Tree& master) {
  std::vector<const Subject*> channels;
  std::uint64_t room = 0;
  if (const auto* states = master.find(state_path); states != nullptr && !states->info.shape.empty())
    room = states->info.shape.front();
  for (auto& frames : frames_) {
    std::sort(frames.begin(), frames.end());
    frames.erase(std::unique(frames.begin(), frames.end()), frames.end());
    if (!frames.empty()) room = std::max(room, frames.back() + 1);
  }
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    const auto* dataset = master.find(paths_[i]);
    if (dataset == nullptr || dataset->info.shape.size() < 2) continue;
    auto tree = std::make_unique<TreeDataset>();
    tree->info = dataset->info;
    tree->info.shape.front() = room;
    auto subject = std::make_unique<Subject>();
    subject->tree = tree.get();
    subject->path = paths_[i];
    subject->grid.assign(tree->info.shape.size(), 1);
    subject->grid.front() = room;
    for (const auto frame : frames_[i]) subject->made_chunks.push_back({frame, 0, 0, 0});
    subject->index = std::make_unique<IndexTable>(subject->made_chunks);
    trees_.push_back(std::move(tree));
    channels.push_back(subject.get());
    subjects_.push_back(std::move(subject));
  }
  return channels;
}

}  // namespace penstock::check
