#include "recorder/tree/layout/user_layout.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/fields.hpp"

namespace penstock::recorder {
namespace {

using nlohmann::json;
using store::Value;

constexpr std::size_t nodes_max = 65536;
constexpr std::size_t attributes_max = 4096;  // of one object
constexpr std::size_t path_bytes_max = 4096;
constexpr std::size_t text_bytes_max = 65536;
constexpr std::size_t numbers_max = 65536;
constexpr std::size_t declared_text_bytes = 256;
/// areaDetector counts seconds from 1990-01-01.
constexpr std::int64_t epics_epoch_ns = 631'152'000'000'000'000;
constexpr std::int64_t second_ns = 1'000'000'000;

bool is_below(std::string_view path, std::string_view group) {
  return path.size() > group.size() && path.starts_with(group) && path[group.size()] == '/';
}

Result<std::string> path_at(Fields& fields, const char* field) {
  PEN_ASSIGN(auto path, fields.text(field, ""));
  const bool plain = path.size() > 1 && path.size() <= path_bytes_max && path.front() == '/' && path.back() != '/' &&
                     path.find("//") == std::string::npos && path.find('\0') == std::string::npos &&
                     (path + '/').find("/./") == std::string::npos;
  if (!plain && path != "/") return fields.wrong(field, "an absolute path of an HDF5 object");
  return path;
}

/// One element or a list of them, as `encode` makes bytes of each.
template <typename T>
Result<Value> numbers_of(const json& value, ElementType type, const std::string& where) {
  store::ArrayValue array{{type, {}}, {}};
  const auto add = [&](const json& item) {
    T number{};
    if constexpr (std::is_floating_point_v<T>) {
      if (!item.is_number()) return false;
      number = item.get<T>();
    } else if (item.is_number_unsigned()) {
      if (!std::in_range<T>(item.get<std::uint64_t>())) return false;
      number = item.get<T>();
    } else {
      if (!item.is_number_integer() || !std::in_range<T>(item.get<std::int64_t>())) return false;
      number = item.get<T>();
    }
    array.data.resize(array.data.size() + sizeof number);
    store_le(array.data.data() + array.data.size() - sizeof number, number);
    return true;
  };
  bool right =
      value.is_array() ? value.size() <= numbers_max && std::all_of(value.begin(), value.end(), add) : add(value);
  if (value.is_array()) array.spec.shape = {value.size()};
  if (!right)
    return make_error(Errc::invalid_argument, "{} is {}; it must be of type {}", where, value.dump().substr(0, 100),
                      penstock::name(type));
  return Value(std::move(array));
}

bool is_text(const json& item) {
  return item.is_string() && item.get_ref<const std::string&>().size() <= text_bytes_max &&
         item.get_ref<const std::string&>().find('\0') == std::string::npos;
}

Result<Value> text_of(const json& value, const std::string& where) {
  if (is_text(value)) return Value(value.get<std::string>());
  if (value.is_array() && value.size() <= numbers_max && std::all_of(value.begin(), value.end(), is_text))
    return Value(value.get<std::vector<std::string>>());
  return make_error(Errc::invalid_argument, "{} is {}; it must be text", where, value.dump().substr(0, 100));
}

/// {"type": "int32", "value": …}: a number, a text or a truth value, or a list of numbers or texts.
Result<Value> value_from(const json& object, const std::string& where) {
  PEN_ASSIGN(auto fields, Fields::of(object, where));
  PEN_TRY(fields.require("value"));
  PEN_ASSIGN(const auto type, fields.text("type", "text"));
  const auto& value = *fields.find("value");
  PEN_TRY(fields.refuse_others());
  const auto at = where + ".value";
  if (type == "text") return text_of(value, at);
  if (type == "bool" && value.is_boolean()) return Value(store::Boolean{value.get<bool>()});
  const auto element = element_type_of(type);
  if (!element) return fields.wrong("type", "text, bool or a type of numbers, and the value of that type");
  switch (*element) {
    case ElementType::u8: return numbers_of<std::uint8_t>(value, *element, at);
    case ElementType::u16: return numbers_of<std::uint16_t>(value, *element, at);
    case ElementType::u32: return numbers_of<std::uint32_t>(value, *element, at);
    case ElementType::u64: return numbers_of<std::uint64_t>(value, *element, at);
    case ElementType::i8: return numbers_of<std::int8_t>(value, *element, at);
    case ElementType::i16: return numbers_of<std::int16_t>(value, *element, at);
    case ElementType::i32: return numbers_of<std::int32_t>(value, *element, at);
    case ElementType::i64: return numbers_of<std::int64_t>(value, *element, at);
    case ElementType::f32: return numbers_of<float>(value, *element, at);
    case ElementType::f64: return numbers_of<double>(value, *element, at);
  }
  return make_error(Errc::internal, "{} has no type", where);
}

Result<When> when_from(Fields& fields) {
  PEN_ASSIGN(const auto when, fields.text("when", "every"));
  if (when == "every") return When::every;
  if (when == "first") return When::first;
  if (when == "last") return When::last;
  return fields.wrong("when", "every, first or last");
}

Result<LayoutValue> metadata_from(const json& object, const std::string& where) {
  PEN_ASSIGN(auto fields, Fields::of(object, where));
  LayoutValue value;
  PEN_ASSIGN(value.name, fields.text("name", ""));
  if (value.name.empty()) return fields.wrong("name", "the name of a value that frames bring");
  PEN_ASSIGN(value.when, when_from(fields));
  PEN_ASSIGN(const auto type, fields.text("type", ""));
  PEN_TRY(fields.refuse_others());
  if (type == "text") value.declared = MetaColumn{value.name, ElementType::u8, declared_text_bytes};
  if (type == "int") value.declared = MetaColumn{value.name, ElementType::i64};
  if (type == "uint") value.declared = MetaColumn{value.name, ElementType::u64};
  if (type == "float") value.declared = MetaColumn{value.name, ElementType::f64};
  if (!type.empty() && !value.declared) return fields.wrong("type", "int, uint, float or text");
  return value;
}

Result<LayoutAttribute> attribute_from(const json& object, const std::string& where) {
  PEN_ASSIGN(auto fields, Fields::of(object, where));
  LayoutAttribute attribute;
  PEN_ASSIGN(attribute.name, fields.text("name", ""));
  if (attribute.name.empty() || attribute.name.find('\0') != std::string::npos)
    return fields.wrong("name", "the attribute's name");
  if (const auto* constant = fields.find("constant"); constant != nullptr) {
    PEN_ASSIGN(attribute.constant, value_from(*constant, fields.path_of("constant")));
  }
  if (const auto* metadata = fields.find("metadata"); metadata != nullptr) {
    PEN_ASSIGN(attribute.metadata, metadata_from(*metadata, fields.path_of("metadata")));
    if (attribute.metadata->when == When::every) return fields.wrong("metadata", "the first or the last frame's value");
  }
  PEN_ASSIGN(attribute.series, fields.text("series", ""));
  if (attribute.constant.has_value() + attribute.metadata.has_value() + !attribute.series.empty() != 1)
    return make_error(Errc::invalid_argument, "{} must have one of constant, metadata and series", where);
  PEN_TRY(fields.refuse_others());
  return attribute;
}

Result<std::vector<LayoutAttribute>> attributes_from(Fields& fields) {
  std::vector<LayoutAttribute> attributes;
  const auto* list = fields.find("attributes");
  if (list == nullptr) return attributes;
  if (!list->is_array() || list->size() > attributes_max) return fields.wrong("attributes", "a list of attributes");
  for (std::size_t i = 0; i < list->size(); ++i) {
    PEN_ASSIGN(auto attribute, attribute_from((*list)[i], fmt::format("{}[{}]", fields.path_of("attributes"), i)));
    attributes.push_back(std::move(attribute));
  }
  return attributes;
}

Result<void> frames_from(Fields& fields, LayoutNode& node) {
  if (const auto* channel = fields.find("channel"); channel != nullptr && channel->is_string()) {
    node.channel_name = channel->get<std::string>();
    return {};
  }
  PEN_ASSIGN(node.channel, fields.whole("channel", 0, 0, 31));
  PEN_ASSIGN(node.is_default, fields.flag("default", false));
  return {};
}

Result<LayoutNode> node_from(const json& object, const std::string& where) {
  using Kind = LayoutNode::Kind;
  static const std::map<std::string, Kind> kinds = {{"group", Kind::group},       {"frames", Kind::frames},
                                                    {"series", Kind::series},     {"metadata", Kind::metadata},
                                                    {"constant", Kind::constant}, {"link", Kind::link}};
  PEN_ASSIGN(auto fields, Fields::of(object, where));
  LayoutNode node;
  PEN_ASSIGN(const auto kind, fields.text("kind", ""));
  const auto known = kinds.find(kind);
  if (known == kinds.end()) return fields.wrong("kind", "group, frames, series, metadata, constant or link");
  node.kind = known->second;
  PEN_ASSIGN(node.path, path_at(fields, "path"));
  if (node.path == kept_group || is_below(node.path, kept_group) || (node.path == "/" && node.kind != Kind::group))
    return fields.wrong("path", "outside of /entry/penstock, which has the same place in every layout");
  PEN_ASSIGN(node.attributes, attributes_from(fields));
  if (node.kind == Kind::frames) PEN_TRY(frames_from(fields, node));
  if (node.kind == Kind::group || node.kind == Kind::series) {
    PEN_ASSIGN(node.from, fields.text("from", ""));
    if (node.kind == Kind::series && !node.from.starts_with("/entry/"))
      return fields.wrong("from", "a dataset of Penstock's own tree");
  }
  if (node.kind == Kind::metadata) {
    PEN_TRY(fields.require("metadata"));
    PEN_ASSIGN(node.metadata, metadata_from(*fields.find("metadata"), fields.path_of("metadata")));
  }
  if (node.kind == Kind::constant) {
    PEN_TRY(fields.require("constant"));
    PEN_ASSIGN(node.value, value_from(*fields.find("constant"), fields.path_of("constant")));
  }
  if (node.kind == Kind::link) {
    PEN_ASSIGN(node.target, path_at(fields, "target"));
  }
  PEN_TRY(fields.refuse_others());
  return node;
}

std::string_view parent_of(std::string_view path) {
  const auto last = path.rfind('/');
  return last == 0 || last == std::string_view::npos ? std::string_view{} : path.substr(0, last);
}

/// Only groups have something below them.
Result<void> check_tree(const std::vector<LayoutNode>& nodes, const std::string& metadata_group) {
  std::map<std::string_view, LayoutNode::Kind> kinds;
  for (const auto& node : nodes)
    if (!kinds.emplace(node.path, node.kind).second)
      return make_error(Errc::invalid_argument, "layout: two objects have the path {}", node.path);
  const auto check = [&](std::string_view path) -> Result<void> {
    for (auto above = parent_of(path); !above.empty(); above = parent_of(above))
      if (const auto found = kinds.find(above); found != kinds.end() && found->second != LayoutNode::Kind::group)
        return make_error(Errc::invalid_argument, "layout: {} lies below {}, which is not a group", path, above);
    return {};
  };
  for (const auto& node : nodes) PEN_TRY(check(node.path));
  if (metadata_group.empty()) return {};
  if (const auto found = kinds.find(metadata_group); found != kinds.end() && found->second != LayoutNode::Kind::group)
    return make_error(Errc::invalid_argument, "layout.metadata_group is {}, which is not a group", metadata_group);
  return check(metadata_group);
}

const MetaValue* value_named(const Metadata& metadata, const std::string& name) {
  const auto found = std::find_if(metadata.begin(), metadata.end(), [&](const auto& m) { return m.first == name; });
  return found == metadata.end() ? nullptr : &found->second;
}

/// What a frame does not bring stays as another one, or another part of it, brought it: channels and elements bring a
/// frame in parts.
void take_edge(std::optional<EdgeValues::Frame>& edge, EdgeValues::Frame frame) {
  auto known = edge ? std::move(edge->metadata) : Metadata();
  if (edge && edge->number == frame.number) std::swap(known, frame.metadata);
  edge = std::move(frame);
  for (auto& told : known)
    if (value_named(edge->metadata, told.first) == nullptr) edge->metadata.push_back(std::move(told));
}

}  // namespace

Result<UserLayout> UserLayout::from_json(const json& object) {
  UserLayout layout;
  PEN_ASSIGN(auto fields, Fields::of(object, "layout"));
  PEN_ASSIGN(layout.name_, fields.text("name", ""));
  PEN_ASSIGN(layout.ndattributes_, fields.flag("ndattributes", false));
  PEN_ASSIGN(layout.destination_, fields.text("destination", ""));
  if (fields.find("metadata_group") != nullptr) {
    PEN_ASSIGN(layout.metadata_group_, path_at(fields, "metadata_group"));
    if (is_below(layout.metadata_group_, kept_group) || layout.metadata_group_ == kept_group)
      return fields.wrong("metadata_group", "outside of /entry/penstock");
  }
  const auto* nodes = fields.find("nodes");
  if (nodes == nullptr || !nodes->is_array() || nodes->size() > nodes_max)
    return make_error(Errc::invalid_argument, "layout.nodes must be a list of up to {} objects", nodes_max);
  for (std::size_t i = 0; i < nodes->size(); ++i) {
    PEN_ASSIGN(auto node, node_from((*nodes)[i], fmt::format("layout.nodes[{}]", i)));
    layout.nodes_.push_back(std::move(node));
  }
  PEN_TRY(fields.refuse_others());
  PEN_TRY(check_tree(layout.nodes_, layout.metadata_group_));
  PEN_TRY(layout.find_destinations());
  layout.paths_ = {own_entry, kept_group};
  for (const auto& node : layout.nodes_) {
    for (std::string_view path = node.path; !path.empty(); path = parent_of(path)) layout.paths_.emplace(path);
    if (node.kind == LayoutNode::Kind::metadata && node.metadata.when == When::every)
      layout.columns_.emplace(node.metadata.name, node.path);
    if (node.kind == LayoutNode::Kind::metadata && node.metadata.when != When::every)
      layout.edges_.insert(node.metadata.name);
    for (const auto& attribute : node.attributes)
      if (attribute.metadata) layout.edges_.insert(attribute.metadata->name);
  }
  return layout;
}

/// Without a default one the first by path is it, as of areaDetector.
Result<void> UserLayout::find_destinations() {
  if (destination_.empty()) return {};
  std::vector<LayoutNode*> frames;
  for (auto& node : nodes_)
    if (node.kind == LayoutNode::Kind::frames && node.channel_name.empty() && node.channel == 0)
      frames.push_back(&node);
  if (frames.size() < 2) return {};
  if (frames.size() > store::subsets_max)
    return make_error(Errc::invalid_argument, "layout: {} datasets are for frames; at most {} are possible",
                      frames.size(), store::subsets_max);
  std::sort(frames.begin(), frames.end(), [](const auto* a, const auto* b) {
    return std::pair(!a->is_default, a->path) < std::pair(!b->is_default, b->path);
  });
  frames.front()->is_default = true;
  for (const auto* node : frames) destinations_.push_back(node->path);
  return {};
}

void UserLayout::complete(Frame& frame) const {
  const auto add = [&](const char* name, auto make) {
    if ((columns_.contains(name) || edges_.contains(name)) && value_named(frame.metadata, name) == nullptr)
      frame.metadata.emplace_back(name, MetaValue(make()));
  };
  const auto since_ns = std::max<std::int64_t>(0, frame.received_ns - epics_epoch_ns);
  add("NDArrayUniqueId", [&] { return value(frame.number); });
  add("NDArrayTimeStamp", [&] { return 1e-9 * static_cast<double>(since_ns); });
  add("NDArrayEpicsTSSec", [&] { return static_cast<std::uint64_t>(since_ns / second_ns); });
  add("NDArrayEpicsTSnSec", [&] { return static_cast<std::uint64_t>(since_ns % second_ns); });
}

std::vector<MetaColumn> UserLayout::complete(std::vector<MetaColumn> columns) const {
  const auto declare = [&](const MetaColumn& declared) {
    const auto same =
        std::find_if(columns.begin(), columns.end(), [&](const auto& column) { return column.name == declared.name; });
    if (same == columns.end())
      columns.push_back(declared);
    else
      *same = declared;
  };
  for (const auto& node : nodes_)
    if (node.kind == LayoutNode::Kind::metadata && node.metadata.declared) declare(*node.metadata.declared);
  if (!has_destinations()) return columns;
  // A path that is cut short must not be another one.
  std::size_t bytes = declared_text_bytes;
  for (const auto& path : destinations_) bytes = std::max(bytes, path.size() + 1);
  declare({destination_, ElementType::u8, bytes});
  return columns;
}

void UserLayout::note(const Frame& frame, EdgeValues& edges) const {
  const auto number = value(frame.number);
  const bool first = !edges.first || number <= edges.first->number;
  const bool last = !edges.last || number >= edges.last->number;
  if (edges_.empty() || !(first || last)) return;
  EdgeValues::Frame noted{number, {}};
  for (const auto& name : edges_)
    if (const auto* told = value_named(frame.metadata, name)) noted.metadata.emplace_back(name, *told);
  if (first) take_edge(edges.first, noted);
  if (last) take_edge(edges.last, std::move(noted));
}

std::string UserLayout::metadata_path(const std::string& name) const {
  if (const auto placed = columns_.find(name); placed != columns_.end()) return placed->second;
  if (!metadata_group_.empty()) {
    auto path = (metadata_group_ == "/" ? "" : metadata_group_) + "/" + name;
    if (!paths_.contains(path)) return path;
  }
  return std::string(rest_metadata_path) + "/" + name;
}

std::optional<std::string> UserLayout::metadata_at(const std::string& path) const {
  for (const auto& [name, placed] : columns_)
    if (placed == path) return name;
  const auto group = parent_of(path);
  const bool known = group == rest_metadata_path || group == (metadata_group_ == "/" ? "" : metadata_group_);
  if (!known) return std::nullopt;
  auto name = path.substr(group.size() + 1);
  return metadata_path(name) == path ? std::optional(std::move(name)) : std::nullopt;
}

void EdgeValues::merge(const EdgeValues& other) {
  if (other.first && (!first || other.first->number <= first->number)) take_edge(first, *other.first);
  if (other.last && (!last || other.last->number >= last->number)) take_edge(last, *other.last);
}

namespace {

/// Between ranks; an array was expanded when its frame came.
json to_json(const MetaValue& told) {
  return std::visit(
      [](const auto& v) -> json {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, MetaArray>) {
          std::vector<unsigned> bytes;
          for (const auto byte : v.data) bytes.push_back(std::to_integer<unsigned>(byte));
          return {{"type", name(v.spec.type)}, {"shape", v.spec.shape}, {"bytes", bytes}};
        } else {
          return v;
        }
      },
      told);
}

/// Nothing where it is no whole array.
std::optional<MetaArray> array_from(const json& object) {
  MetaArray array;
  try {
    const auto type = element_type_of(object.at("type").get<std::string>());
    if (!type) return std::nullopt;
    array.spec = {*type, object.at("shape").get<std::vector<std::uint64_t>>()};
    for (const auto byte : object.at("bytes").get<std::vector<std::uint8_t>>()) array.data.push_back(std::byte{byte});
  } catch (const json::exception&) {
    return std::nullopt;
  }
  const auto bytes = array.spec.bytes(meta_array_bytes_max);
  return bytes.ok() && *bytes == array.data.size() ? std::optional(std::move(array)) : std::nullopt;
}

}  // namespace

