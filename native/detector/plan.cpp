#include "detector/plan.hpp"

#include <algorithm>
#include <ctime>

#include "base/archive.hpp"
#include "base/bytes.hpp"
#include "base/fields.hpp"
#include "frame/encoding_field.hpp"
#include "stream/element.hpp"

namespace penstock::detector {
namespace {

constexpr std::size_t identifier_bytes_max = 256;
constexpr std::size_t peers_max = 256;

std::string date_text(std::int64_t now_ns) {
  const std::time_t seconds = now_ns / 1'000'000'000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}+00:00", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, now_ns % 1'000'000'000 / 1000);
}

/// A start message's mask has bit 0 set where there is no pixel.
void mask_gaps(const SimulationSpec& made, Series& series) {
  series.pixel_mask_enabled = !made.gaps.empty();
  if (made.gaps.empty()) return;
  NamedArray mask{"threshold_1", {ElementType::u32, {made.rows, made.columns}}, {}};
  mask.data.resize(made.rows * made.columns * sizeof(std::uint32_t));
  for (const auto& gap : made.gaps)
    for (auto row = gap.row; row < gap.row + gap.rows; ++row)
      for (auto column = gap.column; column < gap.column + gap.columns; ++column)
        store_le(mask.data.data() + (row * made.columns + column) * sizeof(std::uint32_t), std::uint32_t{1});
  series.pixel_mask.push_back(std::move(mask));
}

/// Fields of the catalogue that Stream V2's start message has a place for.
void series_fields(Archive& archive, DetectorPlan& plan) {
  constexpr double wavelength_angstrom_ev = 12398.4198;
  auto& series = plan.series;
  plan.detector_name = "simulated";
  archive.field("name", plan.detector_name);
  series.detector_description = plan.detector_name;
  archive.field("description", series.detector_description);
  series.detector_serial_number = "simulated";
  archive.field("serial_number", series.detector_serial_number);
  archive.field("sensor_material", series.sensor_material);
  archive.field("sensor_thickness_m", series.sensor_thickness_m, between_reals(0, 1));
  std::vector<double> pixel_m;
  archive.field("pixel_size_m", pixel_m, Count{2, 2}, between_reals(1e-9, 1));
  if (pixel_m.size() == 2) {
    series.pixel_size_y_m = pixel_m[0];
    series.pixel_size_x_m = pixel_m[1];
  }
  double energy_ev = wavelength_angstrom_ev, distance_m = 0.3, step_degrees = 0.1;
  archive.field("incident_energy_ev", energy_ev, between_reals(1, 1e9));
  archive.field("detector_distance_m", distance_m, between_reals(0, 1e4));
  archive.field("omega_increment_degrees", step_degrees, between_reals(-360, 360));
  series.incident_energy_ev = energy_ev;
  series.incident_wavelength_angstrom = wavelength_angstrom_ev / energy_ev;
  series.detector_translation_m = {0, 0, distance_m};
  series.goniometer = {{"omega", 0, step_degrees}};
  series.countrate_correction_enabled = false;
  series.flatfield_enabled = false;
  series.virtual_pixel_interpolation_enabled = false;
  series.threshold_energy_ev["threshold_1"] = energy_ev / 2;
}

/// What images look like, and what the start message says of them.
void image_fields(Archive& archive, DetectorPlan& plan) {
  auto& spec = plan.simulation;
  auto type = spec.type;
  shape_fields(archive, spec, type, plan.replay.has_value());
  beam_field(archive, spec);
  archive.object("simulation", [&](Archive& simulation) { scene_fields(simulation, spec); });
  if (!archive.has("simulation")) {  // its defaults
    static const Json nothing = Json::object();
    std::vector<Problem> none;
    Archive defaults(Archive::Mode::read, &nothing, nullptr, "", &none);
    scene_fields(defaults, spec);
  }
  auto& series = plan.series;
  series.frame = spec.frame();
  series.frame.type = type;
  series.beam_center_x = spec.beam_column;
  series.beam_center_y = spec.beam_row;
  if (!plan.replay || archive.has("saturation_value"))
    series.saturation_value = static_cast<std::uint64_t>(spec.saturation_value);
}

/// An entry of the catalogue, which has more fields than are needed here.
Result<void> read_detector(const Json& given, DetectorPlan& plan) {
  if (!given.is_object()) return make_error(Errc::invalid_argument, "detector: {} is not an object", excerpt(given));
  std::vector<Problem> problems;
  Archive archive(Archive::Mode::read, &given, nullptr, "detector", &problems);
  series_fields(archive, plan);
  image_fields(archive, plan);
  return problems.empty() ? Result<void>() : Result<void>(error_of(problems));
}

/// Whether what frames go to can take the elements, and nothing else.
Result<void> check_elements(const DetectorPlan& plan) {
  const auto count = plan.elements ? plan.elements->count() : 1;
  if (count > 1 && std::holds_alternative<ToFiles>(plan.to))
    return make_error(Errc::unsupported, "elements: {} elements cannot be written to files; set to.kind to tcp or zmq",
                      count);
  const auto* zmq = std::get_if<ToZmq>(&plan.to);
  if (zmq != nullptr && zmq->endpoints.size() != count)
    return make_error(Errc::invalid_argument,
                      "to: {} endpoints (endpoint and more) for {} elements; each element requires one endpoint",
                      zmq->endpoints.size(), count);
  if (plan.elements_told) return {};
  if (zmq == nullptr || !plan.elements)
    return make_error(Errc::unsupported,
                      "elements_told: false requires elements over zmq, where the recorder's configuration names the "
                      "element of each endpoint");
  if (plan.elements->has_gaps())
    return make_error(Errc::invalid_argument, "element_gap requires elements_told, because start messages carry it");
  return {};
}

/// The number of rows and columns of elements that a frame is put together from, and pixels between them.
void element_fields(Archive& archive, DetectorPlan& plan) {
  std::vector<std::uint32_t> given;
  archive.field("elements", given, Count{2, 2}, between(1, elements_max));
  ElementPlace grid{1, 1, 0};
  if (given.size() == 2) grid = {given[0], given[1], 0};
  archive.check(grid.count() <= elements_max, "elements", fmt::format("has more than {} elements", elements_max));
  const auto read_gap = [&](const Json& gap) -> Result<void> {
    if (given.empty()) return {};
    const Json element{{"grid", given}, {"number", 0U}, {"gap", gap}};
    auto apart = stream::element_from(element, "elements");
    if (!apart.ok()) return make_error(Errc::invalid_argument, "element_gap: {}", apart.error().message());
    grid = std::move(*apart);
    return {};
  };
  archive.custom("element_gap", "[rows, columns]", read_gap, [] { return Json(); });
  if (grid.count() > 1) plan.elements = std::move(grid);
  archive.field("elements_told", plan.elements_told);
}

void check_prefix(Archive& archive, const std::string& prefix) {
  const bool leaves = prefix.find('/') != std::string::npos;
  archive.check(!leaves && prefix.front() != '.', "to.prefix",
                fmt::format("must be a name without '/', and not begin with '.', as files stay in the folder: it is "
                            "\"{}\", which is series_unique_id where the plan has no prefix",
                            prefix));
}

void check_together(Archive& archive, const DetectorPlan& plan) {
  archive.take(check_elements(plan));
  const auto* files = std::get_if<ToFiles>(&plan.to);
  if (files == nullptr) return;
  check_prefix(archive, files->prefix);
  archive.check(plan.encoding == Encoding::none, "encoding", "must be none when writing files");
  archive.check(!plan.faults, "faults", "must be left out with to.kind files", "set to.kind to tcp or zmq");
}

}  // namespace

