#include "recover/described_by_tree.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "check/members.hpp"
#include "check/names.hpp"
#include "check/structures/scan_places.hpp"
#include "store/recovery/scan.hpp"

namespace penstock::recover {
namespace {

using check::Level;
using check::TreeDataset;

/// Made with the file itself.
constexpr std::string_view root_attributes_of_store[] = {"penstock_file_id", "penstock_format", "penstock_rebuilt"};
constexpr const char* announced_path = "/entry/penstock/frames_announced";
constexpr std::size_t image_dimensions = 2;
/// A record may name any number; a description has so few datasets.
constexpr std::size_t datasets_max = 1024;

template <typename T>
std::optional<T> number_of(const store::Value* value) {
  const auto* array = value == nullptr ? nullptr : std::get_if<store::ArrayValue>(value);
  if (array == nullptr || array->data.size() != sizeof(T)) return std::nullopt;
  T number;
  std::memcpy(&number, array->data.data(), sizeof number);
  return number;
}

const store::Value* attribute(const TreeDataset& dataset, std::string_view name) {
  for (const auto& each : dataset.info.attributes)
    if (each.name == name) return &each.value;
  return nullptr;
}

class Describer {
 public:
  Describer(File& file, const check::Tree& tree, Segments& segments, check::Findings& findings)
      : file_(file), tree_(tree), segments_(segments), findings_(findings) {}

  Result<void> run() {
    if (check::is_master(tree_))
      return make_error(Errc::unsupported, "its frames are in other files, which only the description names");
    PEN_TRY(read_records());
    number_by_chunks();
    number_the_last();
    PEN_TRY(take_frames());
    take_columns();
    segments_.description.member = check::mark_of(tree_);
    PEN_TRY(take_values());
    take_groups();
    report();
    return {};
  }

 private:
  Result<void> read_records() {
    for (const auto& header : segments_.undescribed) {
      const auto records = store::read_records(file_, header);
      if (!records.ok()) continue;  // reported with the other records
      for (const auto& record : *records) {
        if (record.dataset >= datasets_max)
          return make_error(Errc::malformed, "a record names dataset {}", record.dataset);
        numbers_.insert(record.dataset);
        number_at_[header.address + record.offset] = record.dataset;
      }
    }
    return {};
  }

  static bool is_below(const TreeDataset& dataset, std::string_view group) {
    return dataset.info.paths.front().starts_with(group);
  }
  /// Chunks in segments are frames, others rows of columns.
  void number_by_chunks() {
    for (const auto& dataset : tree_.datasets) {
      if (dataset.info.storage != store::StorageKind::chunked || !dataset.info.type) continue;
      std::optional<std::uint16_t> number;
      for (const auto& chunk : dataset.chunks)
        if (const auto found = number_at_.find(chunk.address); found != number_at_.end()) number = found->second;
      if (number) frames_[*number] = &dataset;
      const bool may_be_frames = dataset.chunks.empty() && dataset.info.shape.size() > image_dimensions &&
                                 !is_below(dataset, "/entry/penstock/") && !is_below(dataset, "/entry/metadata/");
      if (!number && may_be_frames) without_chunks_.push_back(&dataset);
    }
  }

  /// Only one is left, or none has frames.
  void number_the_last() {
    std::vector<std::uint16_t> left;
    for (const auto number : numbers_)
      if (!frames_.contains(number)) left.push_back(number);
    if (left.size() == 1 && without_chunks_.size() == 1) frames_[left.front()] = std::exchange(without_chunks_, {})[0];
  }