json to_json(const EdgeValues& edges) {
  const auto of = [](const std::optional<EdgeValues::Frame>& frame) -> json {
    if (!frame) return nullptr;
    auto values = json::array();
    for (const auto& [name, told] : frame->metadata) values.push_back(json::array({name, to_json(told)}));
    return {{"number", frame->number}, {"values", values}};
  };
  return {{"first", of(edges.first)}, {"last", of(edges.last)}};
}

EdgeValues edges_from(const json& object) {
  const auto of = [&](const char* edge) -> std::optional<EdgeValues::Frame> {
    const auto found = object.find(edge);
    if (found == object.end() || !found->is_object()) return std::nullopt;
    EdgeValues::Frame frame{found->value("number", std::uint64_t{0}), {}};
    for (const auto& item : found->value("values", json::array())) {
      if (!item.is_array() || item.size() != 2 || !item[0].is_string()) continue;
      const auto name = item[0].get<std::string>();
      if (item[1].is_string()) frame.metadata.emplace_back(name, item[1].get<std::string>());
      if (item[1].is_number_unsigned())
        frame.metadata.emplace_back(name, item[1].get<std::uint64_t>());
      else if (item[1].is_number_integer())
        frame.metadata.emplace_back(name, item[1].get<std::int64_t>());
      if (item[1].is_number_float()) frame.metadata.emplace_back(name, item[1].get<double>());
      if (auto array = item[1].is_object() ? array_from(item[1]) : std::nullopt)
        frame.metadata.emplace_back(name, std::move(*array));
    }
    return frame;
  };
  if (!object.is_object()) return {};
  return {of("first"), of("last")};
}

}  // namespace penstock::recorder