static void fields(Archive& archive, TcpPeer& peer) {
  archive.field("host", peer.host);
  archive.field("port", peer.port, between(1, 65535));
}

/// The first of several, and `more`.
static void fields(Archive& archive, ToTcp& to) {
  std::vector<TcpPeer> more(to.peers.begin() + 1, to.peers.end());
  fields(archive, to.peers.front());
  archive.field("more", more, Count{0, peers_max - 1});
  to.peers.resize(1);
  to.peers.insert(to.peers.end(), more.begin(), more.end());
  archive.secret("token", to.token);
  archive.field("window_bytes", to.window_bytes, between(0, std::uint64_t{1} << 40));
}

static void fields(Archive& archive, ToZmq& to) {
  std::vector<std::string> more(to.endpoints.begin() + 1, to.endpoints.end());
  archive.field("endpoint", to.endpoints.front());
  archive.field("more", more, Count{0, elements_max - 1});
  to.endpoints.resize(1);
  to.endpoints.insert(to.endpoints.end(), more.begin(), more.end());
}

static Names<FileFormat> names_of(FileFormat) {
  static constexpr std::pair<std::string_view, FileFormat> names[] = {
      {"cbf", FileFormat::cbf}, {"tiff", FileFormat::tiff}, {"hdf5", FileFormat::hdf5}};
  return names;
}

