#include "store/format/description.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "frame/series.hpp"
#include "store/format/segment.hpp"
#include "store/format/tree_json.hpp"

namespace penstock::store::format {
namespace {

using nlohmann::json;

constexpr std::size_t frame_dimensions_max = 31;  // of a frame; HDF5 has 32 with the first
constexpr std::size_t filters_max = 32;
constexpr std::size_t filter_values_max = 256;
constexpr std::size_t text_bytes_max = 65536;
constexpr std::uint64_t row_bytes_max = 1 << 20;
constexpr std::uint64_t ranks_max = 65535;

std::string hex_of(const std::vector<std::byte>& bytes) {
  std::string hex;
  for (const auto byte : bytes) hex += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return hex;
}

constexpr std::uint64_t frames_in_place_max = (std::uint64_t{1} << 32) - 2;
constexpr const char* slots_name = "slots";

json to_json(const Places& places) {
  return {{"address", places.address},
          {"step", places.step_bytes},
          {"run", places.run},
          {"run_step", places.run_step_bytes},
          {"bytes", places.place_bytes}};
}

json to_json(const ChunkedNode& node) {
  auto filters = json::array();
  for (const auto& filter : node.filters) filters.push_back({{"id", filter.id}, {"values", filter.values}});
  const auto grid = node.grid();
  const auto chunk = json(grid.ok() ? grid->chunk() : node.chunk_shape);
  json object = {{"path", node.path},        {"type", name(node.type)},       {"frame_shape", node.frame_shape},
                 {"chunk", chunk},           {"frames_max", node.frames_max}, {"filters", filters},
                 {"fill", hex_of(node.fill)}};
  put_attributes(object, node.attributes);
  if (!node.scan_shape.empty()) object["scan"] = node.scan_shape;
  if (const auto& assembled = node.assembled)
    object["assembled"] = {
        {"path", assembled->path}, {"row_gaps", assembled->row_gaps}, {"column_gaps", assembled->column_gaps}};
  if (node.places.placement == Placement::log) return object;
  object["placement"] = slots_name;
  object["places"] = to_json(node.places);
  return object;
}

json to_json(const FrameSubsets& subsets) {
  auto datasets = json::array();
  for (const auto& subset : subsets.datasets) {
    datasets.push_back({{"path", subset.path}});
    put_attributes(datasets.back(), subset.attributes);
  }
  return {{"choice", subsets.choice},
          {"states", subsets.states},
          {"numbers", subsets.numbers},
          {"datasets", std::move(datasets)}};
}

Result<std::string> text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return malformed(fmt::format("'{}' is missing or not text", key));
  return found->get<std::string>();
}

template <typename T>
Result<std::vector<T>> numbers_at(const json& object, const char* key, std::size_t count_max) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array() || found->size() > count_max)
    return malformed(fmt::format("'{}' is missing or not a list of up to {} numbers", key, count_max));
  std::vector<T> numbers;
  for (const auto& item : *found) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() > std::numeric_limits<T>::max())
      return malformed(fmt::format("'{}' holds {}", key, item.dump(-1, ' ', false, json::error_handler_t::replace)));
    numbers.push_back(item.get<T>());
  }
  return numbers;
}

Result<std::vector<std::byte>> bytes_at(const json& object, const char* key) {
  PEN_ASSIGN(const auto hex, text_at(object, key));
  if (hex.size() % 2 != 0 || hex.size() > 16 || hex.find_first_not_of("0123456789abcdef") != std::string::npos)
    return malformed(fmt::format("'{}' is not up to 16 hexadecimal digits", key));
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

Result<std::uint64_t> number_at(const json& object, const char* key, std::uint64_t most) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned() || found->get<std::uint64_t>() > most)
    return malformed(fmt::format("'{}' is missing or not a number up to {}", key, most));
  return found->get<std::uint64_t>();
}

/// Of a dataset whose frames are shown with gaps as well.
Result<void> parse_assembled(const json& object, ChunkedNode& node) {
  const auto found = object.find("assembled");
  if (found == object.end()) return {};
  if (!found->is_object()) return malformed("'assembled' is not an object");
  Assembled assembled;
  PEN_ASSIGN(assembled.path, text_at(*found, "path"));
  PEN_ASSIGN(assembled.row_gaps, numbers_at<std::uint64_t>(*found, "row_gaps", elements_max));
  PEN_ASSIGN(assembled.column_gaps, numbers_at<std::uint64_t>(*found, "column_gaps", elements_max));
  if (assembled.path.empty() || assembled.path.front() != '/' || assembled.path == node.path)
    return malformed(fmt::format("'assembled' of {} has the path '{}'", node.path, assembled.path));
  const auto& shape = node.frame_shape;
  if (shape.size() != 2 || shape[0] > address_max || shape[1] > address_max ||
      shape[0] % (assembled.row_gaps.size() + 1) != 0 || shape[1] % (assembled.column_gaps.size() + 1) != 0)
    return malformed(fmt::format("'assembled' of {} has bands that are not equal", node.path));
  const auto is_wide = [](auto gap) { return gap > gap_pixels_max; };
  for (const auto* gaps : {&assembled.row_gaps, &assembled.column_gaps})
    if (std::any_of(gaps->begin(), gaps->end(), is_wide))
      return malformed(fmt::format("'assembled' of {} has a gap above {}", node.path, gap_pixels_max));
  node.assembled = std::move(assembled);
  return {};
}

