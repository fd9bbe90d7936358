#include "recorder/config/config.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "stream/element.hpp"

namespace penstock::recorder {
namespace {

using nlohmann::json;

constexpr std::uint64_t mebibyte = 1 << 20;

/// Reads the fields of one JSON object, remembers which were asked for and refuses the rest.
class Fields {
 public:
  static Result<Fields> of(const json& object, std::string where) {
    if (!object.is_object())
      return make_error(Errc::invalid_argument, "{}: an object is expected, not {}", where, object.dump());
    return Fields(object, std::move(where));
  }

  Result<void> text(const char* name, std::string& into) {
    const json* field = find(name);
    if (field == nullptr) return {};
    if (!field->is_string()) return wrong(name, *field, "a string");
    into = field->get<std::string>();
    return {};
  }

  Result<void> flag(const char* name, bool& into) {
    const json* field = find(name);
    if (field == nullptr) return {};
    if (!field->is_boolean()) return wrong(name, *field, "true or false");
    into = field->get<bool>();
    return {};
  }

  Result<void> real(const char* name, double& into, double low, double high) {
    const json* field = find(name);
    if (field == nullptr) return {};
    if (!field->is_number() || !(field->get<double>() >= low && field->get<double>() <= high))
      return wrong(name, *field, fmt::format("a number from {} to {}", low, high));
    into = field->get<double>();
    return {};
  }

  template <typename Integer>
  Result<void> integer(const char* name, Integer& into, std::uint64_t low, std::uint64_t high) {
    const json* field = find(name);
    if (field == nullptr) return {};
    const bool whole = field->is_number_integer() && (field->is_number_unsigned() || field->get<std::int64_t>() >= 0);
    const bool in_range = whole && field->get<std::uint64_t>() >= low && field->get<std::uint64_t>() <= high;
    if (!in_range) return wrong(name, *field, fmt::format("a whole number from {} to {}", low, high));
    into = static_cast<Integer>(field->get<std::uint64_t>());
    return {};
  }

  template <typename Enum>
  Result<void> choice(const char* name, Enum& into, std::initializer_list<std::pair<std::string_view, Enum>> choices) {
    const json* field = find(name);
    if (field == nullptr) return {};
    std::string allowed;
    for (const auto& [text, value] : choices) {
      if (field->is_string() && field->get_ref<const std::string&>() == text) {
        into = value;
        return {};
      }
      allowed += fmt::format("{}\"{}\"", allowed.empty() ? "" : ", ", text);
    }
    return wrong(name, *field, "one of " + allowed);
  }

  const json* find(const char* name) {
    asked_.insert(name);
    const auto field = object_->find(name);
    return field == object_->end() || field->is_null() ? nullptr : &*field;
  }

  Result<void> refuse_others() const {
    for (const auto& [name, field] : object_->items())
      if (!asked_.contains(name))
        return make_error(Errc::invalid_argument, "{}: there is no field \"{}\"", where_, name);
    return {};
  }

 private:
  Fields(const json& object, std::string where) : object_(&object), where_(std::move(where)) {}

  Error wrong(const char* name, const json& field, std::string_view expected) const {
    return make_error(Errc::invalid_argument, "{}.{} is {}; it must be {}", where_, name, field.dump(), expected);
  }

