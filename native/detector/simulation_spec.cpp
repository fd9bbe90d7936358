#include "detector/simulation_spec.hpp"

#include <cmath>

#include "base/fields.hpp"

namespace penstock::detector {
namespace {

constexpr std::uint64_t side_max = 1 << 20;
constexpr std::uint64_t frame_bytes_max = std::uint64_t{1} << 30;
constexpr std::size_t gaps_max = 65536;
constexpr int version_known = 1;

Result<void> read_gaps(Fields& fields, SimulationSpec& spec) {
  const auto* list = fields.find("gaps");
  if (list == nullptr) return {};
  if (!list->is_array() || list->size() > gaps_max)
    return fields.wrong("gaps", fmt::format("a list of at most {} rectangles", gaps_max));
  for (std::size_t at = 0; at < list->size(); ++at) {
    PEN_ASSIGN(auto each, Fields::of((*list)[at], fmt::format("{}[{}]", fields.path_of("gaps"), at)));
    Gap gap;
    PEN_ASSIGN(gap.row, each.whole("row", 0, 0, spec.rows));
    PEN_ASSIGN(gap.column, each.whole("column", 0, 0, spec.columns));
    PEN_ASSIGN(gap.rows, each.whole("rows", 0, 0, spec.rows - gap.row));
    PEN_ASSIGN(gap.columns, each.whole("columns", 0, 0, spec.columns - gap.column));
    PEN_TRY(each.refuse_others());
    spec.gaps.push_back(gap);
  }
  return {};
}

Result<void> read_shape(Fields& fields, SimulationSpec& spec) {
  for (const auto* name : {"rows", "columns", "type"}) PEN_TRY(fields.require(name));
  PEN_ASSIGN(spec.rows, fields.whole("rows", 0, 1, side_max));
  PEN_ASSIGN(spec.columns, fields.whole("columns", 0, 1, side_max));
  PEN_ASSIGN(const auto type, fields.text("type", ""));
  const auto known = element_type_of(type);
  std::int64_t least = 0, largest = 0;
  if (!known || !counting_range(*known, least, largest))
    return fields.wrong("type", "uint8, uint16, uint32, int16 or int32");
  spec.type = *known;
  PEN_TRY(spec.frame().bytes(frame_bytes_max).ok()
              ? Result<void>()
              : Result<void>(fields.wrong("rows", fmt::format("a frame of at most {} bytes with {} columns of {}",
                                                              frame_bytes_max, spec.columns, type))));
  const bool has_sign = least < 0;
  PEN_ASSIGN(spec.gap_value, fields.integer("gap_value", has_sign ? -1 : largest, least, largest));
  PEN_ASSIGN(spec.saturation_value, fields.integer("saturation_value", has_sign ? largest : largest - 1, 0, largest));
  return read_gaps(fields, spec);
}

Result<void> read_scene(Fields& fields, SimulationSpec& spec) {
  const auto rows = static_cast<double>(spec.rows);
  const auto columns = static_cast<double>(spec.columns);
  const double diagonal = std::sqrt(rows * rows + columns * columns);
  const auto pixels = spec.rows * spec.columns;
  PEN_ASSIGN(const auto beam, fields.pair("beam_center", {rows / 2, columns / 2}, -1e6, 1e6));
  spec.beam_row = beam.first;
  spec.beam_column = beam.second;
  PEN_ASSIGN(spec.background_mean, fields.number("background_mean", 3.0, 0, 1e5));
  PEN_ASSIGN(spec.background_radius, fields.number("background_radius", 0.2 * diagonal + 1, 1e-3, 1e7));
  PEN_ASSIGN(spec.background_floor, fields.number("background_floor", 0.1, 0, 1));
  PEN_ASSIGN(spec.ring_radius, fields.number("ring_radius", 0.17 * diagonal, 0, 1e7));
  PEN_ASSIGN(spec.ring_width, fields.number("ring_width", 0.03 * diagonal + 1, 1e-3, 1e7));
  PEN_ASSIGN(spec.ring_strength, fields.number("ring_strength", 0.25, 0, 100));
  PEN_ASSIGN(spec.spots, fields.whole("spots", pixels / 20000, 0, 1'000'000));
  PEN_ASSIGN(spec.spot_sigma, fields.number("spot_sigma", 1.0, 0.1, 50));
  PEN_ASSIGN(spec.spot_counts, fields.number("spot_counts", 500, 0, 1e6));
  PEN_ASSIGN(spec.hot_pixels, fields.whole("hot_pixels", pixels / 200000, 0, pixels));
  PEN_ASSIGN(spec.dead_pixels, fields.whole("dead_pixels", pixels / 50000, 0, pixels));
  return {};
}

}  // namespace

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
  PEN_ASSIGN(auto fields, Fields::of(document, "simulation"));
  PEN_ASSIGN([[maybe_unused]] const auto version, fields.whole("version", version_known, version_known, version_known));
  SimulationSpec spec;
  PEN_TRY(read_shape(fields, spec));
  PEN_TRY(read_scene(fields, spec));
  PEN_ASSIGN(spec.seed, fields.whole("seed", 1));
  PEN_ASSIGN(spec.distinct_frames, fields.whole("distinct_frames", 16, 1, 1'000'000));
  PEN_ASSIGN(spec.stamp, fields.flag("stamp", false));
  PEN_TRY(fields.refuse_others());
  return spec;
}

std::string SimulationSpec::to_json() const {
  Json rectangles = Json::array();
  for (const auto& gap : gaps)
    rectangles.push_back({{"row", gap.row}, {"column", gap.column}, {"rows", gap.rows}, {"columns", gap.columns}});
  return Json{{"version", version_known},
              {"rows", rows},
              {"columns", columns},
              {"type", std::string(name(type))},
              {"gaps", rectangles},
              {"gap_value", gap_value},
              {"saturation_value", saturation_value},
              {"seed", seed},
              {"distinct_frames", distinct_frames},
              {"stamp", stamp},
              {"beam_center", {beam_row, beam_column}},
              {"background_mean", background_mean},
              {"background_radius", background_radius},
              {"background_floor", background_floor},
              {"ring_radius", ring_radius},
              {"ring_width", ring_width},
              {"ring_strength", ring_strength},
              {"spots", spots},
              {"spot_sigma", spot_sigma},
              {"spot_counts", spot_counts},
              {"hot_pixels", hot_pixels},
              {"dead_pixels", dead_pixels}}
      .dump();
}

}  // namespace penstock::detector
