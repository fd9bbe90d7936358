/// What is known of one acquisition when it starts. Units are those of the file (SI unless the name says).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "frame/array.hpp"
#include "frame/encoding.hpp"
#include "frame/wire_form.hpp"

namespace penstock {

/// An array that a start message carries (mask, flat field, table).
struct NamedArray {
  std::string channel;
  ArraySpec spec;               ///< once decoded
  std::vector<std::byte> data;  ///< in `encoding`, as it was sent
  Encoding encoding = Encoding::none;
  WireForm form = {};  ///< of the elements, under `encoding`
};

/// The part of each frame that a stream brings, where a detector's elements send one each: the elements have one shape,
/// and lie row by row in a grid that is the whole frame.
struct ElementPlace {
  std::uint32_t rows = 1;  ///< of the grid, in elements
  std::uint32_t columns = 1;
  std::uint32_t number = 0;  ///< of this one, row by row from 0
  /// Pixels between neighbouring rows of elements, one fewer than there are rows; empty: they touch. Never all 0.
  std::vector<std::uint32_t> row_gaps = {};
  std::vector<std::uint32_t> column_gaps = {};

  std::uint32_t count() const { return rows * columns; }
  bool has_gaps() const { return !row_gaps.empty() || !column_gaps.empty(); }
  bool operator==(const ElementPlace&) const = default;
};
constexpr std::uint32_t elements_max = 32;
constexpr std::uint32_t gap_pixels_max = 65535;  ///< between two elements

struct GoniometerAxis {
  std::string name;      ///< "omega", "chi", "phi", "kappa", "two_theta"
  double start = 0;      ///< degrees
  double increment = 0;  ///< degrees a frame
};

/// The fields of Stream V2's start message; absent ones were not sent.
struct Series {
  std::uint64_t id = 0;
  std::string unique_id;
  std::string arm_date;                 ///< as sent, RFC 3339
  std::uint64_t frames = 0;             ///< announced; 0 means open-ended
  std::vector<std::string> channels;    ///< at least one once parsed
  ArraySpec frame;                      ///< [rows, columns] and type, of one channel, and of one element
  bool has_type = true;                 ///< false: the start message has no type, and the first image brings it
  std::optional<ElementPlace> element;  ///< from user_data or the source's configuration
  bool resumed = false;                 ///< its sender has begun it before; what is there must not be replaced
  /// Whom it came from, where that sends one series after the other and hears nothing of what becomes of them; empty:
  /// not sent. Several may deal the frames of one series.
  std::string source = {};
  /// Of ZeroMQ, where it came in; empty: elsewhere. All frames of an element come in at one.
  std::string endpoint = {};
  bool anew = false;                ///< its source has begun another series of this name before
  std::uint64_t generation = 0;     ///< of those of its name, which one: the sink counts; 0: unknown
  std::uint64_t window_frames = 0;  ///< window of its sender in frames; 0: unknown or none

  std::optional<double> beam_center_x;  ///< pixels
  std::optional<double> beam_center_y;
  std::optional<double> count_time_s;
  std::optional<double> frame_time_s;
  std::optional<double> incident_energy_ev;
  std::optional<double> incident_wavelength_angstrom;
  std::optional<double> pixel_size_x_m;
  std::optional<double> pixel_size_y_m;
  std::optional<double> sensor_thickness_m;
  std::optional<std::uint64_t> saturation_value;
  std::optional<std::array<double, 3>> detector_translation_m;
  std::optional<std::string> detector_description;
  std::optional<std::string> detector_serial_number;
  std::optional<std::string> sensor_material;
  std::optional<bool> countrate_correction_enabled;
  std::optional<bool> flatfield_enabled;
  std::optional<bool> pixel_mask_enabled;
  std::optional<bool> virtual_pixel_interpolation_enabled;
  std::map<std::string, double> threshold_energy_ev;  ///< by channel
  std::vector<GoniometerAxis> goniometer;
  std::vector<NamedArray> pixel_mask;
  std::vector<NamedArray> flatfield;
  std::optional<NamedArray> countrate_correction_table;

  std::optional<std::uint64_t> bit_depth_readout;

  std::optional<std::string> user_data_json;  ///< `user_data` as JSON text
  std::vector<std::byte> user_data_cbor;      ///< the same as it was sent, with its arrays; may be empty
  /// Every field not named above, by name: an item of CBOR, well-formed.
  std::map<std::string, std::vector<std::byte>> unknown;
  /// Fields that could not be understood, each with its value: the series can be recorded without them.
  std::vector<Error> remarks = {};
};

struct SeriesEnd {
  std::uint64_t id = 0;
  std::string unique_id;
  bool by_all = true;                         ///< false while other clients of the source have not ended it
  std::optional<std::uint32_t> element = {};  ///< which one's stream ends, where they have several
  std::string source = {};                    ///< as in Series
  bool by_start = false;                      ///< not said: its source has begun another series
  bool anew = false;                          ///< that other one has the same name
  std::uint64_t generation = 0;               ///< as in Series; 0: whichever of its name is open
  bool sole = false;                          ///< its sender says that nobody else has frames of it under way
  bool last = false;  ///< over TCP: every client that is connected has ended it, and none was cut off before its end
  bool answered = false;  ///< over TCP: its sender hears answers

  bool operator==(const SeriesEnd&) const = default;
};

}  // namespace penstock