  Result<void> take_frames() {
    const auto end = numbers_.empty() ? 0 : std::size_t{*numbers_.rbegin()} + 1;
    for (std::size_t number = 0; number < end; ++number)
      if (!frames_.contains(static_cast<std::uint16_t>(number)))
        return make_error(Errc::malformed, "it is unknown which of {} datasets without chunks the records call {}",
                          without_chunks_.size(), number);
    auto& datasets = segments_.description.datasets;
    for (const auto& [number, dataset] : frames_) datasets.push_back(node_of(*dataset));
    for (const auto* dataset : without_chunks_) datasets.push_back(node_of(*dataset));  // no record names them
    return datasets.empty() ? make_error(Errc::malformed, "it has no dataset of frames") : Result<void>{};
  }

  store::ChunkedNode node_of(const TreeDataset& dataset) const {
    const auto& info = dataset.info;
    const bool scanned = tree_.find(check::places_path) != nullptr && info.shape.size() > image_dimensions;
    const auto leading = scanned ? info.shape.size() - image_dimensions : 1;
    store::ChunkedNode node;
    node.path = info.paths.front();
    node.type = *info.type;
    node.frame_shape.assign(info.shape.begin() + static_cast<std::ptrdiff_t>(leading), info.shape.end());
    node.chunk_shape = info.chunk_shape;
    if (scanned) node.scan_shape.assign(info.shape.begin(), info.shape.begin() + static_cast<std::ptrdiff_t>(leading));
    const auto* announced = tree_.find(announced_path);
    const auto* value = announced != nullptr && announced->value ? &*announced->value : nullptr;
    node.frames_max = number_of<std::uint64_t>(value).value_or(0);
    node.filters = info.filters;
    if (const auto* fill = attribute(dataset, "_FillValue"))
      if (const auto* array = std::get_if<store::ArrayValue>(fill)) node.fill = array->data;
    node.attributes = info.attributes;
    return node;
  }

  bool is_frames(const TreeDataset& dataset) const {
    return std::any_of(segments_.description.datasets.begin(), segments_.description.datasets.end(),
                       [&](const auto& node) { return node.path == dataset.info.paths.front(); });
  }

  void take_columns() {
    for (const auto& dataset : tree_.datasets) {
      const auto& info = dataset.info;
      if (info.storage != store::StorageKind::chunked || info.shape.empty() || is_frames(dataset)) continue;
      store::ColumnNode node;
      node.path = info.paths.front();
      if (info.type)
        node.type = *info.type;
      else
        node.text_bytes = info.element_bytes;
      if (node.text_bytes == 0) node.shape.assign(info.shape.begin() + 1, info.shape.end());
      node.attributes = info.attributes;
      segments_.description.columns.push_back(std::move(node));
    }
  }

  /// Large ones have a checksum in their segment.
  Result<void> take_values() {
    std::map<std::uint64_t, store::format::Stretch> stretches;
    for (const auto& header : segments_.values)
      if (const auto read = store::read_stretches(file_, header); read.ok())
        for (const auto& stretch : *read) stretches[stretch.address] = stretch;
    for (const auto& dataset : tree_.datasets) {
      const auto& info = dataset.info;
      store::ValueNode node{info.paths.front(), {}, info.attributes};
      const auto stretch = stretches.find(info.address);
      if (info.storage == store::StorageKind::contiguous && info.type && info.address > 0 &&
          stretch != stretches.end()) {
        node.value = store::ArrayValue{{*info.type, info.shape}, {}};
        node.place = store::ValuePlace{info.address, stretch->second.bytes, stretch->second.crc};
      } else if (dataset.value && info.storage != store::StorageKind::chunked) {
        node.value = *dataset.value;
      } else {
        if (info.storage != store::StorageKind::chunked && info.storage != store::StorageKind::virtual_sources)
          left_out_ += fmt::format("{}{}", left_out_.empty() ? "" : ", ", info.paths.front());
        continue;
      }
      segments_.description.values.push_back(std::move(node));
      take_links(info);
    }
    for (const auto& node : segments_.description.datasets) take_links(tree_.find(node.path)->info);
    for (const auto& node : segments_.description.columns) take_links(tree_.find(node.path)->info);
    return {};
  }
  void take_links(const store::DatasetInfo& info) {
    for (std::size_t i = 1; i < info.paths.size(); ++i)
      segments_.description.links.push_back({info.paths[i], info.paths.front()});
  }

