#include "stream/messages/v1_message.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/fields.hpp"
#include "stream/element.hpp"
#include "stream/messages/v1_config.hpp"
#include "stream/messages/v1_json.hpp"

namespace penstock::stream {
namespace {

using Parts = std::span<const Bytes>;

/// A part of a message as a JSON object.
Result<Json> object_in(Parts parts, std::size_t position, const MessageLimits& limits) {
  if (position >= parts.size())
    return make_error(Errc::truncated, "a message of {} parts has no part {}", parts.size(), position + 1);
  const auto part = parts[position];
  if (part.size() > limits.text_bytes_max)
    return make_error(Errc::too_large, "part {} has {} bytes, which exceeds the maximum of {} for JSON", position + 1,
                      part.size(), limits.text_bytes_max);
  PEN_ASSIGN(auto json, parse_v1_json(as_text(part), fmt::format("part {}", position + 1)));
  if (!json.is_object())
    return make_error(Errc::malformed, "part {} is {}, expected an object", position + 1,
                      json.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 64));
  return json;
}

/// Without the letter and the version that some senders leave out: "dimage_d-1.0" is "image_d".
std::string kind_of(const Json& object) {
  const auto htype = object.find("htype");
  if (htype == object.end() || !htype->is_string()) return {};
  auto kind = htype->get<std::string>();
  kind = kind.substr(0, kind.rfind('-'));
  return kind.starts_with('d') ? kind.substr(1) : kind;
}

Result<void> expect_kind(const Json& object, std::size_t position, std::string_view kind) {
  if (kind_of(object) == kind) return {};
  const auto htype = object.value("htype", Json());
  return make_error(Errc::malformed, "part {}: htype is {}, expected \"d{}-1.0\"", position + 1,
                    htype.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 64), kind);
}

constexpr std::string_view whole_number = "a whole number";

Result<std::uint64_t> required_whole(Fields& fields, const std::string& name) {
  PEN_TRY(fields.require(name));
  return fields.whole(name, 0);
}

/// `shape` and `type`: columns come first there.
Result<ArraySpec> read_spec(Fields& fields, const MessageLimits& limits) {
  ArraySpec spec;
  const auto* shape = fields.find("shape");
  const auto is_extent = [](const Json& item) { return whole_of(item).has_value(); };
  if (shape == nullptr || !shape->is_array() || shape->empty() || shape->size() > 3 ||
      !std::all_of(shape->begin(), shape->end(), is_extent))
    return fields.wrong("shape", "a list of whole numbers, [columns, rows]");
  for (const auto& extent : *shape) spec.shape.insert(spec.shape.begin(), *whole_of(extent));
  PEN_ASSIGN(const auto type, fields.text("type", ""));
  const auto known = element_type_of(type);
  if (!known) return fields.wrong("type", "an element type, as \"uint16\"");
  spec.type = *known;
  if (const auto bytes = spec.bytes(limits.frame_bytes_max); !bytes.ok()) return bytes.error().with_context("shape");
  return spec;
}

/// "<", ">", "lz4<", "bs16-lz4<" and so on.
Result<void> read_encoding(Fields& fields, V1Image& image) {
  PEN_ASSIGN(auto encoding, fields.text("encoding", ""));
  constexpr std::string_view known = "\"<\", \"lz4<\", or \"bs8-lz4<\", \"bs16-lz4<\", \"bs32-lz4<\"";
  if (encoding.empty() || (encoding.back() != '<' && encoding.back() != '>')) return fields.wrong("encoding", known);
  const auto element_bytes = size_of(image.spec.type);
  image.form.big_endian = encoding.back() == '>' && element_bytes > 1;
  encoding.pop_back();
  if (encoding.empty()) return {};
  if (encoding == "lz4") {
    image.encoding = Encoding::lz4;
    image.is_bare_block = true;
    return {};
  }
  image.encoding = Encoding::bitshuffle_lz4;
  if (encoding == fmt::format("bs{}-lz4", 8 * element_bytes)) return {};
  for (const auto bits : {8, 16, 32, 64})
    if (encoding == fmt::format("bs{}-lz4", bits))
      return make_error(Errc::mismatch, "encoding is \"{}\", but the elements have {} bits", encoding,
                        8 * element_bytes);
  return fields.wrong("encoding", known);
}

