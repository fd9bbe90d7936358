#include "recorder/config/config.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "base/archive.hpp"
#include "base/fields.hpp"
#include "frame/encoding_field.hpp"
#include "stream/element.hpp"

namespace penstock::recorder {
namespace {

using nlohmann::json;

constexpr std::uint64_t mebibyte = 1 << 20;
constexpr std::size_t folders_max = 256;
constexpr std::uint64_t values_bytes_min = 32 << 20;
constexpr std::uint64_t values_bytes_max = 256 << 20;

Result<ElementPlace> element_from(const json& object) {
  PEN_ASSIGN(auto fields, Fields::of(object, "element"));
  fields.find("grid");
  fields.find("number");
  const bool has_gap = fields.find("gap") != nullptr;
  PEN_TRY(fields.refuse_others());
  auto told = object;
  if (!has_gap) told.erase("gap");
  return stream::element_from(told, "element");
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
                          "sources[{}].element.grid is [{}, {}], but sources[{}] has [{}, {}]; all elements of a "
                          "detector have the same grid",
                          i, element.rows, element.columns, before, other.rows, other.columns);
      if (element.row_gaps != other.row_gaps || element.column_gaps != other.column_gaps)
        return make_error(
            Errc::invalid_argument,
            "sources[{}].element.gap is {}, but sources[{}] has {}; all elements of a detector have the same gaps", i,
            stream::gap_text(element), before, stream::gap_text(other));
      if (element.number == other.number)
        return make_error(
            Errc::invalid_argument,
            "sources[{}].element.number {} is already used by sources[{}]; each element has exactly one source", i,
            element.number, before);
      if (sources[i].endpoint == sources[before].endpoint)
        return make_error(
            Errc::invalid_argument,
            "sources[{}].endpoint {} is already used by sources[{}]; each element requires a different endpoint", i,
            sources[i].endpoint, before);
    }
  }
  return {};
}

bool has_elements(const Config& config) {
  return std::any_of(config.sources.begin(), config.sources.end(),
                     [](const auto& source) { return source.element && source.element->count() > 1; });
}

Result<void> check_placement(const Config& config) {
  if (config.placement != store::Placement::log && config.files.layout != Files::one)
    return make_error(Errc::invalid_argument,
                      "store.placement is not \"log\" and files.layout is not \"one\"; fixed offsets require a single "
                      "file: leave out one of them");
  if (config.placement != store::Placement::log && (!config.chunk.shape.empty() || config.scan))
    return make_error(Errc::invalid_argument,
                      "store.placement is not \"log\", and chunk.shape or scan is there; fixed offsets require "
                      "consecutive frames, one per chunk: leave out one of them");
  return {};
}

}  // namespace

Result<void> Config::check_chunks(bool tiled, bool scanned) const {
  if (!tiled && !scanned) return {};
  const auto* what = scanned ? "frames belong to the points of a scan" : "a chunk is a part of a frame";
  if (files.layout != Files::one)
    return make_error(Errc::invalid_argument,
                      "files.layout is not \"one\" and {}, which requires a single file: leave out one of them", what);
  if (resume)
    return make_error(Errc::invalid_argument,
                      "resume is true and {}; resume requires consecutive frames, one per chunk: leave out one of them",
                      what);
  return {};
}