  const json* object_;
  std::string where_;
  std::set<std::string> asked_;
};

Result<ElementPlace> element_from(const json& object, const std::string& where) {
  PEN_ASSIGN(auto fields, Fields::of(object, where));
  fields.find("grid");
  fields.find("number");
  const bool has_gap = fields.find("gap") != nullptr;
  PEN_TRY(fields.refuse_others());
  auto told = object;
  if (!has_gap) told.erase("gap");
  auto place = stream::element_from(told, where);
  if (!place.ok()) return make_error(Errc::invalid_argument, "{}", place.error().message());
  return place;
}

Result<SourceConfig> source_from(const json& object, std::size_t position) {
  SourceConfig source;
  PEN_ASSIGN(auto fields, Fields::of(object, fmt::format("sources[{}]", position)));
  PEN_TRY(fields.choice("kind", source.kind, {{"tcp", SourceConfig::Kind::tcp}, {"zmq", SourceConfig::Kind::zmq}}));
  if (source.kind == SourceConfig::Kind::tcp) {
    PEN_TRY(fields.text("host", source.host));
    PEN_TRY(fields.integer("port", source.port, 0, 65535));
    std::string token;
    PEN_TRY(fields.text("token", token));
    if (!token.empty()) source.token = token;
  } else {
    PEN_TRY(fields.text("endpoint", source.endpoint));
    PEN_TRY(fields.flag("bind", source.bind));
    if (source.endpoint.empty())
      return make_error(Errc::invalid_argument, "sources[{}].endpoint is missing; for example tcp://127.0.0.1:31001",
                        position);
    if (const auto* element = fields.find("element"); element != nullptr) {
      PEN_ASSIGN(source.element, element_from(*element, fmt::format("sources[{}].element", position)));
    }
  }
  PEN_TRY(fields.refuse_others());
  return source;
}

/// Each element has a place of its own in one grid.
Result<void> check_elements(const std::vector<SourceConfig>& sources) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (!sources[i].element) continue;
    const auto& element = *sources[i].element;
    for (std::size_t before = 0; before < i; ++before) {
      if (!sources[before].element) continue;
      const auto& other = *sources[before].element;
      if (element.rows != other.rows || element.columns != other.columns)
        return make_error(Errc::invalid_argument,
                          "sources[{}].element.grid is [{}, {}], that of sources[{}] is [{}, {}]; the elements of a "
                          "detector have one grid",
                          i, element.rows, element.columns, before, other.rows, other.columns);
      if (element.row_gaps != other.row_gaps || element.column_gaps != other.column_gaps)
        return make_error(
            Errc::invalid_argument,
            "sources[{}].element.gap is {}, that of sources[{}] is {}; the elements of a detector have the "
            "same gaps",
            i, stream::gap_text(element), before, stream::gap_text(other));
      if (element.number == other.number)
        return make_error(Errc::invalid_argument,
                          "sources[{}].element.number is {}, which sources[{}] has; each element comes from one source",
                          i, element.number, before);
      if (sources[i].endpoint == sources[before].endpoint)
        return make_error(Errc::invalid_argument,
                          "sources[{}].endpoint is {}, which sources[{}] has for another element; each element has an "
                          "endpoint of its own",
                          i, sources[i].endpoint, before);
    }
  }
  return {};
}

bool has_elements(const Config& config) {
  return std::any_of(config.sources.begin(), config.sources.end(),
                     [](const auto& source) { return source.element && source.element->count() > 1; });
}

Result<FilesConfig> files_from(const json& object) {
  FilesConfig files;
  PEN_ASSIGN(auto fields, Fields::of(object, "files"));
  PEN_TRY(fields.choice("layout", files.layout,
                        {{"one", Files::one}, {"per_writer", Files::per_writer}, {"split", Files::split}}));
  PEN_TRY(fields.integer("frames", files.frames, 0, std::uint64_t{1} << 32));
  if ((files.layout == Files::split) != (files.frames > 0))
    return make_error(Errc::invalid_argument,
                      "files.frames is {}; with layout split it says how many frames a file gets, from 1 on, with any "
                      "other it is 0",
                      files.frames);
  PEN_TRY(fields.refuse_others());
  return files;
}

constexpr std::size_t filter_values_max = 256;
constexpr std::uint64_t filter_id_max = 65535;  // HDF5's

template <typename T, typename Valid>
Result<std::vector<T>> list_of(const json* list, const char* name, std::string_view expected, Valid valid) {
  std::vector<T> result;
  if (list == nullptr) return result;
  const bool right = list->is_array() && list->size() <= filter_values_max &&
                     std::all_of(list->begin(), list->end(), [&](const json& item) { return valid(item); });
  if (!right)
    return make_error(Errc::invalid_argument, "codec.filters: {} is {}; it must be a list of up to {} {}", name,
                      list->dump(), filter_values_max, expected);
  for (const auto& item : *list) result.push_back(item.get<T>());
  return result;
}