/// Of a dataset whose chunks have fixed places.
Result<void> parse_places(const json& object, ChunkedNode& node) {
  if (!object.contains("placement")) return {};
  PEN_ASSIGN(const auto placement, text_at(object, "placement"));
  if (placement != slots_name)
    return malformed(fmt::format("'placement' is '{}'; it must be '{}'", placement, slots_name));
  const auto found = object.find("places");
  if (found == object.end() || !found->is_object()) return malformed("'places' is missing or not an object");
  auto& places = node.places;
  places.placement = Placement::slots;
  PEN_ASSIGN(places.address, number_at(*found, "address", address_max));
  PEN_ASSIGN(places.step_bytes, number_at(*found, "step", address_max));
  PEN_ASSIGN(places.run, number_at(*found, "run", frames_in_place_max));
  PEN_ASSIGN(places.run_step_bytes, number_at(*found, "run_step", address_max));
  PEN_ASSIGN(places.place_bytes, number_at(*found, "bytes", address_max));
  return {};
}

/// What datasets and columns have in common.
template <typename Node>
Result<Node> parse_common(const json& object) {
  if (!object.is_object()) return malformed("a dataset is not an object");
  Node node;
  PEN_ASSIGN(node.path, text_at(object, "path"));
  if (node.path.empty() || node.path.front() != '/')
    return malformed(fmt::format("path '{}' is not absolute", node.path));
  PEN_ASSIGN(const auto type, text_at(object, "type"));
  const auto known = element_type_of(type);
  if (!known) return malformed(fmt::format("type '{}' of {} is unknown", type, node.path));
  node.type = *known;
  PEN_ASSIGN(node.fill, bytes_at(object, "fill"));
  PEN_ASSIGN(node.attributes, attributes_in(object), "{}", node.path);
  if (!node.fill.empty() && node.fill.size() != size_of(node.type))
    return malformed(
        fmt::format("fill of {} has {} bytes instead of {}", node.path, node.fill.size(), size_of(node.type)));
  return node;
}

Result<ChunkedNode> parse_dataset(const json& object) {
  PEN_ASSIGN(auto node, parse_common<ChunkedNode>(object));
  PEN_ASSIGN(node.frame_shape, numbers_at<std::uint64_t>(object, "frame_shape", frame_dimensions_max));
  if (object.contains("scan")) {
    PEN_ASSIGN(node.scan_shape, numbers_at<std::uint64_t>(object, "scan", frame_dimensions_max));
    if (node.scan_shape.size() + node.frame_shape.size() > frame_dimensions_max + 1)
      return malformed(fmt::format("'scan' and 'frame_shape' of {} have more than {} dimensions", node.path,
                                   frame_dimensions_max + 1));
  }
  if (object.contains("chunk")) {
    PEN_ASSIGN(node.chunk_shape, numbers_at<std::uint64_t>(object, "chunk", frame_dimensions_max + 1));
  }
  if (const auto grid = node.grid(); !grid.ok())
    return malformed(fmt::format("'chunk' of {}: {}", node.path, grid.error().message()));
  for (std::size_t i = 0; i < node.scan_shape.size() && i < node.chunk_shape.size(); ++i)
    if (node.chunk_shape[i] != 1) return malformed(fmt::format("'chunk' of {} has more than one point", node.path));
  if (node.frames_a_chunk() > frames_a_chunk_max)
    return malformed(fmt::format("'chunk' of {} has more than {} frames", node.path, frames_a_chunk_max));
  const auto frames = object.find("frames_max");
  if (frames == object.end() || !frames->is_number_unsigned())
    return malformed("'frames_max' is missing or not a number");
  node.frames_max = frames->get<std::uint64_t>();
  const auto filters = object.find("filters");
  if (filters == object.end() || !filters->is_array() || filters->size() > filters_max)
    return malformed("'filters' is missing or not a list");
  for (const auto& item : *filters) {
    if (!item.is_object()) return malformed("a filter is not an object");
    const auto id = item.find("id");
    if (id == item.end() || !id->is_number_unsigned() || id->get<std::uint64_t>() > 65535)
      return malformed("a filter's 'id' is missing or above 65535");
    PEN_ASSIGN(auto values, numbers_at<unsigned>(item, "values", filter_values_max));
    node.filters.push_back({id->get<int>(), std::move(values)});
  }
  PEN_TRY(parse_places(object, node));
  PEN_TRY(parse_assembled(object, node));
  if (node.places.placement != Placement::log && !node.is_chunk_a_frame())
    return malformed(fmt::format("{} has fixed offsets, but a chunk is not a frame", node.path));
  return node;
}

