#include "stream/messages/message.hpp"

#include "base/fields.hpp"
#include "stream/messages/cbor_json.hpp"
#include "stream/messages/message_fields.hpp"

namespace penstock::stream {
namespace {

/// The tag around a message, which need not be there: no message of another kind is a map.
Result<void> pass_tag(CborReader& reader) {
  if (reader.peek() == CborKind::map) return {};
  if (reader.peek() != CborKind::tag)
    return make_error(Errc::malformed, "not a Stream V2 message: it starts with neither a CBOR map nor CBOR tag {}",
                      tag_self_described);
  PEN_ASSIGN(const auto tag, reader.tag());
  if (tag != tag_self_described)
    return make_error(Errc::malformed, "not a Stream V2 message: it starts with CBOR tag {}, not {}", tag,
                      tag_self_described);
  return {};
}

/// The value of `type`, wherever it stands in the map; detectors send it first. Takes nothing.
Result<std::string> type_of(CborReader reader) {
  PEN_ASSIGN(auto fields, reader.enter_map());
  std::string scratch;
  for (;;) {
    PEN_ASSIGN(const bool another, reader.more(fields));
    if (!another) return make_error(Errc::malformed, "not a Stream V2 message: a map without \"type\"");
    PEN_ASSIGN(const auto key, reader.text(scratch));
    if (key == "type") break;
    PEN_TRY(reader.skip(), "\"{}\"", std::string(key.substr(0, 64)));
  }
  PEN_ASSIGN(const auto type, reader.text(scratch), "type");
  return std::string(type);
}

Result<Message> read_fields(CborReader& reader, const ArrayContext& context) {
  PEN_ASSIGN(const auto type, type_of(reader));
  PEN_ASSIGN(auto fields, reader.enter_map());
  if (type == "image") {
    PEN_ASSIGN(auto image, read_image(reader, fields, context), "image");
    return Message(std::move(image));
  }
  if (type == "start") {
    PEN_ASSIGN(auto series, read_start(reader, fields, context.limits), "start");
    return Message(std::move(series));
  }
  if (type == "end") {
    PEN_ASSIGN(auto end, read_end(reader, fields, context.limits), "end");
    return Message(std::move(end));
  }
  return make_error(Errc::malformed, "type \"{}\" is not start, image or end", type.substr(0, 64));
}

Result<Message> parse(Bytes message, const ArrayContext& context) {
  CborReader reader(message, context.limits.nesting_max);
  PEN_TRY(pass_tag(reader));
  PEN_ASSIGN(auto parsed, read_fields(reader, context));
  if (!reader.at_end())
    return make_error(Errc::malformed, "{} bytes follow the message", message.size() - reader.offset());
  return parsed;
}

constexpr int nesting_shown_max = 8;
constexpr std::size_t bytes_shown_max = 512;

}  // namespace

std::string shown_field(std::string_view field, Bytes item) {
  CborReader reader(item, nesting_shown_max);
  const auto value =
      item.size() > bytes_shown_max ? Result<std::string>(std::string()) : read_as_json(reader, bytes_shown_max);
  if (!value.ok() || value->empty()) return std::string(field);
  constexpr std::size_t shown_max = 80;
  return fmt::format("{} is {}{}", field, value->substr(0, shown_max), value->size() > shown_max ? "..." : "");
}

std::optional<std::string> object_in_text(std::string_view text, const MessageLimits& limits) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') return std::nullopt;
  const auto known = parse_json(text, "user_data");
  if (!known.ok() || !known->is_object()) return std::nullopt;
  // It travels on within a message, which is a map.
  const auto cbor = Json::to_cbor(*known);
  CborReader reader(std::as_bytes(std::span(cbor)), limits.nesting_max - 1);
  if (!reader.skip().ok()) return std::nullopt;
  return known->dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Message> parse_message(Bytes message, const MessageLimits& limits) {
  return parse(message, ArrayContext{limits, std::nullopt});
}

Result<Message> parse_detached(Bytes message, Bytes pixels, const MessageLimits& limits) {
  return parse(message, ArrayContext{limits, pixels});
}

std::optional<ImageName> name_of_image(Bytes message, const MessageLimits& limits) {
  CborReader reader(message, limits.nesting_max);
  if (!pass_tag(reader).ok()) return std::nullopt;
  auto fields = reader.enter_map();
  if (!fields.ok()) return std::nullopt;
  ImageName image;
  bool is_image = false;
  bool has_number = false;
  std::string scratch;
  while (true) {
    const auto another = reader.more(*fields);
    if (!another.ok() || !*another) break;
    const auto key = reader.text(scratch);
    if (!key.ok()) break;
    if (*key == "type") {
      const auto type = reader.text(scratch);
      if (!type.ok() || *type != "image") return std::nullopt;
      is_image = true;
    } else if (*key == "series_unique_id") {
      auto id = read_identifier(reader, limits);
      if (!id.ok()) break;
      image.series_unique_id = std::move(*id);
    } else if (*key == "image_id") {
      const auto number = reader.unsigned_integer();
      if (!number.ok()) break;
      image.image_id = *number;
      has_number = true;
    } else if (!reader.skip().ok()) {
      break;
    }
  }
  if (!is_image || !has_number || image.series_unique_id.empty()) return std::nullopt;
  return image;
}

std::optional<std::string> name_of_start(Bytes message, const MessageLimits& limits) {
  CborReader reader(message, limits.nesting_max);
  if (!pass_tag(reader).ok()) return std::nullopt;
  auto fields = reader.enter_map();
  if (!fields.ok()) return std::nullopt;
  std::string scratch;
  bool is_start = false;
  std::string unique_id;
  for (auto another = reader.more(*fields); another.ok() && *another; another = reader.more(*fields)) {
    const auto key = reader.text(scratch);
    if (!key.ok()) break;
    if (*key == "type") {
      const auto type = reader.text(scratch);
      if (!type.ok() || *type != "start") return std::nullopt;
      is_start = true;
    } else if (*key == "series_unique_id") {
      auto id = read_identifier(reader, limits);
      if (!id.ok()) break;
      unique_id = std::move(*id);
    } else if (!reader.skip().ok()) {
      break;
    }
  }
  return is_start ? std::optional(std::move(unique_id)) : std::nullopt;
}

Result<SeriesEnd> read_end(CborReader& reader, CborContainer& fields, const MessageLimits& limits) {
  SeriesEnd end;
  bool has_type = false;
  bool has_id = false;
  bool has_unique_id = false;
  std::string scratch;
  for (;;) {
    PEN_ASSIGN(const bool another, reader.more(fields));
    if (!another) break;
    PEN_ASSIGN(const auto key, reader.text(scratch));
    if (key == "type") {
      PEN_TRY(pass_type(reader, has_type));
    } else if (key == "series_id") {
      if (has_id) return make_error(Errc::malformed, "series_id: twice");
      PEN_ASSIGN(end.id, reader.unsigned_integer(), "series_id");
      has_id = true;
    } else if (key == "series_unique_id") {
      if (has_unique_id) return make_error(Errc::malformed, "series_unique_id: twice");
      PEN_ASSIGN(end.unique_id, read_identifier(reader, limits), "series_unique_id");
      has_unique_id = true;
    } else if (key == "sole" && reader.peek() == CborKind::boolean) {
      PEN_ASSIGN(end.sole, reader.boolean(), "sole");
    } else {
      PEN_TRY(reader.skip(), "{}", std::string(key.substr(0, 64)));
    }
  }
  if (!has_unique_id) return make_error(Errc::malformed, "series_unique_id: missing");
  return end;
}

}  // namespace penstock::stream