Result<FilterConfig> filter_from(const json& object) {
  FilterConfig filter;
  PEN_ASSIGN(auto fields, Fields::of(object, "codec.filters"));
  PEN_TRY(fields.text("channel", filter.channel));
  PEN_TRY(fields.integer("id", filter.search.id, 1, filter_id_max));
  if (filter.search.id == 0)
    return make_error(Errc::invalid_argument, "codec.filters: id is missing: the filter's number, for example 32001");
  PEN_TRY(fields.text("name", filter.search.name));
  PEN_ASSIGN(filter.values,
             list_of<unsigned>(fields.find("values"), "values", "whole numbers of 32 bits", [](const json& item) {
               return item.is_number_unsigned() && item.get<std::uint64_t>() <= 0xFFFF'FFFF;
             }));
  PEN_ASSIGN(filter.search.folders, list_of<std::string>(fields.find("folders"), "folders", "paths",
                                                         [](const json& item) { return item.is_string(); }));
  PEN_TRY(fields.flag("exclusive", filter.search.exclusive));
  PEN_TRY(fields.refuse_others());
  return filter;
}

Result<std::vector<FilterConfig>> filters_from(const json& list) {
  std::vector<FilterConfig> filters;
  if (!list.is_array() || list.empty())
    return make_error(Errc::invalid_argument, "codec.filters is {}; it must be a list of filters", list.dump());
  for (const auto& object : list) {
    PEN_ASSIGN(auto filter, filter_from(object));
    const bool again =
        std::any_of(filters.begin(), filters.end(), [&](const auto& other) { return other.channel == filter.channel; });
    if (again || filters.empty() != filter.channel.empty())
      return make_error(Errc::invalid_argument,
                        "codec.filters has the channel \"{}\" at {}; the first one names no channel, each other one a "
                        "channel of its own",
                        filter.channel, filters.size());
    filters.push_back(std::move(filter));
  }
  return filters;
}

Result<void> codec_from(const json& object, Config& config) {
  auto& codec = config.codec;
  PEN_ASSIGN(auto fields, Fields::of(object, "codec"));
  if (const auto* filters = fields.find("filters"); filters != nullptr) {
    PEN_ASSIGN(config.filters, filters_from(*filters));
    codec.encoding = Encoding::none;
  }
  PEN_TRY(fields.choice("encoding", codec.encoding,
                        {{"none", Encoding::none},
                         {"bslz4", Encoding::bitshuffle_lz4},
                         {"bszstd", Encoding::bitshuffle_zstd},
                         {"lz4", Encoding::lz4},
                         {"zstd", Encoding::zstd},
                         {"deflate", Encoding::deflate}}));
  if (!config.filters.empty() && codec.encoding != Encoding::none)
    return make_error(Errc::invalid_argument, "codec.encoding is {} beside codec.filters; it must be none, or left out",
                      name(codec.encoding));
  PEN_TRY(fields.integer("level", codec.level, 0, codec.encoding == Encoding::deflate ? 9 : 19));
  PEN_TRY(fields.integer("block_bytes", codec.block_bytes, 0, mebibyte));
  if (codec.block_bytes % 64 != 0)
    return make_error(Errc::invalid_argument, "codec.block_bytes is {}; it must be a multiple of 64",
                      codec.block_bytes);
  return fields.refuse_others();
}

Result<ChunkConfig> chunk_from(const json& object) {
  constexpr std::uint64_t pixels_max = std::uint64_t{1} << 32;
  ChunkConfig chunk;
  PEN_ASSIGN(auto fields, Fields::of(object, "chunk"));
  if (const auto* shape = fields.find("shape"); shape != nullptr) {
    const auto possible = [](const json& extent) {
      return extent.is_number_unsigned() && extent.get<std::uint64_t>() >= 1 &&
             extent.get<std::uint64_t>() <= pixels_max;
    };
    if (!shape->is_array() || shape->size() > 3 || !std::all_of(shape->begin(), shape->end(), possible))
      return make_error(Errc::invalid_argument,
                        "chunk.shape is {}; it must be a list of up to three numbers of pixels, as [256, 256]",
                        shape->dump());
    chunk.shape = shape->get<std::vector<std::uint64_t>>();
  }
  PEN_TRY(fields.integer("frames", chunk.frames, 1, store::frames_a_chunk_max));
  PEN_TRY(fields.refuse_others());
  return chunk;
}

