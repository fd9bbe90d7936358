#include "recorder/series/resume/left_file.hpp"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "recorder/series/resume/recover_child.hpp"
#include "recorder/tree/nexus/nexus.hpp"
#include "store/recovery/find_description.hpp"

namespace penstock::recorder {
namespace {

using nlohmann::json;
using store::format::Description;

/// The description comes behind what HDF5 holds of the start message: its masks and tables.
constexpr std::uint64_t searched_bytes_min = std::uint64_t{1} << 30;
constexpr std::string_view metadata_group = "/entry/metadata/";

Error in_the_way(const std::string& path, std::string_view why) {
  return make_error(Errc::already_exists, "{} exists already, and {}; choose another name or move it away", path, why);
}

struct Described {
  Description description;
  store::SharedFile shared;
};

Result<Described> read_start(File& file, const std::string& path, std::uint64_t searched_bytes) {
  store::ScanOptions options;
  options.end = searched_bytes;
  auto found = store::find_description(file, options);
  if (!found.ok() && found.error().code() == Errc::not_found) return in_the_way(path, "it is not a file of Penstock");
  if (!found.ok()) return in_the_way(path, found.error().message());
  if (const auto why = store::obstacle_to_resume(found->description); !why.empty()) return in_the_way(path, why);
  return Described{std::move(found->description), {found->header.file_id, found->header.address}};
}

bool are_same(const DatasetFilters& one, const DatasetFilters& other) {
  const auto same = [](const FilterSpec& a, const FilterSpec& b) { return a.id == b.id && a.values == b.values; };
  return std::equal(one.begin(), one.end(), other.begin(), other.end(), [&](const auto& a, const auto& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
  });
}

std::string text_of(const std::vector<FilterSpec>& filters) {
  std::string text;
  for (const auto& filter : filters) text += fmt::format("{} [{}] ", filter.id, fmt::join(filter.values, ", "));
  return text.empty() ? "none" : text.substr(0, text.size() - 1);
}

/// Of each dataset; once where all have the same.
std::string text_of(const DatasetFilters& datasets) {
  std::vector<std::string> texts;
  for (const auto& filters : datasets) texts.push_back(text_of(filters));
  if (std::equal(texts.begin() + 1, texts.end(), texts.begin())) return texts.front();
  return fmt::format("{}", fmt::join(texts, " and "));
}

DatasetFilters filters_in(const Description& description) {
  DatasetFilters filters;
  for (const auto& node : description.datasets) filters.push_back(node.filters);
  return filters;
}

/// The codec of this configuration that declares the file's filters: the encoding may have been the detector's.
std::optional<CodecSpec> codec_of(const DatasetFilters& in_file, const CodecSpec& configured,
                                  const std::vector<ChannelFilter>& filters, const Series& series) {
  for (const auto encoding : {configured.encoding, Encoding::none, Encoding::bitshuffle_lz4, Encoding::bitshuffle_zstd,
                              Encoding::lz4, Encoding::zstd, Encoding::deflate}) {
    auto codec = configured;
    codec.encoding = encoding;
    if (are_same(declared_filters(codec, filters, series), in_file)) return codec;
  }
  return std::nullopt;
}

/// What is not as `series` announces it; empty where nothing is.
std::string difference(const std::vector<store::ChunkedNode>& datasets, const Series& series) {
  if (datasets.size() != series.channels.size())
    return fmt::format("its frames have {} channels, but the series has {}", datasets.size(), series.channels.size());
  for (const auto& node : datasets) {
    if (node.type != series.frame.type || node.frame_shape != series.frame.shape)
      return fmt::format("its frames are [{}] of {}, but those of the series are [{}] of {}",
                         fmt::join(node.frame_shape, ", "), name(node.type), fmt::join(series.frame.shape, ", "),
                         name(series.frame.type));
    if (node.frames_max != series.frames)
      return fmt::format("it was created for {} frames, but the series has {}", node.frames_max, series.frames);
  }
  return {};
}

std::vector<MetaColumn> metadata_columns(const Description& description, const std::optional<UserLayout>& layout) {
  std::vector<MetaColumn> columns;
  for (const auto& node : description.columns) {
    if (!layout && node.path.starts_with(metadata_group))
      columns.push_back({node.path.substr(metadata_group.size()), node.type, node.text_bytes, node.shape});
    if (const auto name = layout ? layout->metadata_at(node.path) : std::nullopt)
      columns.push_back({*name, node.type, node.text_bytes, node.shape});
  }
  return columns;
}

std::string description_of(std::vector<store::ChunkedNode> chunked, std::vector<store::ColumnNode> columns,
                           std::optional<store::FrameSubsets> subsets) {
  store::FileLayout layout;
  layout.chunked = std::move(chunked);
  layout.columns = std::move(columns);
  layout.subsets = std::move(subsets);
  if (layout.subsets)
    for (auto& node : layout.subsets->datasets) node.attributes.clear();
  // Files of before have no attributes in their description, and no values in their segments.
  for (auto& node : layout.chunked) node.attributes.clear();
  for (auto& node : layout.columns) {
    node.attributes.clear();
    node.in_segments = false;
  }
  return store::format::describe(layout);
}

Result<LeftContents> contents_from(const json& report) try {
  const auto& told = report.at("contents");
  LeftContents contents;
  bool any = false;
  for (const auto& list : told.at("runs")) {
    auto& runs = contents.datasets.emplace_back();
    for (const auto& run : list) runs.push_back({run.at(0).get<std::uint64_t>(), run.at(1).get<std::uint64_t>()});
    any = any || !runs.empty();
  }
  for (const auto& finding : report.at("findings")) any = any || finding.at("level") == "error";
  contents.stored_bytes = told.at("stored_bytes").get<std::uint64_t>();
  contents.last_sequence = told.at("last_sequence").get<std::uint64_t>();
  contents.last_received_ns = told.at("last_received_ns").get<std::int64_t>();
  contents.damaged = told.at("damaged").get<std::uint64_t>();
  contents.dropped = told.at("dropped").get<std::uint64_t>();
  contents.lost = told.at("lost").get<std::uint64_t>();
  contents.empty = !any;
  return contents;
} catch (const json::exception& error) {
  return make_error(Errc::internal, "the report of penstock-recover is of another version: {}", error.what());
}

}  // namespace

Result<std::optional<LeftFile>> find_left_file(Env& env, const std::string& path, const Config& config,
                                               const Series& series, const std::vector<ChannelFilter>& filters) {
  auto file = env.open(path, {});
  if (!file.ok() && file.error().code() == Errc::not_found) return std::optional<LeftFile>();
  if (!file.ok()) return std::move(file).error();
  PEN_ASSIGN(const auto size, (*file)->size());
  PEN_ASSIGN(const bool blank, size == 0 ? Result<bool>(true) : store::is_only_begun(**file));
  if (blank) return std::optional(LeftFile{config.codec, {}, {}, true});
  PEN_ASSIGN(const auto start, read_start(**file, path, std::max(searched_bytes_min, config.pool_bytes)));
  const auto& [description, shared] = start;
  if (const auto differs = difference(description.datasets, series); !differs.empty()) return in_the_way(path, differs);
  const auto in_file = filters_in(description);
  const auto codec = codec_of(in_file, config.codec, filters, series);
  if (!codec)
    return in_the_way(
        path,
        fmt::format("its filters are {}, but this recorder's are {}: start the recorder with the codec of the file",
                    text_of(in_file), text_of(declared_filters(config.codec, filters, series))));
  LeftFile left{*codec, metadata_columns(description, config.layout), shared, false};
  auto wanted = nexus_layout(series, declared_filters(left.codec, filters, series), left.columns);
  if (config.layout) wanted = config.layout->apply(std::move(wanted), series, left.columns, {});
  if (description_of(description.datasets, description.columns, description.subsets) !=
      description_of(wanted.chunked, wanted.columns, wanted.subsets))
    return in_the_way(path,
                      "its datasets or columns differ from those of this layout and version: use the layout with which "
                      "the file was started");
  return std::optional(std::move(left));
}

Result<LeftContents> complete_left_file(const std::string& path, const Series& series, bool finished) {
  const auto report =
      run_recover_child({{"file", path}, {"series", {{"unique_id", series.unique_id}, {"finished", finished}}}});
  if (!report.ok() && report.error().code() == Errc::mismatch) return in_the_way(path, report.error().message());
  if (!report.ok()) return report.error();
  PEN_ASSIGN(auto contents, contents_from(*report));
  if (contents.datasets.size() != series.channels.size())
    return make_error(Errc::internal, "penstock-recover reports {} datasets", contents.datasets.size());
  for (const auto& finding : report->at("findings"))
    spdlog::warn("{}: {}: {}", path, finding.value("what", ""), finding.value("where", ""));
  return contents;
}

}  // namespace penstock::recorder