  void take_groups() {
    for (const auto& group : tree_.groups) {
      store::GroupNode node{group.path, {}};
      for (const auto& each : group.attributes)
        if (group.path != "/" || std::find(std::begin(root_attributes_of_store), std::end(root_attributes_of_store),
                                           each.name) == std::end(root_attributes_of_store))
          node.attributes.push_back(each);
      segments_.description.groups.push_back(std::move(node));
    }
    segments_.description.has_tree = true;
    segments_.description.sealed = true;
  }

  void report() {
    std::string by_exclusion;
    for (const auto& [number, dataset] : frames_)
      if (const auto& node = dataset->info.paths.front(); dataset->chunks.empty())
        by_exclusion += fmt::format("{}{}", by_exclusion.empty() ? "" : ", ", node);
    auto not_proved = std::string("texts, small values and rows of columns, which have no checksum");
    if (!by_exclusion.empty())
      not_proved += fmt::format("; that frames belong to {}, whose index is empty", by_exclusion);
    findings_.add(
        {Level::warning,
         "no copy of the description is complete",
         {},
         {},
         segments_.no_description->message(),
         "a new one is made from HDF5's structures, which assigns the segments' frames to datasets. Not verified are " +
             not_proved});
    if (!left_out_.empty())
      findings_.add({Level::warning,
                     "the new description lacks values",
                     left_out_,
                     {},
                     {},
                     "they stay in HDF5's structures; a rebuild would lose them"});
  }

  File& file_;
  const check::Tree& tree_;
  Segments& segments_;
  check::Findings& findings_;
  std::set<std::uint16_t> numbers_;                   ///< that records name
  std::map<std::uint64_t, std::uint16_t> number_at_;  ///< by the address of a chunk
  std::map<std::uint16_t, const TreeDataset*> frames_;
  std::vector<const TreeDataset*> without_chunks_;
  std::string left_out_;  ///< values that the new description lacks
};

}  // namespace

Result<void> describe_by_tree(File& file, const check::Tree& tree, Segments& segments, check::Findings& findings) {
  const auto& why = *segments.no_description;
  if (segments.count == 0 && tree.root_attribute("penstock_file_id") == nullptr)
    return make_error(
        Errc::malformed,
        "it contains no segments of frames: Penstock did not record it, or nothing of the recording is left");
  if (!tree.failure.empty() || !tree.unreadable.empty()) {
    const auto of_tree = tree.failure.empty() ? tree.unreadable.front().why : std::string(tree.failure);
    return make_error(Errc::malformed,
                      "no copy of the description is complete ({}), and HDF5's structures are unusable ({})",
                      why.message(), of_tree);
  }
  const auto* id = tree.root_attribute("penstock_file_id");
  const auto* hex = id == nullptr ? nullptr : std::get_if<std::string>(id);
  if (hex == nullptr) return why;
  PEN_ASSIGN(const auto file_id, store::format::file_id_of(*hex));
  if (segments.count > 0 && segments.file_id != file_id)
    return make_error(Errc::mismatch, "its segments belong to another file than HDF5's structures");
  segments.file_id = file_id;
  if (auto described = Describer(file, tree, segments, findings).run(); !described.ok())
    return make_error(
        Errc::malformed,
        "no copy of the description is complete ({}), and HDF5's structures do not contain its contents ({})",
        why.message(), described.error().message());
  return complete_segments(file, segments, findings);
}

store::FileLayout layout_of(const store::format::Description& description) {
  store::FileLayout layout;
  layout.groups = description.groups;
  layout.values = description.values;
  layout.chunked = description.datasets;
  layout.columns = description.columns;
  layout.links = description.links;
  layout.member = description.member;
  return layout;
}

}  // namespace penstock::recover