Result<void> check_pixels(Fields& fields, Bytes pixels, const MessageLimits& limits, const V1Image& image) {
  const auto* told = fields.find("size");
  const auto size = told == nullptr ? std::optional<std::uint64_t>(pixels.size()) : whole_of(*told);
  if (!size) return fields.wrong("size", whole_number);
  if (*size != pixels.size())
    return make_error(Errc::mismatch, "size is {}, but part {} has {} bytes", *size, image.pixel_part + 1,
                      pixels.size());
  PEN_ASSIGN(const auto bytes, image.spec.bytes(limits.frame_bytes_max));
  if (image.encoding == Encoding::none && pixels.size() != bytes)
    return make_error(Errc::mismatch, "shape [{}] (rows first) of {} needs {} bytes, but part {} has {}",
                      fmt::join(image.spec.shape, ", "), name(image.spec.type), bytes, image.pixel_part + 1,
                      pixels.size());
  constexpr std::uint64_t lz4_block_max = 0x7E000000;  // of LZ4 itself
  if (image.is_bare_block && (bytes > lz4_block_max || pixels.size() > lz4_block_max))
    return make_error(Errc::too_large, "an LZ4 block of {} bytes, {} decompressed, which exceeds the maximum of {}",
                      pixels.size(), bytes, lz4_block_max);
  if (image.is_bare_block && pixels.size() == bytes)
    return make_error(Errc::unsupported,
                      "an LZ4 block of {} bytes, as many as it expands to: HDF5's LZ4 filter would take it for plain "
                      "bytes",
                      bytes);
  if (pixels.empty()) return make_error(Errc::malformed, "part {} is empty", image.pixel_part + 1);
  return {};
}

/// JSON has one kind of number, and its encoders drop the fraction of 2.0: a whole number is a double as long as a
/// double has it exactly.
MetaValue number_in(const Json& value) {
  constexpr std::uint64_t exact_max = std::uint64_t{1} << 53;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > exact_max) {
    const auto number = value.get<std::uint64_t>();
    if (std::in_range<std::int64_t>(number)) return static_cast<std::int64_t>(number);
    return number;
  }
  const bool is_negative = value.is_number_integer() && !value.is_number_unsigned();
  if (is_negative && value.get<std::int64_t>() < -static_cast<std::int64_t>(exact_max))
    return value.get<std::int64_t>();
  return value.get<double>();
}