namespace {

/// Chunks of several frames gather what comes one behind the other, in one process and one file.
Result<void> check_gathering(const Config& config) {
  if (config.chunk.frames == 1) return {};
  const auto refused = [&](std::string_view what) {
    return make_error(Errc::invalid_argument,
                      "chunk.frames is {} and {}; chunks of several frames require a single file with placement log: "
                      "leave out one of them",
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
    return make_error(Errc::invalid_argument,
                      "plan.resume and plan.overwrite exclude each other: leave out one of them");
  if (config.file_name.find("{date}") != std::string::npos)
    return make_error(Errc::invalid_argument,
                      "plan.file_name is \"{}\" and plan.resume is true; resume requires the same file name after each "
                      "start: leave {{date}} out",
                      config.file_name);
  if (config.files.layout != Files::one)
    return make_error(
        Errc::invalid_argument,
        "plan.resume is true and files.layout is not \"one\"; resume requires a single file: leave out one of them");
  if (config.placement != store::Placement::log)
    return make_error(
        Errc::invalid_argument,
        "plan.resume is true and store.placement is not \"log\"; resume requires \"log\": leave out one of them");
  return {};
}

Result<std::uint16_t> port_of_rank(std::uint16_t port, unsigned rank, unsigned ranks) {
  if (port == 0) return port;
  if (port + ranks - 1 > 65535)
    return make_error(Errc::invalid_argument, "port is {}; {} ranks need as many ports from it on", port, ranks);
  return static_cast<std::uint16_t>(port + rank);
}

}  // namespace

static Names<SourceConfig::Kind> names_of(SourceConfig::Kind) {
  static constexpr std::pair<std::string_view, SourceConfig::Kind> names[] = {{"tcp", SourceConfig::Kind::tcp},
                                                                              {"zmq", SourceConfig::Kind::zmq}};
  return names;
}

static Names<Files> names_of(Files) {
  static constexpr std::pair<std::string_view, Files> names[] = {
      {"one", Files::one}, {"per_writer", Files::per_writer}, {"split", Files::split}};
  return names;
}

static Names<WhenFull> names_of(WhenFull) {
  static constexpr std::pair<std::string_view, WhenFull> names[] = {{"hold", WhenFull::hold}, {"drop", WhenFull::drop}};
  return names;
}

static void fields(Archive& archive, SourceConfig& source) {
  archive.field("kind", source.kind);
  if (archive.when(source.kind == SourceConfig::Kind::tcp)) {
    archive.field("host", source.host);
    archive.field("port", source.port);
    auto token = source.token.value_or("");
    archive.secret("token", token);
    if (!token.empty()) source.token = token;
    archive.field("lag_max_s", source.lag_max_s, between_reals(0.1, 86'400));
    archive.field("rate_min_bytes_per_s", source.rate_min_bytes_per_s, between(1, std::uint64_t{1} << 40));
  }
  if (archive.when(source.kind == SourceConfig::Kind::zmq)) {
    archive.required("endpoint", source.endpoint, not_empty);
    archive.field("bind", source.bind);
    const auto read = [&](const json& given) -> Result<void> {
      PEN_ASSIGN(source.element, element_from(given));
      return {};
    };
    archive.custom("element", "element", read, [] { return json(); });
  }
}

static void fields(Archive& archive, FilesConfig& files) {
  archive.field("layout", files.layout);
  archive.field("frames", files.frames, between(0, std::uint64_t{1} << 32));
  archive.check(files.layout == Files::split || files.frames == 0, "frames", "must be 0 unless layout is split");
  archive.check(files.layout != Files::split || files.frames > 0, "frames", "must be at least 1 with layout split");
}

static void fields(Archive& archive, FilterConfig& filter) {
  constexpr Count values_max{0, 256};
  archive.field("channel", filter.channel);
  archive.required("id", filter.search.id, between(1, 65535));  // HDF5's
  archive.field("name", filter.search.name);
  archive.field("values", filter.values, values_max, between(0, 0xFFFF'FFFF));
  archive.field("folders", filter.search.folders, values_max);
  archive.field("exclusive", filter.search.exclusive);
}

/// The first filter names no channel, each other one a channel of its own.
static void check_filters(Archive& archive, const std::vector<FilterConfig>& filters) {
  std::set<std::string_view> channels;
  for (const auto& filter : filters)
    if (!channels.insert(filter.channel).second || filter.channel.empty() != (channels.size() == 1))
      return archive.check(
          false, "filters",
          fmt::format(
              "has the channel \"{}\"; the first filter must name no channel, and each other one a different channel",
              filter.channel));
}

static void codec_fields(Archive& archive, Config& config) {
  auto& codec = config.codec;
  archive.field("filters", config.filters, Count{1, 1024});
  if (!config.filters.empty()) codec.encoding = Encoding::none;
  check_filters(archive, config.filters);
  encoding_field(archive, codec.encoding);
  archive.check(config.filters.empty() || codec.encoding == Encoding::none, "encoding",
                "must be none, or left out, with codec.filters");
  archive.field("level", codec.level, between(0, codec.encoding == Encoding::deflate ? 9 : 19));
  archive.field("block_bytes", codec.block_bytes, between(0, mebibyte));
  archive.check(codec.block_bytes % 64 == 0, "block_bytes", "must be a multiple of 64");
}

static void fields(Archive& archive, ChunkConfig& chunk) {
  archive.field("shape", chunk.shape, Count{0, 3}, between(1, std::uint64_t{1} << 32));
  archive.field("frames", chunk.frames, between(1, store::frames_a_chunk_max));
}

static void milliseconds_field(Archive& archive, const char* name, std::chrono::milliseconds& value) {
  auto count = static_cast<std::uint64_t>(value.count());
  archive.field(name, count, between(1, 3'600'000));
  value = std::chrono::milliseconds(count);
}

static void store_fields(Archive& archive, store::StoreOptions& options, store::Placement& placement) {
  static constexpr std::pair<std::string_view, store::Placement> placements[] = {{"log", store::Placement::log},
                                                                                 {"slots", store::Placement::slots}};
  static constexpr std::pair<std::string_view, store::Durability> durabilities[] = {
      {"none", store::Durability::none},
      {"interval", store::Durability::interval},
      {"segment", store::Durability::segment}};
  archive.choice<store::Placement>("placement", placement, placements);
  archive.field("segment_bytes", options.segment_bytes, between(64 << 10, 1 << 30));
  archive.field("extent_bytes", options.extent_bytes, between(mebibyte, std::uint64_t{1} << 40));
  archive.field("alignment_bytes", options.alignment_bytes, between(4096, 1 << 30));
  archive.field("write_threads", options.write_threads, between(1, 64));
  archive.field("direct", options.direct);
  archive.field("swmr", options.swmr);
  archive.choice<store::Durability>("durability", options.durability, durabilities);
  milliseconds_field(archive, "sync_interval_ms", options.sync_interval);
  milliseconds_field(archive, "flush_interval_ms", options.flush_interval);
  archive.check((options.alignment_bytes & (options.alignment_bytes - 1)) == 0, "alignment_bytes",
                "must be a power of two");
  archive.check(options.extent_bytes >= options.segment_bytes, "extent_bytes",
                fmt::format("must be at least segment_bytes ({})", options.segment_bytes));
}

static void fields(Archive& archive, MetricsConfig& metrics) {
  archive.field("host", metrics.host);
  archive.field("port", metrics.port);
}

static void machine_fields(Archive& archive, MachineConfig& machine, HugePages& huge_pages) {
  static constexpr std::pair<std::string_view, HugePages> names[] = {
      {"off", HugePages::off}, {"transparent", HugePages::transparent}, {"explicit", HugePages::reserved}};
  archive.field("receive", machine.receive);
  archive.field("compress", machine.compress);
  archive.field("write", machine.write);
  archive.field("index", machine.index);
  archive.choice<HugePages>("huge_pages", huge_pages, names);
}

/// A part of the file that has a reader of its own, as start messages may bring it too.
template <typename Part, typename Value>
static void part_field(Archive& archive, const char* name, Value& value) {
  const auto read = [&](const json& given) -> Result<void> {
    PEN_ASSIGN(value, Part::from_json(given, name));
    return {};
  };
  archive.custom(name, name, read, [] { return json(); });
}

static void check_together(Archive& archive, const Config& config) {
  const auto& folders = config.files.folders;
  archive.check(folders.empty() || folders.front() == config.folder, "folders", "must start with folder");
  archive.take(check_elements(config.sources));
  archive.take(check_placement(config));
  archive.take(check_resume(config));
  archive.take(
      config.check_chunks(!config.chunk.shape.empty() || has_elements(config), static_cast<bool>(config.scan)));
  archive.take(check_gathering(config));
}

static void fields(Archive& archive, Config& config) {
  archive.required("folder", config.folder, not_empty);
  archive.field("file_name", config.file_name);
  archive.required("sources", config.sources, Count{1, 1024});
  archive.field("files", config.files);
  archive.field("folders", config.files.folders, Count{0, folders_max}, not_empty);
  const auto read_layout = [&](const json& given) -> Result<void> {
    PEN_ASSIGN(config.layout, UserLayout::from_json(given));
    return {};
  };
  archive.custom("layout", "layout", read_layout, [] { return json(); });
  archive.object("codec", [&](Archive& codec) { codec_fields(codec, config); });
  archive.field("chunk", config.chunk);
  part_field<ScanConfig>(archive, "scan", config.scan);
  part_field<NexusNames>(archive, "nexus", config.nexus);
  archive.object("store", [&](Archive& store) { store_fields(store, config.store, config.placement); });
  archive.field("metrics", config.metrics);
  archive.object("machine",
                 [&](Archive& machine) { machine_fields(machine, config.machine, config.store.huge_pages); });
  archive.field("stall_limit_ms", config.stall_limit_ms, between(0, 3'600'000));
  archive.field("overwrite", config.store.overwrite);
  archive.field("resume", config.resume);
  archive.field("threads", config.threads, between(1, 1024));
  archive.field("pool_bytes", config.pool_bytes, between(64 * mebibyte, std::uint64_t{1} << 44));
  archive.field("tables_bytes", config.tables_bytes, between(mebibyte, std::uint64_t{1} << 40));
  archive.field("when_full", config.when_full);
  archive.field("frame_bytes_max", config.frame_bytes_max, between(1, 0xFFFF'0000));
  archive.field("series_limit", config.series_limit, between(0, std::uint64_t{1} << 62));
  archive.field("end_timeout_s", config.end_timeout_s, between_reals(0, 86'400));
  archive.field("end_after_s", config.end_after_s, between_reals(0, 864'000));
  archive.field("idle_timeout_s", config.idle_timeout_s, between_reals(0, 86'400));
  archive.one_of("log_level", config.log_level, log_levels);
  if (archive.sound()) check_together(archive, config);
}

Result<Config> Config::from_json(const json& plan) {
  PEN_ASSIGN(auto config, job_from<Config>(plan));
  config.frame_bytes_max = std::min(config.frame_bytes_max, config.frame_pool_bytes());
  return config;
}

json Config::description() {
  json description;
  describe_job<Config>(description);
  return description;
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
      spdlog::warn("{} (filter {}) may change values with these parameters; files note it", plugin.name(), plugin.id());
  }
  return {};
}

Result<Config> Config::for_rank(unsigned rank, unsigned ranks) const {
  static constexpr std::string_view place = "{rank}";
  auto mine = *this;
  if (!files.folders.empty()) mine.folder = files.folders[rank % files.folders.size()];
  for (auto& source : mine.sources) {
    if (source.kind == SourceConfig::Kind::tcp) {
      PEN_ASSIGN(source.port, port_of_rank(source.port, rank, ranks));
    }
    const auto at = source.endpoint.find(place);
    if (at != std::string::npos) source.endpoint.replace(at, place.size(), std::to_string(rank));
    if (source.element && source.element->count() > 1 && ranks > 1)
      return make_error(
          Errc::invalid_argument,
          "the source {} has an element, but the recorder has {} ranks; elements over ZeroMQ require one rank",
          source.endpoint, ranks);
    if (at == std::string::npos && source.bind && ranks > 1)
      return make_error(Errc::invalid_argument,
                        "endpoint is {}; {} ranks cannot all bind it: write {{rank}} in the place of the rank's number",
                        source.endpoint, ranks);
  }
  if (mine.metrics) {
    PEN_ASSIGN(mine.metrics->port, port_of_rank(mine.metrics->port, rank, ranks), "metrics");
  }
  return mine;
}

std::uint64_t Config::values_bytes() const { return std::clamp(pool_bytes / 16, values_bytes_min, values_bytes_max); }
std::uint64_t Config::frame_pool_bytes() const { return pool_bytes / 2; }
std::uint64_t Config::segment_pool_bytes() const { return pool_bytes / 2 / segment_pools; }

std::uint64_t Config::shared_segment_bytes() const {
  return pool_bytes / 2 / (gathers() ? 2 : 1) - (values_bytes() - values_bytes_min);
}

}  // namespace penstock::recorder
