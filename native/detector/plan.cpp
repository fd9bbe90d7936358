#include "detector/plan.hpp"

#include <algorithm>
#include <ctime>

#include "base/bytes.hpp"
#include "base/fields.hpp"
#include "stream/element.hpp"

namespace penstock::detector {
namespace {

constexpr std::size_t identifier_bytes_max = 256;
constexpr std::size_t peers_max = 256;
constexpr const char* default_endpoint = "tcp://127.0.0.1:31001";

std::string date_text(std::int64_t now_ns) {
  const std::time_t seconds = now_ns / 1'000'000'000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}+00:00", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, now_ns % 1'000'000'000 / 1000);
}

/// Copies a field that is there into the simulation's description under the same name.
void pass_on(Fields& from, const std::string& name, Json& into) {
  if (const auto* found = from.find(name)) into[name] = *found;
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

Result<void> read_simulation(Fields& plan, Fields& detector, DetectorPlan& result) {
  Json description = Json::object();
  if (const auto* own = detector.find("simulation")) {
    PEN_ASSIGN([[maybe_unused]] const auto checked, Fields::of(*own, "detector.simulation"));
    description = *own;
  }
  for (const auto* name : {"rows", "columns", "type", "gaps", "beam_center"}) pass_on(detector, name, description);
  PEN_ASSIGN(const auto type_name, detector.text("type", ""));
  const auto type = element_type_of(type_name);
  std::int64_t least = 0, largest = 0;
  if (result.replay && type && !counting_range(*type, least, largest)) {
    description["type"] = "uint32";  // images that are replayed may have any type; only their shape matters here
  } else {
    for (const auto* name : {"gap_value", "saturation_value"}) pass_on(detector, name, description);
  }
  for (const auto* name : {"seed", "distinct_frames"}) pass_on(plan, name, description);
  PEN_ASSIGN(const auto stamp, plan.flag("stamp", true));
  description["stamp"] = stamp && result.encoding == Encoding::none;
  PEN_ASSIGN(result.simulation, SimulationSpec::from_json(description.dump()), "detector");
  // More images than frames would only be made.
  if (result.frames > 0) result.simulation.distinct_frames = std::min(result.simulation.distinct_frames, result.frames);
  auto& series = result.series;
  series.frame = result.simulation.frame();
  if (type) series.frame.type = *type;
  series.beam_center_x = result.simulation.beam_column;
  series.beam_center_y = result.simulation.beam_row;
  if (!result.replay || detector.find("saturation_value") != nullptr)
    series.saturation_value = static_cast<std::uint64_t>(result.simulation.saturation_value);
  mask_gaps(result.simulation, series);
  return {};
}

/// Fields of the catalogue that Stream V2's start message has a place for.
Result<void> read_series(Fields& detector, DetectorPlan& plan) {
  auto& series = plan.series;
  PEN_ASSIGN(plan.detector_name, detector.text("name", "simulated"));
  PEN_ASSIGN(series.detector_description, detector.text("description", plan.detector_name));
  PEN_ASSIGN(series.detector_serial_number, detector.text("serial_number", "simulated"));
  if (detector.find("sensor_material") != nullptr) {
    PEN_ASSIGN(series.sensor_material, detector.text("sensor_material", ""));
  }
  if (detector.find("sensor_thickness_m") != nullptr) {
    PEN_ASSIGN(series.sensor_thickness_m, detector.number("sensor_thickness_m", 0, 0, 1));
  }
  if (detector.find("pixel_size_m") != nullptr) {
    PEN_ASSIGN(const auto size, detector.pair("pixel_size_m", {0, 0}, 1e-9, 1));
    series.pixel_size_y_m = size.first;
    series.pixel_size_x_m = size.second;
  }
  PEN_ASSIGN(series.incident_energy_ev, detector.number("incident_energy_ev", 12398.4198, 1, 1e9));
  series.incident_wavelength_angstrom = 12398.4198 / *series.incident_energy_ev;
  PEN_ASSIGN(const auto distance, detector.number("detector_distance_m", 0.3, 0, 1e4));
  series.detector_translation_m = {0, 0, distance};
  PEN_ASSIGN(const auto step, detector.number("omega_increment_degrees", 0.1, -360, 360));
  series.goniometer.push_back({"omega", 0, step});
  series.countrate_correction_enabled = false;
  series.flatfield_enabled = false;
  series.virtual_pixel_interpolation_enabled = false;
  series.threshold_energy_ev["threshold_1"] = *series.incident_energy_ev / 2;
  return {};
}

Result<void> read_identity(Fields& fields, DetectorPlan& plan, std::int64_t now_ns) {
  auto& series = plan.series;
  PEN_ASSIGN(series.id, fields.whole("series_id", 1));
  series.arm_date = date_text(now_ns);
  PEN_ASSIGN(series.unique_id, fields.text("series_unique_id", fmt::format("{}-{:x}", plan.detector_name, now_ns)));
  if (series.unique_id.empty() || series.unique_id.size() > identifier_bytes_max)
    return fields.wrong("series_unique_id", fmt::format("1 to {} bytes of text", identifier_bytes_max));
  series.frames = plan.frames;
  series.channels = {"threshold_1"};
  return {};
}

Result<FileFormat> format_of(Fields& fields) {
  PEN_ASSIGN(const auto text, fields.text("format", "cbf"));
  if (text == "cbf") return FileFormat::cbf;
  if (text == "tiff") return FileFormat::tiff;
  if (text == "hdf5") return FileFormat::hdf5;
  return fields.wrong("format", "cbf, tiff or hdf5");
}

Result<ToFiles> read_files(Fields& fields, const std::string& unique_id) {
  ToFiles files;
  PEN_TRY(fields.require("folder"));
  PEN_ASSIGN(files.folder, fields.text("folder", ""));
  PEN_ASSIGN(files.format, format_of(fields));
  PEN_ASSIGN(files.rename, fields.flag("rename", true));
  PEN_ASSIGN(files.prefix, fields.text("prefix", unique_id));
  const bool leaves = files.prefix.find_first_of(std::string_view("/\0", 2)) != std::string::npos;
  if (files.prefix.empty() || files.prefix.size() > 200 || files.prefix.front() == '.' || leaves)
    return make_error(Errc::invalid_argument,
                      "to.prefix is '{}': file names must stay in the folder, so it may hold no '/' and not begin "
                      "with '.'; where the plan has none, series_unique_id takes its place",
                      files.prefix);
  return files;
}

Result<TcpPeer> read_peer(Fields& fields) {
  TcpPeer peer;
  PEN_ASSIGN(peer.host, fields.text("host", peer.host));
  PEN_ASSIGN(const auto port, fields.whole("port", peer.port, 1, 65535));
  peer.port = static_cast<std::uint16_t>(port);
  return peer;
}

/// `host` and `port`, and those of `more`.
Result<void> read_peers(Fields& to, std::vector<TcpPeer>& peers) {
  PEN_ASSIGN(peers.emplace_back(), read_peer(to));
  const auto* more = to.find("more");
  if (more == nullptr) return {};
  if (!more->is_array() || more->size() >= peers_max) return to.wrong("more", "a list of fewer than 256 peers");
  for (std::size_t i = 0; i < more->size(); ++i) {
    PEN_ASSIGN(auto fields, Fields::of((*more)[i], fmt::format("{}[{}]", to.path_of("more"), i)));
    PEN_ASSIGN(peers.emplace_back(), read_peer(fields));
    PEN_TRY(fields.refuse_others());
  }
  return {};
}

/// `endpoint`, and those of `more`.
Result<ToZmq> read_endpoints(Fields& to) {
  ToZmq zmq;
  PEN_ASSIGN(zmq.endpoints.emplace_back(), to.text("endpoint", default_endpoint));
  const auto* more = to.find("more");
  if (more == nullptr) return zmq;
  const auto is_text = [](const Json& each) { return each.is_string(); };
  if (!more->is_array() || more->size() >= elements_max || !std::all_of(more->begin(), more->end(), is_text))
    return to.wrong("more", fmt::format("a list of fewer than {} endpoints", elements_max));
  for (const auto& each : *more) zmq.endpoints.push_back(each.get<std::string>());
  return zmq;
}

Result<void> read_destination(Fields& plan, DetectorPlan& result) {
  PEN_TRY(plan.require("to"));
  PEN_ASSIGN(auto to, Fields::of(*plan.find("to"), "to"));
  PEN_ASSIGN(const auto kind, to.text("kind", ""));
  if (kind == "tcp") {
    ToTcp tcp;
    PEN_TRY(read_peers(to, tcp.peers));
    PEN_ASSIGN(tcp.token, to.text("token", ""));
    PEN_ASSIGN(tcp.window_bytes, to.whole("window_bytes", 0, 0, std::uint64_t{1} << 40));
    result.to = std::move(tcp);
  } else if (kind == "zmq") {
    PEN_ASSIGN(result.to, read_endpoints(to));
  } else if (kind == "files") {
    PEN_ASSIGN(result.to, read_files(to, result.series.unique_id));
    if (result.encoding != Encoding::none) return plan.wrong("encoding", "none when writing files");
  } else {
    return to.wrong("kind", "tcp, zmq or files");
  }
  return to.refuse_others();
}

/// Whether what frames go to can take the elements, and nothing else.
Result<void> check_elements(const DetectorPlan& plan) {
  const auto count = plan.elements ? plan.elements->count() : 1;
  if (count > 1 && std::holds_alternative<ToFiles>(plan.to))
    return make_error(Errc::unsupported, "elements: {} of them, and files have whole frames; set to.kind to tcp or zmq",
                      count);
  const auto* zmq = std::get_if<ToZmq>(&plan.to);
  if (zmq != nullptr && zmq->endpoints.size() != count)
    return make_error(Errc::invalid_argument,
                      "to: {} endpoints (endpoint and more) for {} elements, of which each has one",
                      zmq->endpoints.size(), count);
  if (plan.elements_told) return {};
  if (zmq == nullptr || !plan.elements)
    return make_error(Errc::unsupported,
                      "elements_told is false, which is for elements over zmq: there the recorder's configuration can "
                      "say which element comes from which endpoint");
  if (plan.elements->has_gaps())
    return make_error(Errc::invalid_argument, "element_gap: start messages tell it, and elements_told is false");
  return {};
}

/// The number of rows and columns of elements that a frame is put together from.
Result<void> read_elements(Fields& fields, DetectorPlan& plan) {
  const auto* given = fields.find("elements");
  const auto* gap = fields.find("element_gap");
  if (given == nullptr) return {};
  const auto is_count = [](const Json& number) {
    return number.is_number_unsigned() && number.get<std::uint64_t>() >= 1 &&
           number.get<std::uint64_t>() <= elements_max;
  };
  const bool is_pair = given->is_array() && given->size() == 2 && is_count((*given)[0]) && is_count((*given)[1]);
  const auto wanted = fmt::format("[rows, columns] of at most {} elements", elements_max);
  if (!is_pair) return fields.wrong("elements", wanted);
  ElementPlace grid{(*given)[0].get<std::uint32_t>(), (*given)[1].get<std::uint32_t>(), 0};
  if (grid.count() > elements_max) return fields.wrong("elements", wanted);
  if (gap != nullptr) {
    const Json element{{"grid", *given}, {"number", 0U}, {"gap", *gap}};
    if (auto apart = stream::element_from(element, "elements"); apart.ok())
      grid = std::move(*apart);
    else
      return make_error(Errc::invalid_argument, "element_gap: {}", apart.error().message());
  }
  if (grid.count() > 1) plan.elements = std::move(grid);
  return {};
}

Result<void> read_sending(Fields& fields, DetectorPlan& plan) {
  PEN_TRY(fields.require("frames"));
  PEN_ASSIGN(plan.frames, fields.whole("frames", 0, 1, std::uint64_t{1} << 40));
  PEN_ASSIGN(plan.rate_hz, fields.number("rate_hz", 0, 0, 1e7));
  PEN_ASSIGN(const auto encoding, fields.text("encoding", "none"));
  const auto known = encoding_of(encoding);
  if (!known) return fields.wrong("encoding", "none, bslz4, bszstd, lz4, zstd or deflate");
  plan.encoding = *known;
  if (fields.find("ratio") != nullptr) {
    PEN_ASSIGN(plan.ratio, fields.number("ratio", 1, 1, 1e6));
  }
  if (fields.find("replay") != nullptr) {
    PEN_ASSIGN(plan.replay, fields.text("replay", ""));
  }
  PEN_ASSIGN(const auto threads, fields.whole("threads", 2, 1, 256));
  plan.threads = static_cast<unsigned>(threads);
  PEN_ASSIGN(plan.connect_timeout_s, fields.number("connect_timeout_s", 10, 0, 86400));
  PEN_ASSIGN(plan.reconnect_timeout_s, fields.number("reconnect_timeout_s", plan.connect_timeout_s, 0, 86400));
  PEN_ASSIGN(plan.finish_timeout_s, fields.number("finish_timeout_s", 120, 0, 864000));
  PEN_ASSIGN(plan.log_level, fields.text("log_level", "info"));
  return {};
}

}  // namespace

Result<DetectorPlan> DetectorPlan::from_json(std::string_view json, std::int64_t now_ns) {
  PEN_ASSIGN(const auto document, parse_json(json, "the plan"));
  PEN_ASSIGN(auto fields, Fields::of(document, ""));
  DetectorPlan plan;
  PEN_TRY(read_sending(fields, plan));
  PEN_TRY(fields.require("detector"));
  PEN_ASSIGN(auto detector, Fields::of(*fields.find("detector"), "detector"));
  PEN_TRY(read_series(detector, plan));
  if (plan.rate_hz > 0) plan.series.frame_time_s = plan.series.count_time_s = 1 / plan.rate_hz;
  PEN_TRY(read_identity(fields, plan, now_ns));
  PEN_TRY(read_simulation(fields, detector, plan));
  PEN_TRY(read_destination(fields, plan));
  PEN_TRY(read_elements(fields, plan));
  PEN_ASSIGN(plan.elements_told, fields.flag("elements_told", true));
  PEN_TRY(check_elements(plan));
  if (const auto* faults = fields.find("faults"); faults != nullptr) {
    PEN_ASSIGN(plan.faults, FaultPlan::from_json(*faults));
  }
  if (plan.faults && std::holds_alternative<ToFiles>(plan.to))
    return make_error(Errc::unsupported, "faults: there are none for files; set to.kind to tcp or zmq");
  PEN_TRY(fields.refuse_others());
  return plan;
}

}  // namespace penstock::detector
