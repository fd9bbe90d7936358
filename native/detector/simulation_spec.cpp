#include "detector/simulation_spec.hpp"

#include <cmath>

#include "base/fields.hpp"

namespace penstock::detector {
namespace {

constexpr std::uint64_t side_max = 1 << 20;
constexpr std::uint64_t frame_bytes_max = std::uint64_t{1} << 30;
constexpr std::size_t gaps_max = 65536;
constexpr int version_known = 1;

/// By default gaps have the largest value of an unsigned type, and -1 of a signed one.
void value_fields(Archive& archive, SimulationSpec& spec) {
  std::int64_t least = 0, largest = 0;
  counting_range(spec.type, least, largest);
  const bool has_sign = least < 0;
  if (archive.reads()) {
    spec.gap_value = has_sign ? -1 : largest;
    spec.saturation_value = has_sign ? largest : largest - 1;
  }
  archive.derived("gap_value", spec.gap_value, between_integers(least, largest));
  archive.derived("saturation_value", spec.saturation_value, between_integers(0, largest));
}

bool is_inside(const Gap& gap, const SimulationSpec& spec) {
  return gap.row <= spec.rows && gap.rows <= spec.rows - gap.row && gap.column <= spec.columns &&
         gap.columns <= spec.columns - gap.column;
}

}  // namespace

static void fields(Archive& archive, Gap& gap) {
  archive.field("row", gap.row);
  archive.field("column", gap.column);
  archive.field("rows", gap.rows);
  archive.field("columns", gap.columns);
}

void shape_fields(Archive& archive, SimulationSpec& spec, ElementType& type, bool any_type) {
  static constexpr std::string_view counting[] = {"uint8", "uint16", "uint32", "int16", "int32"};
  archive.required("rows", spec.rows, between(1, side_max));
  archive.required("columns", spec.columns, between(1, side_max));
  std::string text(name(type));
  if (any_type)
    archive.required("type", text);
  else
    archive.one_of("type", text, counting);
  archive.check(archive.has("type"), "type", "this field is required");
  const auto known = element_type_of(text);
  archive.check(known.has_value(), "type", "is not a type of pixels");
  type = known.value_or(type);
  std::int64_t least = 0, largest = 0;
  const bool counts = counting_range(type, least, largest);
  spec.type = counts ? type : ElementType::u32;
  const bool known_range = counts && (archive.sound() || !archive.reads());
  if (known_range) value_fields(archive, spec);
  for (const auto* name : {"gap_value", "saturation_value"})
    if (!known_range) archive.ignore(name);
  archive.field("gaps", spec.gaps, Count{0, gaps_max});
  if (!archive.sound()) return;
  archive.check(
      spec.frame().bytes(frame_bytes_max).ok(), "rows",
      fmt::format("must make a frame of at most {} bytes with {} columns of {}", frame_bytes_max, spec.columns, text));
  for (std::size_t i = 0; i < spec.gaps.size(); ++i)
    archive.check(is_inside(spec.gaps[i], spec), fmt::format("gaps[{}]", i),
                  fmt::format("must lie within the frame of {} x {} pixels", spec.rows, spec.columns));
}

void beam_field(Archive& archive, SimulationSpec& spec) {
  std::vector<double> beam{spec.beam_row, spec.beam_column};
  if (archive.reads()) beam = {static_cast<double>(spec.rows) / 2, static_cast<double>(spec.columns) / 2};
  archive.derived("beam_center", beam, Count{2, 2}, between_reals(-1e6, 1e6));
  spec.beam_row = beam[0];
  spec.beam_column = beam[1];
}

void scene_fields(Archive& archive, SimulationSpec& spec) {
  const auto rows = static_cast<double>(spec.rows), columns = static_cast<double>(spec.columns);
  const double diagonal = std::sqrt(rows * rows + columns * columns);
  const auto pixels = spec.rows * spec.columns;
  if (archive.reads()) {
    spec.background_radius = 0.2 * diagonal + 1;
    spec.ring_radius = 0.17 * diagonal;
    spec.ring_width = 0.03 * diagonal + 1;
    spec.spots = pixels / 20000;
    spec.hot_pixels = pixels / 200000;
    spec.dead_pixels = pixels / 50000;
  }
  constexpr auto length = between_reals(1e-3, 1e7);
  archive.field("background_mean", spec.background_mean, between_reals(0, 1e5));
  archive.derived("background_radius", spec.background_radius, length);
  archive.field("background_floor", spec.background_floor, between_reals(0, 1));
  archive.derived("ring_radius", spec.ring_radius, between_reals(0, 1e7));
  archive.derived("ring_width", spec.ring_width, length);
  archive.field("ring_strength", spec.ring_strength, between_reals(0, 100));
  archive.derived("spots", spec.spots, between(0, 1'000'000));
  archive.field("spot_sigma", spec.spot_sigma, between_reals(0.1, 50));
  archive.field("spot_counts", spec.spot_counts, between_reals(0, 1e6));
  archive.derived("hot_pixels", spec.hot_pixels, between(0, pixels));
  archive.derived("dead_pixels", spec.dead_pixels, between(0, pixels));
}

static void fields(Archive& archive, SimulationSpec& spec) {
  std::uint64_t version = version_known;
  archive.field("version", version, between(version_known, version_known));
  auto type = spec.type;
  shape_fields(archive, spec, type, false);
  beam_field(archive, spec);
  scene_fields(archive, spec);
  archive.field("seed", spec.seed);
  archive.field("distinct_frames", spec.distinct_frames, distinct_frames_limits);
  archive.field("stamp", spec.stamp);
}

bool counting_range(ElementType type, std::int64_t& least, std::int64_t& largest) {
  switch (type) {
    case ElementType::u8: least = 0, largest = 0xFF; return true;
    case ElementType::u16: least = 0, largest = 0xFFFF; return true;
    case ElementType::u32: least = 0, largest = 0xFFFFFFFF; return true;
    case ElementType::i16: least = -0x8000, largest = 0x7FFF; return true;
    case ElementType::i32: least = -0x80000000LL, largest = 0x7FFFFFFF; return true;
    default: return false;
  }
}

Result<SimulationSpec> SimulationSpec::from_json(std::string_view json) {
  PEN_ASSIGN(const auto document, parse_json(json, "the simulation"));
  return job_from<SimulationSpec>(document, "simulation");
}

std::string SimulationSpec::to_json() const {
  Json document;
  write_job(*this, document);
  return document.dump();
}

}  // namespace penstock::detector