/// Text columns have a type like "S64": so many bytes.
Result<ColumnNode> parse_column_type(const json& object) {
  PEN_ASSIGN(const auto type, text_at(object, "type"));
  if (type.empty() || type.front() != 'S') {
    PEN_ASSIGN(auto node, parse_common<ColumnNode>(object));
    if (object.contains("shape")) {
      PEN_ASSIGN(node.shape, numbers_at<std::uint64_t>(object, "shape", frame_dimensions_max));
    }
    std::uint64_t elements = 1;
    for (const auto extent : node.shape) {
      if (extent == 0 || extent > row_bytes_max / elements)
        return malformed(fmt::format("'shape' of {} has no elements, or more than {}", node.path, row_bytes_max));
      elements *= extent;
    }
    return node;
  }
  std::size_t bytes = 0;
  const auto* end = type.data() + type.size();
  const auto [read_to, error] = std::from_chars(type.data() + 1, end, bytes);
  if (error != std::errc() || read_to != end || bytes == 0 || bytes > text_bytes_max)
    return malformed(fmt::format("type '{}' is not 'S' and 1 to {} bytes", type, text_bytes_max));
  auto number = object;
  number["type"] = name(ElementType::u8);
  PEN_ASSIGN(auto node, parse_common<ColumnNode>(number));
  node.text_bytes = bytes;
  return node;
}

Result<ColumnNode> parse_column(const json& object) {
  if (!object.is_object()) return malformed("a column is not an object");
  PEN_ASSIGN(auto node, parse_column_type(object));
  const auto in_segments = object.find("in_segments");
  node.in_segments = in_segments != object.end() && in_segments->is_boolean() && in_segments->get<bool>();
  return node;
}

Result<Members> parse_members(const json& object) {
  if (!object.is_object()) return malformed("'members' is not an object");
  Members members;
  PEN_ASSIGN(members.stem, text_at(object, "stem"));
  PEN_ASSIGN(members.suffix, text_at(object, "suffix"));
  if ((members.stem + members.suffix).find('/') != std::string::npos || members.stem.empty())
    return malformed(fmt::format("members are named '{}…{}'", members.stem, members.suffix));
  const auto frames = object.find("frames"), ranks = object.find("ranks");
  if (frames == object.end() || !frames->is_number_unsigned()) return malformed("'frames' is missing or not a number");
  if (ranks == object.end() || !ranks->is_number_unsigned() || ranks->get<std::uint64_t>() < 1 ||
      ranks->get<std::uint64_t>() > ranks_max)
    return malformed(fmt::format("'ranks' is missing or not from 1 to {}", ranks_max));
  members.frames = frames->get<std::uint64_t>();
  members.ranks = ranks->get<unsigned>();
  return members;
}

Result<MemberMark> parse_member(const json& object) {
  if (!object.is_object()) return malformed("'member' is not an object");
  MemberMark mark;
  PEN_ASSIGN(mark.master, text_at(object, "master"));
  PEN_ASSIGN(mark.number, number_at(object, "number", ~std::uint64_t{0}));
  return mark;
}

Result<std::string> path_at(const json& object, const char* key) {
  PEN_ASSIGN(auto path, text_at(object, key));
  if (path.empty() || path.front() != '/') return malformed(fmt::format("'{}' is the path '{}'", key, path));
  return path;
}

Result<Subset> parse_subset(const json& object) {
  if (!object.is_object()) return malformed("a subset is not an object");
  Subset subset;
  PEN_ASSIGN(subset.path, path_at(object, "path"));
  PEN_ASSIGN(subset.attributes, attributes_in(object), "{}", subset.path);
  return subset;
}

Result<FrameSubsets> parse_subsets(const json& object) {
  if (!object.is_object()) return malformed("'subsets' is not an object");
  FrameSubsets subsets;
  PEN_ASSIGN(subsets.choice, path_at(object, "choice"));
  PEN_ASSIGN(subsets.states, path_at(object, "states"));
  PEN_ASSIGN(subsets.numbers, path_at(object, "numbers"));
  PEN_ASSIGN(subsets.datasets, parse_list<Subset>(object, "datasets", parse_subset));
  if (subsets.datasets.empty() || subsets.datasets.size() > subsets_max)
    return malformed(
        fmt::format("there are {} subsets of the frames; 1 to {} are possible", subsets.datasets.size(), subsets_max));
  return subsets;
}

