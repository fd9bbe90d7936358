/// Moves the objects of Penstock's own tree to where a user's layout wants them.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>

#include "recorder/tree/layout/user_layout.hpp"
#include "recorder/tree/nexus/nexus.hpp"
#include "recorder/tree/nexus/nexus_tree.hpp"

namespace penstock::recorder {
namespace {

using store::Attribute;
using store::FileLayout;
using store::Value;
using Kind = LayoutNode::Kind;

constexpr const char* own_frames = "/entry/data/data";
constexpr const char* end_time_path = "/entry/end_time";
/// What has its place only in the groups that it is of.
constexpr const char* definition_path = "/entry/definition";

bool is_in(std::string_view path, std::string_view group) {
  if (group == "/") return true;
  return path.starts_with(group) && (path.size() == group.size() || path[group.size()] == '/');
}

Value value_of(const MetaValue& told) {
  return std::visit(
      [](const auto& v) -> Value {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::string>)
          return v.substr(0, v.find('\0'));
        else if constexpr (std::is_same_v<std::decay_t<decltype(v)>, MetaArray>)
          return store::ArrayValue{v.spec, v.data};  // expanded when the frame came
        else
          return store::scalar(v);
      },
      told);
}

void put(std::vector<Attribute>& attributes, Attribute attribute) {
  const auto same =
      std::find_if(attributes.begin(), attributes.end(), [&](const auto& a) { return a.name == attribute.name; });
  if (same == attributes.end())
    attributes.push_back(std::move(attribute));
  else
    *same = std::move(attribute);
}

const MetaValue* edge_of(const LayoutValue& wanted, const EdgeValues& edges) {
  const auto& frame = wanted.when == When::first ? edges.first : edges.last;
  if (!frame) return nullptr;
  const auto found = std::find_if(frame->metadata.begin(), frame->metadata.end(),
                                  [&](const auto& told) { return told.first == wanted.name; });
  return found == frame->metadata.end() ? nullptr : &found->second;
}

/// What areaDetector's datasets of attributes say of themselves, as far as the stream tells it.
std::vector<Attribute> ndattributes(const std::string& name) {
  return {{"NDAttrName", name},
          {"NDAttrDescription", std::string()},
          {"NDAttrSourceType", std::string("NDAttrSourceUndefined")},
          {"NDAttrSource", std::string()}};
}

/// Where each object of Penstock's own tree goes.
class Destinations {
 public:
  /// `paths` are those of all nodes and what is above them; `columns` of those that frames' values go to.
  Destinations(const std::vector<LayoutNode>& nodes, const std::set<std::string>& paths, const Series& series,
               const std::vector<std::string>& columns)
      : paths_(paths), leaves_(columns.begin(), columns.end()) {
    for (const auto& node : nodes) {
      if (node.kind != Kind::group) leaves_.insert(node.path);
      if (node.kind == Kind::series && !is_in(node.from, kept_group)) placed_.emplace(node.from, node.path);
      if (node.kind == Kind::group && !node.from.empty()) {
        taken_.emplace_back(node.from, node.path);
        takers_.insert(node.path);
      }
      if (node.kind == Kind::frames && node.is_default) place_frames(node, series);
    }
    for (const auto& node : nodes)
      if (node.kind == Kind::frames) place_frames(node, series);
    std::stable_sort(taken_.begin(), taken_.end(),
                     [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  }

  /// For values, and columns that are not frames' values.
  std::string of(const std::string& path) const {
    if (is_in(path, kept_group) || path == "/") return path;
    if (const auto placed = placed_.find(path); placed != placed_.end()) return placed->second;
    if (auto taken = taken_place(path, false)) return *taken;
    return rest_path + path.substr(std::string_view(own_entry).size());
  }

  /// Of a channel's frames, whose own path is `own`.
  std::string of_frames(std::size_t channel, const std::string& own) const {
    if (const auto placed = frames_.find(channel); placed != frames_.end()) return placed->second;
    if (auto taken = taken_place(own, false)) return *taken;
    if (channel == 0) return rest_path + own.substr(std::string_view(own_entry).size());
    // Beside those of the first channel.
    const auto first = of_frames(0, own_frames);
    const auto path = first.substr(0, first.rfind('/')) + own.substr(own.rfind('/'));
    return is_free(path) && !paths_.contains(path) ? path : rest_path + own.substr(std::string_view(own_entry).size());
  }

  bool is_taken(const std::string& path) const { return taken_place(path, false).has_value(); }
  /// Of a group that lies in one that is taken over.
  std::optional<std::string> of_group(const std::string& path) const { return taken_place(path, true); }

 private:
  void place_frames(const LayoutNode& node, const Series& series) {
    auto channel = node.channel;
    if (!node.channel_name.empty()) {
      const auto found = std::find(series.channels.begin(), series.channels.end(), node.channel_name);
      channel = static_cast<std::uint64_t>(found - series.channels.begin());
    }
    if (channel < series.channels.size()) frames_.emplace(channel, node.path);
  }

  /// Nothing where something else may come to be there: what the layout names, what it takes over elsewhere.
  std::optional<std::string> taken_place(const std::string& path, bool is_group) const {
    for (const auto& [from, group] : taken_) {
      if (!is_in(path, from)) continue;
      auto candidate = (group == "/" ? "" : group) + path.substr(from.size());
      const bool open = (is_group || !paths_.contains(candidate)) && is_free(candidate) &&
                        !is_in(candidate, kept_group) && taker_of(candidate) == group;
      return open ? std::optional(std::move(candidate)) : std::nullopt;
    }
    return std::nullopt;
  }

  /// The innermost group around `path` that takes one over.
  std::string taker_of(const std::string& path) const {
    for (auto end = path.size(); end != 0 && end != std::string::npos; end = path.rfind('/', end - 1))
      if (takers_.contains(path.substr(0, end))) return path.substr(0, end);
    return "/";
  }

  /// Neither is there a dataset or link, nor above.
  bool is_free(const std::string& path) const {
    for (auto end = path.size(); end != 0 && end != std::string::npos; end = path.rfind('/', end - 1))
      if (leaves_.contains(path.substr(0, end))) return false;
    return true;
  }

  const std::set<std::string>& paths_;
  std::set<std::string> takers_;
  std::set<std::string> leaves_;  ///< that the layout names, and columns
  std::map<std::string, std::string> placed_;
  std::vector<std::pair<std::string, std::string>> taken_;  ///< the longest path first
  std::map<std::size_t, std::string> frames_;
};

/// Of a node of the layout, as far as their values are known; `own` are the values of Penstock's own tree.
std::vector<Attribute> attributes_of(const LayoutNode& node, const EdgeValues& edges,
                                     const std::map<std::string, const Value*>& own) {
  std::vector<Attribute> attributes;
  for (const auto& wanted : node.attributes) {
    if (wanted.constant) put(attributes, {wanted.name, *wanted.constant});
    if (wanted.metadata)
      if (const auto* told = edge_of(*wanted.metadata, edges)) put(attributes, {wanted.name, value_of(*told)});
    if (const auto found = own.find(wanted.series); found != own.end()) put(attributes, {wanted.name, *found->second});
  }
  return attributes;
}

/// A chain of transformations leads to where its steps are now.
void follow(const Destinations& destinations, Value& value) {
  if (auto* path = std::get_if<std::string>(&value); path != nullptr && path->starts_with("/entry/"))
    *path = destinations.of(*path);
}
void follow(const Destinations& destinations, std::vector<Attribute>& attributes) {
  for (auto& attribute : attributes)
    if (attribute.name == "depends_on") follow(destinations, attribute.value);
}

/// Makes the new layout, part by part.
class Mover {
 public:
  Mover(FileLayout own, const std::vector<LayoutNode>& nodes, const Destinations& destinations, const EdgeValues& edges)
      : own_(std::move(own)), nodes_(nodes), destinations_(destinations), edges_(edges) {
    for (const auto& node : own_.values) values_.emplace(node.path, &node.value);
    for (const auto& node : nodes) by_path_.emplace(node.path, &node);
  }

  /// The first of `paths` has frames that name none of them.
  void share_out(const std::vector<std::string>& paths, const std::string& choice) {
    auto& all = new_.chunked.front();
    store::FrameSubsets subsets{choice, state_path, std::string(all_frames_group) + "/destination", {}};
    for (const auto& path : paths) {
      store::Subset subset{path, own_.chunked.front().attributes};
      add_user_attributes(path, subset.attributes);
      subsets.datasets.push_back(std::move(subset));
    }
    all.path = std::string(all_frames_group) + "/data";
    all.attributes = own_.chunked.front().attributes;
    new_.groups.push_back({all_frames_group, {nx_class("NXcollection"), {"signal", std::string("data")}}});
    new_.columns.push_back(
        {subsets.numbers,
         ElementType::i16,
         std::vector<std::byte>(2, std::byte{0xFF}),
         {description("position in `destinations` of each frame's dataset, when the file is finished; -1: none")}});
    new_.values.push_back({std::string(all_frames_group) + "/destinations",
                           paths,
                           {description("datasets that show the frames in `data`; the first has those that name none"),
                            {"chosen_by", choice}}});
    new_.subsets = std::move(subsets);
  }

  void move(const std::vector<MetaColumn>& columns, const std::vector<std::string>& column_paths,
            bool with_ndattributes) {
    add_groups();
    move_values();
    move_frames();
    move_columns(columns, column_paths, with_ndattributes);
    add_new_values();
    new_.members = own_.members;
  }
  FileLayout take() { return std::move(new_); }

 private:
  void add_user_attributes(const std::string& path, std::vector<Attribute>& attributes) const {
    const auto node = by_path_.find(path);
    if (node == by_path_.end()) return;
    for (auto& attribute : attributes_of(*node->second, edges_, values_)) put(attributes, std::move(attribute));
  }

  void add_groups() {
    bool has_root = false;
    for (const auto& node : nodes_) {
      if (node.kind != Kind::group) continue;
      store::GroupNode group{node.path, {}};
      const auto& from = node.path == "/" ? node.path : node.from;
      for (const auto& own : own_.groups)
        if (!from.empty() && own.path == from)
          for (const auto& attribute : own.attributes)
            if (node.path != "/" || attribute.name != "default") put(group.attributes, attribute);
      add_user_attributes(node.path, group.attributes);
      has_root = has_root || node.path == "/";
      new_.groups.push_back(std::move(group));
    }
    for (const auto& own : own_.groups) {
      if (own.path == "/" && !has_root) new_.groups.push_back({own.path, without_default(own.attributes)});
      if (is_in(own.path, kept_group)) new_.groups.push_back(own);
      const auto place = own.path == "/" ? std::nullopt : destinations_.of_group(own.path);
      if (place && !by_path_.contains(*place)) new_.groups.push_back({*place, own.attributes});
    }
  }

  static std::vector<Attribute> without_default(std::vector<Attribute> attributes) {
    std::erase_if(attributes, [](const auto& attribute) { return attribute.name == "default"; });
    return attributes;
  }

  void move_values() {
    bool any_rest = false;
    for (const auto& own : own_.values) {
      auto node = own;
      node.path = destinations_.of(own.path);
      const bool has_place = !is_in(node.path, rest_path);
      if (!has_place && (own.path == definition_path || own.path == title_path)) continue;
      any_rest = any_rest || is_in(node.path, rest_path);
      if (own.path.ends_with("/depends_on")) follow(destinations_, node.value);
      follow(destinations_, node.attributes);
      add_user_attributes(node.path, node.attributes);
      new_.values.push_back(std::move(node));
    }
    if (any_rest) new_.groups.push_back({rest_path, {nx_class("NXcollection")}});
  }

  void move_frames() {
    for (std::size_t channel = 0; channel < own_.chunked.size(); ++channel) {
      auto node = own_.chunked[channel];
      node.path = destinations_.of_frames(channel, node.path);
      add_user_attributes(node.path, node.attributes);
      for (const auto& link : own_.links)
        if (link.target == own_.chunked[channel].path && destinations_.is_taken(link.path))
          new_.links.push_back({destinations_.of(link.path), node.path});
      new_.chunked.push_back(std::move(node));
    }
  }

  void move_columns(const std::vector<MetaColumn>& columns, const std::vector<std::string>& column_paths,
                    bool with_ndattributes) {
    new_.columns = own_.columns;
    bool any_rest = false;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      auto& node = new_.columns[fixed_columns + i];
      node.path = column_paths[i];
      any_rest = any_rest || is_in(node.path, rest_metadata_path);
      if (with_ndattributes) node.attributes = ndattributes(columns[i].name);
      add_user_attributes(node.path, node.attributes);
    }
    if (any_rest) new_.groups.push_back({rest_metadata_path, {nx_class("NXcollection")}});
  }

  /// Constants, and of the frames' values those of a single frame.
  void add_new_values() {
    for (const auto& node : nodes_) {
      if (node.kind == Kind::constant)
        new_.values.push_back({node.path, *node.value, attributes_of(node, edges_, values_)});
      if (node.kind == Kind::metadata && node.metadata.when != When::every)
        if (const auto* told = edge_of(node.metadata, edges_))
          new_.values.push_back({node.path, value_of(*told), attributes_of(node, edges_, values_)});
    }
  }

  const FileLayout own_;
  const std::vector<LayoutNode>& nodes_;
  const Destinations& destinations_;
  const EdgeValues& edges_;
  std::map<std::string, const Value*> values_;
  std::map<std::string, const LayoutNode*> by_path_;
  FileLayout new_;
};

/// Every path at which something is, with those above it.
std::set<std::string> paths_in(const FileLayout& layout) {
  std::set<std::string> paths;
  const auto add = [&](const std::string& path) {
    for (auto end = path.size(); end != 0 && end != std::string::npos; end = path.rfind('/', end - 1))
      if (!paths.insert(path.substr(0, end)).second) return;
  };
  for (const auto& node : layout.groups) add(node.path);
  for (const auto& node : layout.values) add(node.path);
  for (const auto& node : layout.chunked) add(node.path);
  for (const auto& node : layout.columns) add(node.path);
  for (const auto& node : layout.links) add(node.path);
  if (layout.subsets)
    for (const auto& node : layout.subsets->datasets) add(node.path);
  return paths;
}

/// For a recovery: what gets the last row of which column. Lines of column, path and, of an attribute, its name.
void add_last_rows(const std::vector<LayoutNode>& nodes, const std::vector<MetaColumn>& columns,
                   const std::vector<std::string>& column_paths, FileLayout& layout) {
  std::vector<std::string> lines;
  const auto add = [&](const LayoutValue& value, const std::string& where) {
    if (value.when != When::last) return;
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (columns[i].name == value.name) lines.push_back(column_paths[i] + '\t' + where);
  };
  for (const auto& node : nodes) {
    if (node.kind == Kind::metadata) add(node.metadata, node.path);
    for (const auto& attribute : node.attributes)
      if (attribute.metadata) add(*attribute.metadata, node.path + '\t' + attribute.name);
  }
  if (lines.empty()) return;
  layout.values.push_back({std::string(layout_path) + "/last_rows",
                           std::move(lines),
                           {description("column whose last row has the last frame's value, and what gets it")}});
}

}  // namespace

std::vector<std::string> UserLayout::column_paths(const std::vector<MetaColumn>& columns) const {
  std::vector<std::string> paths;
  paths.reserve(columns.size());
  for (const auto& column : columns) paths.push_back(metadata_path(column.name));
  return paths;
}

/// Further names, of what may or may not be there.
std::vector<store::LinkNode> UserLayout::links(const std::function<std::string(const std::string&)>& place) const {
  std::vector<store::LinkNode> links;
  for (const auto& node : nodes_) {
    if (node.kind == Kind::link) links.push_back({node.path, node.target});
    std::string target;
    if (node.kind == Kind::series) target = place(node.from);
    if (node.kind == Kind::metadata && node.metadata.when == When::every) target = metadata_path(node.metadata.name);
    if (!target.empty() && target != node.path) links.push_back({node.path, target});
  }
  return links;
}

FileLayout UserLayout::apply(FileLayout own, const Series& series, const std::vector<MetaColumn>& columns,
                             const EdgeValues& edges) const {
  const auto columns_at = column_paths(columns);
  const Destinations destinations(nodes_, paths_, series, columns_at);
  const bool is_scan = !own.chunked.front().scan_shape.empty();
  Mover mover(std::move(own), nodes_, destinations, edges);
  mover.move(columns, columns_at, ndattributes_);
  if (has_destinations() && !is_scan) mover.share_out(destinations_, metadata_path(destination_));
  auto layout = mover.take();
  layout.groups.push_back({layout_path, {nx_class("NXcollection")}});
  layout.values.push_back(
      {std::string(layout_path) + "/name", name_, {description("layout with which the file was recorded")}});
  layout.values.push_back({std::string(layout_path) + "/end_time",
                           destinations.of(end_time_path),
                           {description("path of the end time, which a complete file has")}});
  add_last_rows(nodes_, columns, columns_at, layout);
  auto there = paths_in(layout);
  for (auto& link : links([&](const auto& path) { return destinations.of(path); }))
    if (there.contains(link.target) && there.insert(link.path).second) layout.links.push_back(std::move(link));
  return layout;
}

std::string UserLayout::place_of(const std::string& path, const Series& series,
                                 const std::vector<MetaColumn>& columns) const {
  return Destinations(nodes_, paths_, series, column_paths(columns)).of(path);
}

std::optional<std::string> UserLayout::plot_axis_path(const Series& series, const std::vector<MetaColumn>& columns,
                                                      const std::string& axis) const {
  const auto columns_at = column_paths(columns);
  const auto group = Destinations(nodes_, paths_, series, columns_at).of_group("/entry/data");
  if (!group) return std::nullopt;
  auto path = (*group == "/" ? "" : *group) + "/" + axis;
  if (paths_.contains(path) || std::find(columns_at.begin(), columns_at.end(), path) != columns_at.end())
    return std::nullopt;
  const auto node = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& each) { return each.path == *group; });
  const auto is_axes = [](const auto& attribute) { return attribute.name == "axes"; };
  const bool has_axes = node != nodes_.end() && std::any_of(node->attributes.begin(), node->attributes.end(), is_axes);
  return has_axes ? std::nullopt : std::optional(std::move(path));
}

