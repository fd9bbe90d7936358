#include <cmath>
#include <iterator>
#include <string_view>
#include <type_traits>

#include "detector/images/image_file.hpp"

namespace penstock::detector {
namespace {

/// What X-Binary-Element-Type says; empty for a type that the format's readers do not know.
std::string_view element_words(ElementType type) {
  switch (type) {
    case ElementType::u8: return "unsigned 8-bit integer";
    case ElementType::i8: return "signed 8-bit integer";
    case ElementType::u16: return "unsigned 16-bit integer";
    case ElementType::i16: return "signed 16-bit integer";
    case ElementType::u32: return "unsigned 32-bit integer";
    case ElementType::i32: return "signed 32-bit integer";
    default: return "";
  }
}

// The marks before the binary section: form feed, Ctrl-Z, Ctrl-D, 0xD5.
constexpr std::string_view binary_start = "\x0C\x1A\x04\xD5";
constexpr std::size_t padding_bytes = 4095;

template <typename T>
void append_le(std::vector<std::byte>& into, T value) {
  const auto at = into.size();
  into.resize(at + sizeof value);
  store_le(into.data() + at, value);
}

template <typename T>
void append_differences(Bytes pixels, std::vector<std::byte>& into) {
  std::int64_t last = 0;
  for (std::size_t at = 0; at + sizeof(T) <= pixels.size(); at += sizeof(T)) {
    const std::int64_t value = load_le<T>(pixels.data() + at);
    std::int64_t step = value - last;
    // Readers of signed 32-bit images add modulo 2^32 and few of them know the eight-byte escape.
    if constexpr (std::is_same_v<T, std::int32_t>) step = static_cast<std::int32_t>(step);
    last = value;
    // The most negative number of a width is its escape to the next one.
    if (step >= -0x7F && step <= 0x7F) {
      append_le(into, static_cast<std::uint8_t>(step));
      continue;
    }
    append_le(into, std::uint8_t{0x80});
    if (step >= -0x7FFF && step <= 0x7FFF) {
      append_le(into, static_cast<std::uint16_t>(step));
      continue;
    }
    append_le(into, std::uint16_t{0x8000});
    if (step >= -0x7FFFFFFF && step <= 0x7FFFFFFF) {
      append_le(into, static_cast<std::uint32_t>(step));
      continue;
    }
    append_le(into, std::uint32_t{0x80000000});
    append_le(into, static_cast<std::uint64_t>(step));
  }
}

/// Text from a plan may hold line ends, which would end a header line early.
std::string one_line(std::string text) {
  for (auto& each : text)
    if (static_cast<unsigned char>(each) < 0x20) each = ' ';
  return text;
}

/// The header spells silicon out, and names others by their formula.
std::string material_word(const std::string& material) { return material == "Si" ? "Silicon" : one_line(material); }

std::string header_lines(const Series& series, const Frame& frame) {
  std::string text;
  const auto line = [&text](const std::string& content) { text += "# " + content + "\r\n"; };
  line(fmt::format("Detector: {}, S/N {}", one_line(series.detector_description.value_or("unknown")),
                   one_line(series.detector_serial_number.value_or("unknown"))));
  line(one_line(series.arm_date));
  if (series.pixel_size_x_m && series.pixel_size_y_m)
    line(fmt::format("Pixel_size {:g} m x {:g} m", *series.pixel_size_x_m, *series.pixel_size_y_m));
  if (series.sensor_material && series.sensor_thickness_m)
    line(fmt::format("{} sensor, thickness {:.6f} m", material_word(*series.sensor_material),
                     *series.sensor_thickness_m));
  if (series.count_time_s) line(fmt::format("Exposure_time {:.7f} s", *series.count_time_s));
  if (series.frame_time_s) line(fmt::format("Exposure_period {:.7f} s", *series.frame_time_s));
  if (series.saturation_value) line(fmt::format("Count_cutoff {} counts", *series.saturation_value));
  if (const auto threshold = series.threshold_energy_ev.begin(); threshold != series.threshold_energy_ev.end())
    line(fmt::format("Threshold_setting: {:.0f} eV", threshold->second));
  if (series.incident_wavelength_angstrom)
    line(fmt::format("Wavelength {:.5f} A", *series.incident_wavelength_angstrom));
  if (series.detector_translation_m)
    line(fmt::format("Detector_distance {:.5f} m", (*series.detector_translation_m)[2]));
  if (series.beam_center_x && series.beam_center_y)
    line(fmt::format("Beam_xy ({:.2f}, {:.2f}) pixels", *series.beam_center_x, *series.beam_center_y));
  for (const auto& axis : series.goniometer)
    if (axis.name == "omega") {
      line(fmt::format("Start_angle {:.4f} deg.",
                       axis.start + axis.increment * static_cast<double>(value(frame.number))));
      line(fmt::format("Angle_increment {:.4f} deg.", axis.increment));
    }
  return text;
}

}  // namespace

void append_byte_offsets(ElementType type, Bytes pixels, std::vector<std::byte>& into) {
  switch (type) {
    case ElementType::u8: return append_differences<std::uint8_t>(pixels, into);
    case ElementType::i8: return append_differences<std::int8_t>(pixels, into);
    case ElementType::u16: return append_differences<std::uint16_t>(pixels, into);
    case ElementType::i16: return append_differences<std::int16_t>(pixels, into);
    case ElementType::u32: return append_differences<std::uint32_t>(pixels, into);
    case ElementType::i32: return append_differences<std::int32_t>(pixels, into);
    default: return;
  }
}

Result<void> encode_cbf(const Series& series, const Frame& frame, const std::string& name,
                        std::vector<std::byte>& into) {
  const auto words = element_words(frame.spec.type);
  if (words.empty() || frame.spec.shape.size() != 2)
    return make_error(Errc::unsupported,
                      "a CBF file holds two dimensions of an integer of at most 32 bits, not {} of {}",
                      frame.spec.shape.size(), penstock::name(frame.spec.type));
  std::vector<std::byte> packed;
  packed.reserve(frame.payload.size() / 2);
  append_byte_offsets(frame.spec.type, frame.payload, packed);

  const auto rows = frame.spec.shape[0];
  const auto columns = frame.spec.shape[1];
  std::string head = "###CBF: VERSION 1.5, written by Penstock\r\n";
  head += fmt::format("data_{}\r\n\r\n", one_line(name));
  head += "_array_data.header_convention \"PILATUS_1.2\"\r\n_array_data.header_contents\r\n;\r\n";
  head += header_lines(series, frame);
  head += ";\r\n\r\n_array_data.data\r\n;\r\n--CIF-BINARY-FORMAT-SECTION--\r\n";
  head += "Content-Type: application/octet-stream;\r\n     conversions=\"x-CBF_BYTE_OFFSET\"\r\n";
  head += "Content-Transfer-Encoding: BINARY\r\n";
  head += fmt::format("X-Binary-Size: {}\r\nX-Binary-ID: 1\r\n", packed.size());
  head += fmt::format("X-Binary-Element-Type: \"{}\"\r\nX-Binary-Element-Byte-Order: LITTLE_ENDIAN\r\n", words);
  head += fmt::format("X-Binary-Number-of-Elements: {}\r\nX-Binary-Size-Fastest-Dimension: {}\r\n", rows * columns,
                      columns);
  head += fmt::format("X-Binary-Size-Second-Dimension: {}\r\nX-Binary-Size-Padding: {}\r\n\r\n", rows, padding_bytes);
  head += binary_start;
  constexpr std::string_view tail = "\r\n--CIF-BINARY-FORMAT-SECTION----\r\n;\r\n\r\n";

  into.clear();
  into.reserve(head.size() + packed.size() + padding_bytes + tail.size());
  const auto append = [&into](Bytes piece) { into.insert(into.end(), piece.begin(), piece.end()); };
  append(as_bytes(head));
  append(packed);
  into.resize(into.size() + padding_bytes);
  append(as_bytes(tail));
  return {};
}

}  // namespace penstock::detector