/// What is at their paths is replaced: so nothing else may be there, and nothing below.
Result<void> check_subsets(const Description& description) {
  if (description.datasets.empty() || !description.datasets.front().scan_shape.empty())
    return malformed("there are subsets of the frames of a scan, or of no frames");
  std::set<std::string_view> taken;
  const auto take = [&](const auto& nodes) {
    for (const auto& node : nodes) taken.insert(node.path);
  };
  take(description.datasets);
  take(description.columns);
  take(description.groups);
  take(description.values);
  take(description.links);
  for (const auto& subset : description.subsets->datasets) {
    const std::string below = subset.path + "/";
    const auto first_below = taken.lower_bound(below);
    const bool has_parts = first_below != taken.end() && first_below->starts_with(below);
    if (subset.path == "/" || has_parts || !taken.insert(subset.path).second)
      return malformed(fmt::format("a subset of the frames and another object have the path {}", subset.path));
  }
  return {};
}

}  // namespace

std::string describe(const FileLayout& layout) {
  auto datasets = json::array();
  for (const auto& node : layout.chunked) datasets.push_back(to_json(node));
  auto columns = json::array();
  for (const auto& node : layout.columns) {
    columns.push_back(
        {{"path", node.path},
         {"type", node.text_bytes > 0 ? fmt::format("S{}", node.text_bytes) : std::string(name(node.type))},
         {"fill", hex_of(node.fill)}});
    if (!node.shape.empty()) columns.back()["shape"] = node.shape;
    if (node.in_segments) columns.back()["in_segments"] = true;
    put_attributes(columns.back(), node.attributes);
  }
  json document = {{"format", "penstock"}, {"datasets", datasets}, {"columns", columns}, {"sealed", true}};
  document["tree"] = tree_json(layout);
  if (layout.members)
    document["members"] = {{"stem", layout.members->stem},
                           {"suffix", layout.members->suffix},
                           {"frames", layout.members->frames},
                           {"ranks", layout.members->ranks}};
  if (layout.subsets) document["subsets"] = to_json(*layout.subsets);
  if (layout.member) document["member"] = {{"master", layout.member->master}, {"number", layout.member->number}};
  return document.dump(-1, ' ', true, json::error_handler_t::replace);
}

Result<Description> parse_description(std::string_view text) {
  // Deep nesting would exhaust the stack of the parser's result; a description has seven levels.
  bool deep = false;
  const auto document = json::parse(
      text,
      [&deep](int depth, json::parse_event_t, json&) {
        deep = deep || depth > 8;
        return !deep;
      },
      false);
  if (deep) return malformed("nested too deeply");
  if (document.is_discarded() || !document.is_object()) return malformed("not a JSON object");
  PEN_ASSIGN(const auto format, text_at(document, "format"));
  if (format != "penstock") return malformed(fmt::format("'format' is '{}'", format));
  Description description;
  PEN_ASSIGN(description.datasets, parse_list<ChunkedNode>(document, "datasets", parse_dataset));
  PEN_ASSIGN(description.columns, parse_list<ColumnNode>(document, "columns", parse_column));
  if (const auto members = document.find("members"); members != document.end()) {
    PEN_ASSIGN(description.members, parse_members(*members));
  }
  if (const auto member = document.find("member"); member != document.end()) {
    PEN_ASSIGN(description.member, parse_member(*member));
  }
  if (const auto subsets = document.find("subsets"); subsets != document.end()) {
    PEN_ASSIGN(description.subsets, parse_subsets(*subsets));
  }
  if (const auto sealed = document.find("sealed"); sealed != document.end())
    description.sealed = sealed->is_boolean() && sealed->get<bool>();
  if (const auto tree = document.find("tree"); tree != document.end()) {
    PEN_TRY(parse_tree(*tree, description));
    description.has_tree = true;
  }
  if (description.subsets) PEN_TRY(check_subsets(description));
  const auto is_gathered = [](const ChunkedNode& node) { return node.frames_a_chunk() > 1; };
  if ((description.members || description.member) &&
      std::any_of(description.datasets.begin(), description.datasets.end(), is_gathered))
    return malformed("a chunk has several frames in a file that is one of several");
  const auto is_assembled = [](const ChunkedNode& node) { return node.assembled.has_value(); };
  if ((description.members || description.member) &&
      std::any_of(description.datasets.begin(), description.datasets.end(), is_assembled))
    return malformed("frames have gaps in a file that is one of several");
  return description;
}

}  // namespace penstock::store::format