store::FinalValues UserLayout::apply(store::FinalValues own, const FileLayout& made, const Series& series,
                                     const std::vector<MetaColumn>& columns, const EdgeValues& edges) const {
  const Destinations destinations(nodes_, paths_, series, column_paths(columns));
  std::map<std::string, const LayoutNode*> by_path;
  for (const auto& node : nodes_) by_path.emplace(node.path, &node);
  std::set<std::string> late;
  for (auto& node : own.values) {
    node.path = destinations.of(node.path);
    follow(destinations, node.attributes);
    if (const auto wanted = by_path.find(node.path); wanted != by_path.end())
      for (auto& attribute : attributes_of(*wanted->second, edges, {})) put(node.attributes, std::move(attribute));
    late.insert(node.path);
  }
  auto there = paths_in(made);
  for (const auto& node : nodes_) {
    const bool single = node.kind == Kind::metadata && node.metadata.when != When::every;
    if (const auto* told = single ? edge_of(node.metadata, edges) : nullptr) {
      own.values.push_back({node.path, value_of(*told), attributes_of(node, edges, {})});
      late.insert(node.path);
    } else if (there.contains(node.path)) {
      for (const auto& wanted : node.attributes)
        if (const auto* value = wanted.metadata ? edge_of(*wanted.metadata, edges) : nullptr)
          own.attributes.emplace_back(node.path, Attribute{wanted.name, value_of(*value)});
    }
  }
  for (auto& link : links([&](const auto& path) { return destinations.of(path); }))
    if (late.contains(link.target) && !late.contains(link.path)) own.links.push_back(std::move(link));
  return own;
}

}  // namespace penstock::recorder