Result<store::StoreOptions> store_from(const json& object, store::Placement& placement) {
  store::StoreOptions options;
  PEN_ASSIGN(auto fields, Fields::of(object, "store"));
  PEN_TRY(fields.choice("placement", placement, {{"log", store::Placement::log}, {"slots", store::Placement::slots}}));
  PEN_TRY(fields.integer("segment_bytes", options.segment_bytes, 64 << 10, 1 << 30));
  PEN_TRY(fields.integer("extent_bytes", options.extent_bytes, mebibyte, std::uint64_t{1} << 40));
  PEN_TRY(fields.integer("alignment_bytes", options.alignment_bytes, 4096, 1 << 30));
  PEN_TRY(fields.integer("write_threads", options.write_threads, 1, 64));
  PEN_TRY(fields.flag("direct", options.direct));
  PEN_TRY(fields.flag("swmr", options.swmr));
  PEN_TRY(fields.choice("durability", options.durability,
                        {{"none", store::Durability::none},
                         {"interval", store::Durability::interval},
                         {"segment", store::Durability::segment}}));
  auto sync_ms = static_cast<std::uint64_t>(options.sync_interval.count());
  auto flush_ms = static_cast<std::uint64_t>(options.flush_interval.count());
  PEN_TRY(fields.integer("sync_interval_ms", sync_ms, 1, 3'600'000));
  PEN_TRY(fields.integer("flush_interval_ms", flush_ms, 1, 3'600'000));
  options.sync_interval = std::chrono::milliseconds(sync_ms);
  options.flush_interval = std::chrono::milliseconds(flush_ms);
  if ((options.alignment_bytes & (options.alignment_bytes - 1)) != 0)
    return make_error(Errc::invalid_argument, "store.alignment_bytes is {}; it must be a power of two",
                      options.alignment_bytes);
  if (options.extent_bytes < options.segment_bytes)
    return make_error(Errc::invalid_argument, "store.extent_bytes is {}; it must be at least segment_bytes ({})",
                      options.extent_bytes, options.segment_bytes);
  PEN_TRY(fields.refuse_others());
  return options;
}

Result<void> check_placement(const Config& config) {
  if (config.placement != store::Placement::log && config.files.layout != Files::one)
    return make_error(Errc::invalid_argument,
                      "store.placement is not \"log\" and files.layout is not \"one\"; fixed places are for a single "
                      "file: leave out one of them");
  if (config.placement != store::Placement::log && (!config.chunk.shape.empty() || config.scan))
    return make_error(Errc::invalid_argument,
                      "store.placement is not \"log\", and chunk.shape or scan is there; fixed places are for whole "
                      "frames one behind the other: leave out one of them");
  return {};
}

}  // namespace

Result<void> Config::check_chunks(bool tiled, bool scanned) const {
  if (!tiled && !scanned) return {};
  const auto* what = scanned ? "frames belong to the points of a scan" : "a chunk is a part of a frame";
  if (files.layout != Files::one)
    return make_error(Errc::invalid_argument,
                      "files.layout is not \"one\" and {}; that goes into a single file only: leave out one of them",
                      what);
  if (resume)
    return make_error(
        Errc::invalid_argument,
        "resume is true and {}; a recorder goes on with whole frames one behind the other only: leave out "
        "one of them",
        what);
  return {};
}