MetaValue value_of(const Json& value) {
  if (value.is_number()) return number_in(value);
  if (value.is_boolean()) return std::int64_t{value.get<bool>() ? 1 : 0};
  if (const auto number = infinite_or_nan_of(value)) return *number;
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string utf8_of(std::string_view text) {
  const auto quoted = Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(quoted).get<std::string>();
}

/// What the user's control software adds to each image: an object, or any text.
void read_appendix(Bytes appendix, const MessageLimits& limits, V1Image& image) {
  if (appendix.size() > limits.text_bytes_max) {
    image.remarks.push_back(make_error(Errc::too_large,
                                       "the appendix has {} bytes, which exceeds the maximum of {}: it is left out",
                                       appendix.size(), limits.text_bytes_max));
    return;
  }
  const auto json = parse_v1_json(as_text(appendix), "the appendix");
  if (!json.ok() || !json->is_object()) {
    if (!appendix.empty())
      image.metadata.emplace_back("appendix", json.ok() ? value_of(*json) : MetaValue(utf8_of(as_text(appendix))));
    return;
  }
  bool all = true;
  for (const auto& [key, value] : json->items()) {
    const bool fits = key.size() <= limits.identifier_bytes_max && image.metadata.size() < limits.metadata_max;
    if (fits && !value.is_null()) image.metadata.emplace_back(key, value_of(value));
    all = all && fits;
  }
  if (!all)
    image.remarks.push_back(make_error(Errc::too_large,
                                       "the appendix has more than {} values, or a name of more than {} bytes: the "
                                       "others are left out",
                                       limits.metadata_max, limits.identifier_bytes_max));
}

/// A time that is none leaves the others, and the pixels, as they are.
Result<void> read_times(Parts parts, const MessageLimits& limits, V1Image& image) {
  PEN_ASSIGN(const auto timed, object_in(parts, 3, limits));
  PEN_TRY(expect_kind(timed, 3, "config"));
  PEN_ASSIGN(auto times, Fields::of(timed, "image config"));
  const auto read = [&](const std::string& name, std::int64_t& time) {
    const auto* told = times.find(name);
    const auto whole = told == nullptr ? std::nullopt : whole_of(*told);
    if (whole && std::in_range<std::int64_t>(*whole))
      time = static_cast<std::int64_t>(*whole);
    else if (told != nullptr && *told != -1)  // -1: unknown
      image.remarks.push_back(
          make_error(Errc::malformed, "{}: it is left out", times.wrong(name, whole_number).message()));
  };
  read("start_time", image.start_ns);
  read("stop_time", image.stop_ns);
  read("real_time", image.real_ns);
  return {};
}

Result<V1Image> read_image(Parts parts, const Json& first, const MessageLimits& limits) {
  V1Image image;
  PEN_ASSIGN(auto named, Fields::of(first, "image"));
  PEN_ASSIGN(image.series, required_whole(named, "series"));
  PEN_ASSIGN(image.frame, required_whole(named, "frame"));
  if (parts.size() < 4)
    return make_error(Errc::truncated, "image {} of series {} has {} parts, expected 4", image.frame, image.series,
                      parts.size());
  if (parts.size() > 5)
    return make_error(Errc::malformed, "image {} of series {} has {} parts, expected 4 or 5", image.frame, image.series,
                      parts.size());
  PEN_ASSIGN(const auto described, object_in(parts, 1, limits));
  PEN_TRY(expect_kind(described, 1, "image_d"));
  PEN_ASSIGN(auto data, Fields::of(described, "image data"));
  PEN_ASSIGN(image.spec, read_spec(data, limits), "image {}", image.frame);
  PEN_TRY(read_encoding(data, image), "image {}", image.frame);
  PEN_TRY(check_pixels(data, parts[image.pixel_part], limits, image), "image {}", image.frame);
  if (auto read = read_times(parts, limits, image); !read.ok())
    image.remarks.push_back(make_error(read.error().code(), "{}: its times are left out", read.error().message()));
  if (parts.size() > 4) read_appendix(parts[4], limits, image);
  return image;
}

/// A table of the header: what it is, in one part, and its elements in the next.
Result<void> read_table(const Json& described, Bytes elements, const MessageLimits& limits, Series& series) {
  PEN_ASSIGN(auto fields, Fields::of(described, kind_of(described)));
  auto table_limits = limits;
  table_limits.frame_bytes_max = limits.table_bytes_max;
  PEN_ASSIGN(auto spec, read_spec(fields, table_limits), "{}", kind_of(described));
  PEN_ASSIGN(const auto bytes, spec.bytes(limits.table_bytes_max));
  if (elements.size() != bytes)
    return make_error(Errc::mismatch, "{}: shape [{}] (rows first) of {} needs {} bytes, but {} came",
                      kind_of(described), fmt::join(spec.shape, ", "), name(spec.type), bytes, elements.size());
  NamedArray array;
  array.channel = series.channels.front();
  array.spec = std::move(spec);
  array.data.assign(elements.begin(), elements.end());
  if (kind_of(described) == "flatfield")
    series.flatfield = {std::move(array)};
  else if (kind_of(described) == "pixelmask")
    series.pixel_mask = {std::move(array)};
  else
    series.countrate_correction_table = std::move(array);
  return {};
}

bool is_table(const Json& object) {
  const auto kind = kind_of(object);
  return kind == "flatfield" || kind == "pixelmask" || kind == "countrate_table";
}

/// Tables that are wrong are left out: the frames are worth more.
Result<void> read_tables(Parts parts, std::size_t& position, const MessageLimits& limits, V1Header& header) {
  while (position < parts.size() && is_v1(parts[position])) {
    const auto described = object_in(parts, position, limits);
    if (!described.ok() || !is_table(*described)) return {};
    if (position + 1 == parts.size())
      return make_error(Errc::truncated, "the header ends before the elements of its {}", kind_of(*described));
    if (auto read = read_table(*described, parts[position + 1], limits, header.series); !read.ok())
      header.remarks.push_back(std::move(read).error());
    position += 2;
  }
  return {};
}

void read_header_appendix(Bytes appendix, const MessageLimits& limits, V1Header& header) {
  if (appendix.empty()) return;
  if (appendix.size() > limits.text_bytes_max) {
    header.remarks.push_back(make_error(Errc::too_large,
                                        "the header's appendix has {} bytes, which exceeds the maximum of {}",
                                        appendix.size(), limits.text_bytes_max));
    return;
  }
  auto json = parse_json(as_text(appendix), "the header's appendix");
  const auto kept = json.ok() ? std::move(*json) : Json(utf8_of(as_text(appendix)));
  header.series.user_data_json = kept.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<V1Header> read_header(Parts parts, const Json& first, const MessageLimits& limits) {
  V1Header header;
  header.series.channels = {"threshold_1"};
  PEN_ASSIGN(auto fields, Fields::of(first, "header"));
  PEN_ASSIGN(header.series.id, required_whole(fields, "series"));
  PEN_ASSIGN(const auto detail, fields.text("header_detail", "none"));
  if (detail != "none" && detail != "basic" && detail != "all")
    return fields.wrong("header_detail", "none, basic or all");
  std::size_t position = 1;
  if (detail != "none") {
    PEN_ASSIGN(const auto config, object_in(parts, position, limits), "the detector's configuration");
    read_v1_config(config, limits, header);
    ++position;
  }
  if (detail == "all") PEN_TRY(read_tables(parts, position, limits, header));
  if (position + 1 < parts.size())
    return make_error(Errc::malformed,
                      "the header of series {} has {} parts, which does not match header_detail \"{}\"",
                      header.series.id, parts.size(), detail);
  if (position < parts.size()) read_header_appendix(parts[position], limits, header);
  // Streams of one series would need a name in common.
  if (const auto element = element_in(header.series.user_data_json); !element.ok() || *element)
    header.remarks.push_back(make_error(Errc::unsupported,
                                        "the header's appendix names an element of the detector, which needs Stream "
                                        "V2; the stream is recorded as a separate series"));
  return header;
}

}  // namespace

bool is_v1(Bytes first_part) { return !first_part.empty() && first_part.front() == std::byte{'{'}; }

std::size_t v1_message_parts(Parts parts) {
  // What begins a message; blobs and configurations may be as long as they like.
  constexpr std::size_t begin_bytes_max = 1024;
  const auto begins = [&](Bytes part) {
    if (!is_v1(part) || part.size() > begin_bytes_max) return false;
    const auto object = parse_json(as_text(part), "part");
    if (!object.ok() || !object->is_object()) return false;
    const auto kind = kind_of(*object);
    return kind == "header" || kind == "image" || kind == "series_end";
  };
  std::size_t count = std::min<std::size_t>(parts.size(), 1);
  while (count < parts.size() && !begins(parts[count])) ++count;
  return count;
}

Result<V1Message> parse_v1(Parts parts, const MessageLimits& limits) {
  PEN_ASSIGN(const auto first, object_in(parts, 0, limits));
  const auto kind = kind_of(first);
  if (kind == "image") {
    PEN_ASSIGN(auto image, read_image(parts, first, limits));
    return V1Message(std::move(image));
  }
  if (kind == "header") {
    PEN_ASSIGN(auto header, read_header(parts, first, limits));
    return V1Message(std::move(header));
  }
  if (kind == "series_end") {
    PEN_ASSIGN(auto fields, Fields::of(first, "series end"));
    PEN_ASSIGN(const auto series, required_whole(fields, "series"));
    return V1Message(V1End{series});
  }
  const auto htype = first.value("htype", Json());
  return make_error(Errc::malformed, "htype is {}, expected dheader-1.0, dimage-1.0 or dseries_end-1.0",
                    htype.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 64));
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> name_of_v1_image(Parts parts) {
  const auto first = object_in(parts, 0, {});
  if (!first.ok() || kind_of(*first) != "image") return std::nullopt;
  const auto series = first->value("series", Json()), frame = first->value("frame", Json());
  if (!series.is_number_unsigned() || !frame.is_number_unsigned()) return std::nullopt;
  return std::pair(series.get<std::uint64_t>(), frame.get<std::uint64_t>());
}

void write_lz4_framing(std::uint64_t raw_bytes, std::uint64_t block_bytes, MutableBytes into) {
  store_be(into.data(), raw_bytes);
  store_be(into.data() + 8, static_cast<std::uint32_t>(raw_bytes));
  store_be(into.data() + 12, static_cast<std::uint32_t>(block_bytes));
}

}  // namespace penstock::stream
