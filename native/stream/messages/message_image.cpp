#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/fields.hpp"
#include "stream/messages/cbor_json.hpp"
#include "stream/messages/message_fields.hpp"

namespace penstock::stream {
namespace {

enum Field : unsigned {
  series_id,
  series_unique_id,
  image_id,
  data,
  start_time,
  stop_time,
  real_time,
  series_date,
  user_data,
  field_count
};
constexpr std::array<std::string_view, field_count> field_names{"series_id", "series_unique_id", "image_id",
                                                                "data",      "start_time",       "stop_time",
                                                                "real_time", "series_date",      "user_data"};
/// What an image cannot be recorded without; `series_id` is not used, but has to be right.
constexpr std::array required{series_unique_id, image_id, data};

/// [numerator, denominator] in seconds, as nanoseconds rounded to the nearest.
Result<std::int64_t> read_time_ns(CborReader& reader) {
  PEN_ASSIGN(auto pair, reader.enter_array());
  std::uint64_t numbers[2] = {0, 0};
  std::size_t count = 0;
  for (;;) {
    PEN_ASSIGN(const bool another, reader.more(pair));
    if (!another) break;
    if (count == 2) return make_error(Errc::malformed, "more than [numerator, denominator]");
    PEN_ASSIGN(numbers[count++], reader.unsigned_integer());
  }
  if (count != 2) return make_error(Errc::malformed, "{} numbers, not [numerator, denominator]", count);
  const auto [numerator, denominator] = numbers;
  if (denominator == 0) return make_error(Errc::malformed, "[{}, 0] has no value", numerator);
  __extension__ using Wide = unsigned __int128;
  const Wide scaled = Wide{numerator} * 1'000'000'000 + denominator / 2;
  const Wide ns = scaled / denominator;
  if (ns > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return make_error(Errc::too_large, "[{}, {}] seconds exceed 292 years", numerator, denominator);
  return static_cast<std::int64_t>(ns);
}

Result<void> read_data(CborReader& reader, const ArrayContext& context, ImageMessage& image) {
  return for_each_entry(reader, [&](std::string_view key) -> Result<void> {
    if (key.size() > context.limits.identifier_bytes_max)
      return make_error(Errc::too_large, "a channel's name of {} bytes", key.size());
    if (image.channels.size() == context.limits.channels_max)
      return make_error(Errc::too_large, "more than {} channels", context.limits.channels_max);
    if (std::any_of(image.channels.begin(), image.channels.end(), [&](const auto& c) { return c.channel == key; }))
      return make_error(Errc::malformed, "twice");
    ChannelImage channel;
    channel.channel = key;
    PEN_ASSIGN(auto array, read_array(reader, context));
    channel.spec = std::move(array.spec);
    channel.encoding = array.encoding;
    channel.form = array.form;
    channel.payload = array.payload;
    image.channels.push_back(std::move(channel));
    return {};
  });
}

using MaybeValue = std::optional<MetaValue>;

/// Of all arrays that one frame brings along, decoded: thousands of rows wait in memory.
constexpr std::uint64_t meta_arrays_bytes_max = 4 * meta_array_bytes_max;

std::uint64_t array_bytes_in(const ImageMessage& image) {
  std::uint64_t bytes = 0;
  for (const auto& [name, value] : image.metadata)
    if (const auto* array = std::get_if<MetaArray>(&value)) bytes += array->spec.bytes(meta_array_bytes_max).value();
  return bytes;
}

/// Takes a typed array that is small enough for a column; otherwise takes nothing.
std::optional<MetaArray> read_small_array(CborReader& reader, const MessageLimits& limits, const ImageMessage& image) {
  auto ahead = reader;
  const auto tag = ahead.tag();
  if (!tag.ok() || !is_array_tag(*tag)) return std::nullopt;
  auto again = reader;
  const auto field = read_array(again, ArrayContext{limits, std::nullopt});
  if (!field.ok()) return std::nullopt;
  const auto bytes = field->spec.bytes(meta_array_bytes_max);
  if (!bytes.ok() || field->payload.size() > 2 * meta_array_bytes_max) return std::nullopt;
  if (*bytes > meta_arrays_bytes_max - std::min(meta_arrays_bytes_max, array_bytes_in(image))) return std::nullopt;
  if (!reader.skip().ok()) return std::nullopt;
  return MetaArray{field->spec, {field->payload.begin(), field->payload.end()}, field->encoding, field->form};
}

/// A text that is longer is cut in its column, and structures have no other use than as text.
constexpr std::size_t structure_bytes_max = 16 << 10;
/// Of user_data that is JSON text. Its tree takes many times as much for a moment.
constexpr std::size_t object_text_bytes_max = 512 << 10;
/// Of all values that an image brings along, with their names, for each of its channels: they wait in memory.
constexpr std::size_t values_bytes_max = 4 << 20;

/// About what a value takes in memory.
std::size_t memory_bytes(std::string_view name, const MetaValue& value) {
  constexpr std::size_t each = sizeof(std::pair<std::string, MetaValue>);
  const auto* text = std::get_if<std::string>(&value);
  const auto* array = std::get_if<MetaArray>(&value);
  return each + name.size() + (text != nullptr ? text->size() : 0) + (array != nullptr ? array->data.size() : 0);
}

/// One value of per-frame metadata; nothing for null.
Result<MaybeValue> read_value(CborReader& reader, const MessageLimits& limits, const ImageMessage& image) {
  switch (reader.peek()) {
    case CborKind::unsigned_integer: {
      PEN_ASSIGN(const auto value, reader.unsigned_integer());
      // Signed where it fits, so that a value that changes its sign keeps its type.
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return MaybeValue(value);
      return MaybeValue(static_cast<std::int64_t>(value));
    }
    case CborKind::negative_integer: {
      PEN_ASSIGN(const auto value, reader.integer());
      return MaybeValue(value);
    }
    case CborKind::floating: {
      PEN_ASSIGN(const auto value, reader.number());
      return MaybeValue(value);
    }
    case CborKind::boolean: {
      PEN_ASSIGN(const bool value, reader.boolean());
      return MaybeValue(std::int64_t{value ? 1 : 0});
    }
    case CborKind::null: {
      PEN_TRY(reader.null());
      return MaybeValue();
    }
    case CborKind::text: {
      PEN_ASSIGN(auto value, read_text(reader, limits.text_bytes_max));
      return MaybeValue(std::move(value));
    }
    case CborKind::tag:
      if (auto array = read_small_array(reader, limits, image)) return MaybeValue(std::move(*array));
      break;
    default: break;
  }
  PEN_ASSIGN(auto json, read_as_json(reader, std::min(structure_bytes_max, limits.text_bytes_max)));
  return MaybeValue(std::move(json));
}

constexpr std::size_t metadata_usual = 16;
/// Of one image: more tell no more.
constexpr std::size_t remarks_max = 16;

void remark(ImageMessage& image, std::string_view field, Bytes item, const Error& why) {
  if (image.remarks.size() < remarks_max)
    image.remarks.push_back(make_error(why.code(), "{}: {}: it is left out", shown_field(field, item), why.message()));
}

/// What check_metadata_names() wants to know besides the values.
struct MetadataNames {
  std::size_t bytes = 0;           ///< of the values
  std::vector<std::string> nulls;  ///< names without a value; of more than there may be values only the first ones
  // Values of user_data stand here in ImageMessage::metadata, and its nulls there in `nulls`.
  std::size_t values_from = 0, values_to = 0;
  std::size_t nulls_from = 0, nulls_to = 0;
};

Result<void> read_metadata(CborReader& reader, const MessageLimits& limits, std::string_view key, ImageMessage& image,
                           MetadataNames& names) {
  if (key.size() > limits.identifier_bytes_max) return make_error(Errc::too_large, "a name of {} bytes", key.size());
  if (image.metadata.size() == limits.metadata_max)
    return make_error(Errc::too_large, "more than {} values of metadata", limits.metadata_max);
  if (image.metadata.capacity() == 0) image.metadata.reserve(metadata_usual);
  PEN_ASSIGN(auto value, read_value(reader, limits, image));
  if (value) {
    const auto bytes = memory_bytes(key, *value);
    if (bytes > values_bytes_max - std::min(values_bytes_max, names.bytes))
      return make_error(Errc::too_large, "{} bytes, and with it the values of the image exceed the limit of {}", bytes,
                        values_bytes_max);
    names.bytes += bytes;
    image.metadata.emplace_back(key, std::move(*value));
  }
  if (!value && names.nulls.size() < limits.metadata_max) names.nulls.emplace_back(key);
  return {};
}

/// Which of two is meant, nobody knows: of names that are there twice no value is taken. Once for all names: a look at
/// all others for each takes milliseconds where there are a thousand.
void drop_names_twice(ImageMessage& image, const MetadataNames& known) {
  std::vector<std::pair<std::string_view, bool>> names;  // and whether it is of user_data
  names.reserve(image.metadata.size() + known.nulls.size());
  for (std::size_t i = 0; i < image.metadata.size(); ++i)
    names.emplace_back(image.metadata[i].first, i >= known.values_from && i < known.values_to);
  for (std::size_t i = 0; i < known.nulls.size(); ++i)
    names.emplace_back(known.nulls[i], i >= known.nulls_from && i < known.nulls_to);
  std::sort(names.begin(), names.end());
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  std::set<std::string, std::less<>> twice;
  for (auto at = std::adjacent_find(names.begin(), names.end(), same); at != names.end();
       at = std::adjacent_find(std::next(at), names.end(), same)) {
    // The later one is of user_data if any is.
    const auto* where = std::next(at)->second ? "user_data: " : "";
    if (twice.emplace(at->first).second && image.remarks.size() < remarks_max)
      image.remarks.push_back(
          make_error(Errc::malformed, "{}\"{}\": twice: it is left out", where, at->first.substr(0, 64)));
  }
  if (!twice.empty()) std::erase_if(image.metadata, [&](const auto& entry) { return twice.contains(entry.first); });
}

/// Each channel's frame gets all of the values: the last ones are left out where that is too much.
void bound_values(ImageMessage& image) {
  const auto room = values_bytes_max / std::max<std::size_t>(image.channels.size(), 1);
  std::size_t bytes = 0;
  std::size_t kept = 0;
  for (const auto& [name, value] : image.metadata) {
    bytes += memory_bytes(name, value);
    if (bytes > room) break;
    ++kept;
  }
  if (kept == image.metadata.size()) return;
  image.remarks.push_back(make_error(Errc::too_large,
                                     "{} of {} values are left out: all of them exceed the limit of {} bytes for {} "
                                     "channels",
                                     image.metadata.size() - kept, image.metadata.size(), values_bytes_max,
                                     image.channels.size()));
  image.metadata.erase(image.metadata.begin() + static_cast<std::ptrdiff_t>(kept), image.metadata.end());
}

/// Of text that stands for a JSON object, as CBOR; empty of any other. Takes nothing.
std::vector<std::uint8_t> object_in(CborReader reader, const MessageLimits& limits) {
  const auto text = read_text(reader, std::min(object_text_bytes_max, limits.text_bytes_max));
  const auto object = text.ok() ? object_in_text(*text, limits) : std::nullopt;
  return object ? Json::to_cbor(Json::parse(*object, nullptr, false)) : std::vector<std::uint8_t>();
}

Result<void> read_user_data(CborReader& reader, const MessageLimits& limits, ImageMessage& image,
                            MetadataNames& names) {
  names.values_from = image.metadata.size();
  names.nulls_from = names.nulls.size();
  const auto entries = [&](CborReader& map) {
    return for_each_good_entry(
        map, [&](std::string_view key, CborReader& item) { return read_metadata(item, limits, key, image, names); });
  };
  const auto object = reader.peek() == CborKind::text ? object_in(reader, limits) : std::vector<std::uint8_t>();
  Result<void> read;
  if (!object.empty()) {
    CborReader map(std::as_bytes(std::span(object)), limits.nesting_max);
    read = entries(map);
    if (read.ok()) read = reader.skip();
  } else if (reader.peek() == CborKind::map) {
    read = entries(reader);
  } else {
    read = read_metadata(reader, limits, field_names[user_data], image, names);
  }
  names.values_to = image.metadata.size();
  names.nulls_to = names.nulls.size();
  return read;
}

Result<void> read_field(CborReader& reader, unsigned field, const ArrayContext& context, ImageMessage& image,
                        MetadataNames& names) {
  switch (field) {
    case series_id: {
      PEN_ASSIGN(image.series_id, reader.unsigned_integer());
      return {};
    }
    case series_unique_id: {
      PEN_ASSIGN(image.series_unique_id, read_identifier(reader, context.limits));
      return {};
    }
    case image_id: {
      PEN_ASSIGN(image.image_id, reader.unsigned_integer());
      return {};
    }
    case data: return read_data(reader, context, image);
    case start_time: {
      PEN_ASSIGN(image.start_ns, read_time_ns(reader));
      return {};
    }
    case stop_time: {
      PEN_ASSIGN(image.stop_ns, read_time_ns(reader));
      return {};
    }
    case real_time: {
      PEN_ASSIGN(image.real_ns, read_time_ns(reader));
      return {};
    }
    case series_date: {
      PEN_ASSIGN(image.series_date, read_date(reader, context.limits));
      return {};
    }
    default: return read_user_data(reader, context.limits, image, names);
  }
}

/// What an image without pixels says of itself: its sender knows that there are none.
const std::string* told_damage(const ImageMessage& image) {
  for (const auto& [name, value] : image.metadata)
    if (name == "damaged") return std::get_if<std::string>(&value);
  return nullptr;
}

Result<void> check_required(const ImageMessage& image, unsigned seen) {
  constexpr std::size_t shown_max = 500;
  for (const auto field : required) {
    if ((seen & 1u << field) != 0) continue;
    const auto* why = field == data ? told_damage(image) : nullptr;
    if (why == nullptr) return make_error(Errc::malformed, "{}: missing", field_names[field]);
    return make_error(Errc::malformed, "frame {} of series \"{}\" was corrupt when it was sent: {}", image.image_id,
                      image.series_unique_id, why->substr(0, shown_max));
  }
  if (image.channels.empty()) return make_error(Errc::malformed, "data: no channel");
  return {};
}

bool has_to_be_right(unsigned field) {
  return field == series_id || std::find(required.begin(), required.end(), field) != required.end();
}

/// What the pixels do not need costs none of them.
Result<void> read_optional(CborReader& reader, std::string_view key, unsigned field, const ArrayContext& context,
                           ImageMessage& image, MetadataNames& names) {
  const auto from = reader.offset();
  PEN_ASSIGN(const auto problem, attempt(reader, [&](CborReader& trial) {
               return field == field_count ? read_metadata(trial, context.limits, key, image, names)
                                           : read_field(trial, field, context, image, names);
             }));
  if (problem) remark(image, key.substr(0, 64), reader.taken_since(from), *problem);
  return {};
}

}  // namespace

Result<ImageMessage> read_image(CborReader& reader, CborContainer& fields, const ArrayContext& context) {
  ImageMessage image;
  MetadataNames names;
  unsigned seen = 0;
  bool has_type = false;
  std::string scratch;
  for (;;) {
    PEN_ASSIGN(const bool another, reader.more(fields));
    if (!another) break;
    PEN_ASSIGN(const auto key, reader.text(scratch));
    if (key == "type") {
      PEN_TRY(pass_type(reader, has_type));
      continue;
    }
    const auto field =
        static_cast<unsigned>(std::find(field_names.begin(), field_names.end(), key) - field_names.begin());
    if (field == field_count || !has_to_be_right(field)) {
      const bool again = field < field_count && (std::exchange(seen, seen | 1u << field) & 1u << field) != 0;
      if (again) {
        PEN_TRY(reader.skip());
        remark(image, field_names[field], {}, make_error(Errc::malformed, "twice"));
      } else {
        PEN_TRY(read_optional(reader, key, field, context, image, names), "\"{}\"", std::string(key.substr(0, 64)));
      }
      continue;
    }
    if ((seen & 1u << field) != 0) return make_error(Errc::malformed, "{}: twice", field_names[field]);
    seen |= 1u << field;
    PEN_TRY(read_field(reader, field, context, image, names), "{}", field_names[field]);
  }
  PEN_TRY(check_required(image, seen));
  drop_names_twice(image, names);
  bound_values(image);
  return image;
}

}  // namespace penstock::stream