static void fields(Archive& archive, ToFiles& to) {
  archive.required("folder", to.folder);
  archive.field("format", to.format);
  archive.field("rename", to.rename);
  archive.derived("prefix", to.prefix, Length{1, 200});
}

static void fields(Archive& archive, DetectorPlan& plan) {
  constexpr auto day = between_reals(0, 86'400);
  archive.required("frames", plan.frames, between(1, std::uint64_t{1} << 40));
  archive.field("rate_hz", plan.rate_hz, between_reals(0, 1e7));
  encoding_field(archive, plan.encoding);
  archive.field("ratio", plan.ratio, between_reals(1, 1e6));
  archive.field("replay", plan.replay);
  archive.field("seed", plan.simulation.seed);
  archive.field("distinct_frames", plan.simulation.distinct_frames, distinct_frames_limits);
  plan.simulation.stamp = true;
  archive.field("stamp", plan.simulation.stamp);
  archive.custom(
      "detector", "detector", [&](const Json& given) { return read_detector(given, plan); }, [] { return Json(); });
  archive.check(archive.has("detector"), "detector", "this field is required");
  plan.series.id = 1;
  archive.field("series_id", plan.series.id);
  if (archive.reads()) plan.series.unique_id = fmt::format("{}-{}", plan.detector_name, plan.series.unique_id);
  archive.derived("series_unique_id", plan.series.unique_id, Length{1, identifier_bytes_max});
  archive.object(
      "to", [&](Archive& to) { to.kind("kind", plan.to); }, true);
  if (auto* files = std::get_if<ToFiles>(&plan.to); files != nullptr && files->prefix.empty() && archive.reads())
    files->prefix = plan.series.unique_id;
  element_fields(archive, plan);
  archive.field("faults", plan.faults);
  archive.field("threads", plan.threads, between(1, 256));
  archive.field("connect_timeout_s", plan.connect_timeout_s, day);
  if (archive.reads()) plan.reconnect_timeout_s = plan.connect_timeout_s;
  archive.derived("reconnect_timeout_s", plan.reconnect_timeout_s, day);
  archive.field("finish_timeout_s", plan.finish_timeout_s, between_reals(0, 864'000));
  archive.one_of("log_level", plan.log_level, log_levels);
  if (archive.sound()) check_together(archive, plan);
}

/// What follows from other fields.
static void complete(DetectorPlan& plan, std::int64_t now_ns) {
  auto& series = plan.series;
  auto& simulation = plan.simulation;
  if (plan.rate_hz > 0) series.frame_time_s = series.count_time_s = 1 / plan.rate_hz;
  series.arm_date = date_text(now_ns);
  series.frames = plan.frames;
  series.channels = {"threshold_1"};
  simulation.stamp = simulation.stamp && plan.encoding == Encoding::none;
  // More images than frames would only be made.
  if (plan.frames > 0) simulation.distinct_frames = std::min(simulation.distinct_frames, plan.frames);
  mask_gaps(simulation, series);
}

Result<DetectorPlan> DetectorPlan::from_json(std::string_view json, std::int64_t now_ns) {
  PEN_ASSIGN(const auto document, parse_json(json, "the plan"));
  DetectorPlan plan;
  plan.series.unique_id = fmt::format("{:x}", now_ns);  // the end of one that the plan leaves out
  const auto problems = read_job(document, plan);
  if (!problems.empty()) return error_of(problems);
  complete(plan, now_ns);
  return plan;
}

Json DetectorPlan::description() {
  Json description;
  describe_job<DetectorPlan>(description);
  return description;
}

}  // namespace penstock::detector