namespace {

/// Chunks of several frames gather what comes one behind the other, in one process and one file.
Result<void> check_gathering(const Config& config) {
  if (config.chunk.frames == 1) return {};
  const auto refused = [&](std::string_view what) {
    return make_error(Errc::invalid_argument,
                      "chunk.frames is {} and {}; chunks of several frames are for a series in one file, written as a "
                      "log: leave out one of them",
                      config.chunk.frames, what);
  };
  if (config.scan) return refused("scan has axes");
  if (config.placement != store::Placement::log) return refused("store.placement is not \"log\"");
  if (config.files.layout != Files::one) return refused("files.layout is not \"one\"");
  if (config.resume) return refused("resume is true");
  return {};
}

Result<void> check_resume(const Config& config) {
  if (!config.resume) return {};
  if (config.store.overwrite)
    return make_error(
        Errc::invalid_argument,
        "plan.resume and plan.overwrite are both true; a file is either gone on in or replaced: leave out "
        "one of them");
  if (config.file_name.find("{date}") != std::string::npos)
    return make_error(
        Errc::invalid_argument,
        "plan.file_name is \"{}\" and plan.resume is true; the date would lead to another file after each "
        "start: leave {{date}} out",
        config.file_name);
  if (config.files.layout != Files::one)
    return make_error(Errc::invalid_argument,
                      "plan.resume is true and files.layout is not \"one\"; a recorder goes on in a single file only: "
                      "leave out one of them");
  if (config.placement != store::Placement::log)
    return make_error(Errc::invalid_argument,
                      "plan.resume is true and store.placement is not \"log\"; a recorder goes on with a log only: "
                      "leave out one of them");
  return {};
}

Result<MetricsConfig> metrics_from(const json& object) {
  MetricsConfig metrics;
  PEN_ASSIGN(auto fields, Fields::of(object, "metrics"));
  PEN_TRY(fields.text("host", metrics.host));
  PEN_TRY(fields.integer("port", metrics.port, 0, 65535));
  PEN_TRY(fields.refuse_others());
  return metrics;
}

Result<MachineConfig> machine_from(const json& object, HugePages& huge_pages) {
  MachineConfig machine;
  PEN_ASSIGN(auto fields, Fields::of(object, "machine"));
  PEN_TRY(fields.text("receive", machine.receive));
  PEN_TRY(fields.text("compress", machine.compress));
  PEN_TRY(fields.text("write", machine.write));
  PEN_TRY(fields.text("index", machine.index));
  PEN_TRY(fields.choice(
      "huge_pages", huge_pages,
      {{"off", HugePages::off}, {"transparent", HugePages::transparent}, {"explicit", HugePages::reserved}}));
  PEN_TRY(fields.refuse_others());
  return machine;
}

Result<std::uint16_t> port_of_rank(std::uint16_t port, unsigned rank, unsigned ranks) {
  if (port == 0) return port;
  if (port + ranks - 1 > 65535)
    return make_error(Errc::invalid_argument, "port is {}; {} ranks need as many ports from there", port, ranks);
  return static_cast<std::uint16_t>(port + rank);
}

}  // namespace

