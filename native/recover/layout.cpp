#include "recover/layout.hpp"

#include <algorithm>
#include <set>

#include "base/crc32c.hpp"
#include "base/time/clock.hpp"
#include "check/names.hpp"
#include "check/structures/scan_places.hpp"
#include "recover/completion.hpp"
#include "recover/ledger_rows.hpp"
#include "recover/members.hpp"

namespace penstock::recover {
namespace {

using check::Level;
using store::format::Description;

constexpr std::uint64_t piece_bytes = 1 << 20;
/// Of a text that lies outside the description.
constexpr std::uint64_t text_bytes_max = std::uint64_t{1} << 30;

Result<void> read_exactly(File& file, MutableBytes into, std::uint64_t address) {
  PEN_ASSIGN(const auto count, file.read_at(into, address));
  return count == into.size() ? Result<void>{} : make_error(Errc::truncated, "the file ends before it");
}

Result<void> verify(File& file, const store::ValuePlace& place) {
  std::vector<std::byte> piece(std::min(piece_bytes, place.bytes));
  std::uint32_t crc = 0;
  for (std::uint64_t done = 0; done < place.bytes; done += piece.size()) {
    piece.resize(std::min(piece_bytes, place.bytes - done));
    PEN_TRY(read_exactly(file, piece, place.address + done));
    crc = crc32c(piece, crc);
  }
  if (crc == place.crc) return {};
  return make_error(Errc::corrupt, "CRC-32C {:08x} instead of {:08x}", crc, place.crc);
}

/// Of a value that lies outside the description: an array stays where it is.
Result<void> verify_or_load(File& file, store::ValueNode& node, bool with_data) {
  const auto& place = *node.place;
  PEN_ASSIGN(const auto file_bytes, file.size());
  if (place.address > file_bytes || place.bytes > file_bytes - place.address)
    return make_error(Errc::truncated, "the file ends before it");
  PEN_TRY(verify(file, place));
  auto* array = std::get_if<store::ArrayValue>(&node.value);
  if (array != nullptr && !with_data) return {};
  if (place.bytes > text_bytes_max)
    return make_error(Errc::too_large, "{} bytes; at most {} are possible", place.bytes, text_bytes_max);
  std::vector<std::byte> bytes(place.bytes);
  PEN_TRY(read_exactly(file, bytes, place.address));
  if (array != nullptr)
    array->data = std::move(bytes);
  else
    node.value = std::string(as_text(bytes));
  node.place.reset();
  return {};
}

/// Those that are damaged become findings.
bool is_there(File& file, store::ValueNode& node, bool with_data, check::Findings& findings) {
  if (!node.place) return true;
  const auto address = node.place->address;
  const auto done = verify_or_load(file, node, with_data);
  if (done.ok()) return true;
  findings.add({Level::error, "a corrupt value is left out", fmt::format("{} at offset {}", node.path, address),
                "the checksum in the description", done.error().message(),
                "copy it from another file of the same detector"});
  return false;
}

/// The usual place of frames, also where a user's layout had them elsewhere, unless something else is there.
void add_frames_group(const Description& description, store::FileLayout& layout) {
  constexpr const char* group = "/entry/data";
  constexpr const char* frames = "/entry/data/data";
  const auto& node_of_first = description.datasets.front();
  const auto& first = node_of_first.assembled ? node_of_first.assembled->path : node_of_first.path;
  const auto in_the_way = [&](const auto& node) {
    return node.path == group || node.path.starts_with(std::string(frames) + "/") ||
           (node.path == frames && first != frames);
  };
  if (std::any_of(description.datasets.begin(), description.datasets.end(), in_the_way) ||
      std::any_of(description.columns.begin(), description.columns.end(), in_the_way))
    return;
  layout.groups.push_back({group, {{"signal", std::string("data")}, {"NX_class", std::string("NXdata")}}});
  if (first != frames) layout.links.push_back({frames, first});
}

/// Of a file of before.
void add_least_tree(const Description& description, const Segments* master, store::FileLayout& layout) {
  const auto group = [&](const char* path, const char* of_class, std::vector<store::Attribute> attributes) {
    attributes.push_back({"NX_class", std::string(of_class)});
    layout.groups.push_back({path, std::move(attributes)});
  };
  group("/", "NXroot", {{"default", std::string("entry")}});
  group("/entry", "NXentry", {{"default", std::string("data")}});
  add_frames_group(description, layout);
  group("/entry/penstock", "NXcollection", {});
  if (description.members) mark_as_master(layout);
  if (description.member && master != nullptr)
    layout.groups.push_back(store::member_attributes(*description.member, *master->description.members));
  layout.values.push_back({"/entry/penstock/frames_announced", store::scalar(layout.chunked.front().frames_max), {}});
}

/// Rows that no segment has. States and times of arrival follow from the frames.
void report_lost_rows(const Segments& segments, check::Findings& findings) {
  if (segments.candidates.empty()) return;
  const auto& subsets = segments.description.subsets;
  for (const auto& column : segments.description.columns) {
    if (column.in_segments || column.path == check::state_path || column.path == check::places_path ||
        column.path == received_path || (subsets && column.path == subsets->numbers))
      continue;
    findings.add({Level::error,
                  "the rows of a column cannot be recovered",
                  column.path,
                  {},
                  "only HDF5's structures held them",
                  "its rows hold the fill value"});
  }
}

/// The values of the first frame that stand in the places of the last frame's, where no segment has those.
void leave_out_last_rows(const Segments& segments, store::FileLayout& layout, check::Findings& findings) {
  for (const auto& wanted : last_rows_of(segments.description)) {
    const auto is_in_segments = [&](const auto& column) { return column.in_segments && column.path == wanted.column; };
    const auto& columns = segments.description.columns;
    if (std::any_of(columns.begin(), columns.end(), is_in_segments)) continue;
    const auto is_it = [&](const auto& node) { return node.path == wanted.path; };
    const auto remove_attribute = [&](auto& nodes) {
      for (auto& node : nodes)
        if (is_it(node)) std::erase_if(node.attributes, [&](const auto& a) { return a.name == wanted.attribute; });
    };
    if (wanted.attribute.empty()) {
      std::erase_if(layout.values, is_it);
    } else {
      remove_attribute(layout.groups);
      remove_attribute(layout.values);
      remove_attribute(layout.chunked);
      remove_attribute(layout.columns);
      if (layout.subsets) remove_attribute(layout.subsets->datasets);
    }
    if (segments.candidates.empty()) continue;
    findings.add({check::Level::error,
                  "a value of the last frame cannot be recovered",
                  wanted.attribute.empty() ? wanted.path : fmt::format("{}/@{}", wanted.path, wanted.attribute),
                  {},
                  "only HDF5's structures held it",
                  "it is left out"});
  }
}

/// Those to what is left out, or was never there, could not be made.
std::vector<store::LinkNode> possible_links(const std::vector<store::LinkNode>& links,
                                            const store::FileLayout& layout) {
  std::set<std::string, std::less<>> paths{"/"};
  const auto add = [&](std::string path) {
    for (; !path.empty() && paths.insert(path).second; path.erase(path.rfind('/'))) {
    }
  };
  for (const auto& node : layout.groups) add(node.path);
  for (const auto& node : layout.values) add(node.path);
  for (const auto& node : layout.columns) add(node.path);
  for (const auto& node : layout.chunked) {
    add(node.path);
    if (node.assembled) add(node.assembled->path);
  }
  if (layout.subsets)
    for (const auto& node : layout.subsets->datasets) add(node.path);
  std::vector<store::LinkNode> possible;
  for (const auto& link : links) {
    if (!paths.contains(link.target)) continue;
    add(link.path);
    possible.push_back(link);
  }
  return possible;
}

}  // namespace

store::FileLayout rebuilt_layout(File& file, const Segments& segments, const Segments* master,
                                 check::Findings& findings) {
  const auto& description = segments.description;
  store::FileLayout layout;
  layout.chunked = description.datasets;
  layout.columns = description.columns;
  layout.members = description.members;
  layout.member = description.member;
  layout.subsets = description.subsets;
  if (description.has_tree) {
    layout.groups = description.groups;
    for (auto node : description.values)
      if (is_there(file, node, false, findings)) layout.values.push_back(std::move(node));
    leave_out_last_rows(segments, layout, findings);
    layout.links = possible_links(description.links, layout);
  } else {
    add_least_tree(description, master, layout);
    findings.add({Level::error,
                  "what only HDF5's structures held is lost",
                  {},
                  {},
                  "the file was recorded by a version whose description has no masks, geometry and user data",
                  "copy them from another file of the same detector"});
  }
  layout.groups.push_back({"/", {{"penstock_rebuilt", iso_time(realtime_ns())}}});
  report_lost_rows(segments, findings);
  return layout;
}

void add_missing_parts(File& file, const check::Tree& tree, const Segments& segments, check::Findings& findings,
                       store::FinalValues& values) {
  const auto& description = segments.description;
  for (const auto& group : description.groups) {
    const auto same = [&](const auto& there) { return there.path == group.path; };
    if (std::none_of(tree.groups.begin(), tree.groups.end(), same)) values.groups.push_back(group);
  }
  for (auto node : description.values)
    if (tree.find(node.path) == nullptr && is_there(file, node, true, findings))
      values.values.push_back(std::move(node));
  for (const auto& link : description.links) {
    const auto* target = tree.find(link.target);
    if (target != nullptr && tree.find(link.path) != target) values.links.push_back(link);
  }
}

Result<void> load_value(File& file, store::ValueNode& node) {
  return node.place ? verify_or_load(file, node, true) : Result<void>{};
}

const std::string* described_text(const Description& description, std::string_view path) {
  for (const auto& node : description.values)
    if (node.path == path && !node.place) return std::get_if<std::string>(&node.value);
  return nullptr;
}

}  // namespace penstock::recover