Result<Config> Config::from_json(const json& plan) {
  Config config;
  PEN_ASSIGN(auto fields, Fields::of(plan, "plan"));
  PEN_TRY(fields.text("folder", config.folder));
  if (config.folder.empty()) return make_error(Errc::invalid_argument, "plan.folder is missing: where the files go");
  PEN_TRY(fields.text("file_name", config.file_name));
  if (const auto* sources = fields.find("sources"); sources != nullptr) {
    if (!sources->is_array()) return make_error(Errc::invalid_argument, "plan.sources must be a list");
    for (std::size_t i = 0; i < sources->size(); ++i) {
      PEN_ASSIGN(auto source, source_from((*sources)[i], i));
      config.sources.push_back(std::move(source));
    }
  }
  if (config.sources.empty())
    return make_error(Errc::invalid_argument, "plan.sources is empty; for example [{{\"kind\": \"tcp\"}}]");
  PEN_TRY(check_elements(config.sources));
  if (const auto* files = fields.find("files"); files != nullptr) {
    PEN_ASSIGN(config.files, files_from(*files));
  }
  if (const auto* layout = fields.find("layout"); layout != nullptr) {
    PEN_ASSIGN(config.layout, UserLayout::from_json(*layout));
  }
  if (const auto* codec = fields.find("codec"); codec != nullptr) {
    PEN_TRY(codec_from(*codec, config));
  }
  if (const auto* chunk = fields.find("chunk"); chunk != nullptr) {
    PEN_ASSIGN(config.chunk, chunk_from(*chunk));
  }
  if (const auto* scan = fields.find("scan"); scan != nullptr) {
    PEN_ASSIGN(config.scan, ScanConfig::from_json(*scan, "scan"));
  }
  if (const auto* names = fields.find("nexus"); names != nullptr) {
    PEN_ASSIGN(config.nexus, NexusNames::from_json(*names, "nexus"));
  }
  if (const auto* options = fields.find("store"); options != nullptr) {
    PEN_ASSIGN(config.store, store_from(*options, config.placement));
  }
  PEN_TRY(check_placement(config));
  if (const auto* metrics = fields.find("metrics"); metrics != nullptr) {
    PEN_ASSIGN(config.metrics, metrics_from(*metrics));
  }
  if (const auto* machine = fields.find("machine"); machine != nullptr) {
    PEN_ASSIGN(config.machine, machine_from(*machine, config.store.huge_pages));
  }
  PEN_TRY(fields.integer("stall_limit_ms", config.stall_limit_ms, 0, 3'600'000));
  PEN_TRY(fields.flag("overwrite", config.store.overwrite));
  PEN_TRY(fields.flag("resume", config.resume));
  PEN_TRY(check_resume(config));
  PEN_TRY(config.check_chunks(!config.chunk.shape.empty() || has_elements(config), static_cast<bool>(config.scan)));
  PEN_TRY(check_gathering(config));
  PEN_TRY(fields.integer("threads", config.threads, 1, 1024));
  PEN_TRY(fields.integer("pool_bytes", config.pool_bytes, 64 * mebibyte, std::uint64_t{1} << 44));
  PEN_TRY(fields.integer("tables_bytes", config.tables_bytes, mebibyte, std::uint64_t{1} << 40));
  PEN_TRY(fields.choice("when_full", config.when_full, {{"hold", WhenFull::hold}, {"drop", WhenFull::drop}}));
  PEN_TRY(fields.integer("frame_bytes_max", config.frame_bytes_max, 1, std::uint64_t{0xFFFF'0000}));
  PEN_TRY(fields.integer("series_limit", config.series_limit, 0, std::uint64_t{1} << 62));
  PEN_TRY(fields.real("end_timeout_s", config.end_timeout_s, 0.0, 86400.0));
  PEN_TRY(fields.real("end_after_s", config.end_after_s, 0.0, 864000.0));
  PEN_TRY(fields.real("idle_timeout_s", config.idle_timeout_s, 0.0, 86400.0));
  PEN_TRY(
      fields.choice<std::string>("log_level", config.log_level,
                                 {{"debug", "debug"}, {"info", "info"}, {"warning", "warning"}, {"error", "error"}}));
  PEN_TRY(fields.refuse_others());
  config.frame_bytes_max = std::min(config.frame_bytes_max, config.frame_pool_bytes());
  return config;
}

Result<void> Config::load_filters() {
  for (auto& filter : filters) {
    auto found = store::FilterPlugin::load(filter.search);
    if (!found.ok())
      return make_error(Errc::invalid_argument, "{}{}", found.error().message(),
                        found.error().code() == Errc::not_found ? " or codec.plugin_folders" : "");
    filter.plugin = std::move(*found);
    const auto& plugin = *filter.plugin;
    spdlog::info("frames {}go through {} (filter {}) of {}",
                 filter.channel.empty() ? "" : fmt::format("of \"{}\" ", filter.channel), plugin.name(), plugin.id(),
                 plugin.path());
    if (!store::keeps_all_values({plugin.id(), {}}))
      spdlog::warn("{} (filter {}) may change values, as its parameters tell it; files say so", plugin.name(),
                   plugin.id());
  }
  return {};
}

Result<Config> Config::for_rank(unsigned rank, unsigned ranks) const {
  static constexpr std::string_view place = "{rank}";
  auto mine = *this;
  for (auto& source : mine.sources) {
    if (source.kind == SourceConfig::Kind::tcp) {
      PEN_ASSIGN(source.port, port_of_rank(source.port, rank, ranks));
    }
    const auto at = source.endpoint.find(place);
    if (at != std::string::npos) source.endpoint.replace(at, place.size(), std::to_string(rank));
    if (source.element && source.element->count() > 1 && ranks > 1)
      return make_error(Errc::invalid_argument,
                        "the source {} has an element, and the recorder {} ranks; elements over ZeroMQ need one rank",
                        source.endpoint, ranks);
    if (at == std::string::npos && source.bind && ranks > 1)
      return make_error(Errc::invalid_argument,
                        "endpoint is {}; {} ranks cannot all bind it: put {{rank}} where the number of the rank goes",
                        source.endpoint, ranks);
  }
  if (mine.metrics) {
    PEN_ASSIGN(mine.metrics->port, port_of_rank(mine.metrics->port, rank, ranks), "metrics");
  }
  return mine;
}

std::uint64_t Config::frame_pool_bytes() const { return pool_bytes / 2; }
std::uint64_t Config::segment_pool_bytes() const { return pool_bytes / 2 / segment_pools; }

}  // namespace penstock::recorder
