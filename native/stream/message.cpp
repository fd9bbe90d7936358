#include "stream/message.hpp"

#include "stream/message_fields.hpp"

namespace penstock::stream {
namespace {

Result<Message> read_fields(CborReader& reader, const ArrayContext& context) {
  PEN_ASSIGN(auto fields, reader.enter_map());
  std::string scratch;
  PEN_ASSIGN(const bool any, reader.more(fields));
  if (!any) return make_error(Errc::malformed, "an empty map, without \"type\"");
  PEN_ASSIGN(const auto first, reader.text(scratch));
  if (first != "type")
    return make_error(Errc::malformed, "the first field is \"{}\", not \"type\"", first.substr(0, 64));
  PEN_ASSIGN(const auto type, reader.text(scratch), "type");
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
  return make_error(Errc::malformed, "type \"{}\" is none of start, image, end", type.substr(0, 64));
}

Result<Message> parse(Bytes message, const ArrayContext& context) {
  CborReader reader(message, context.limits.nesting_max);
  if (reader.peek() != CborKind::tag)
    return make_error(Errc::malformed, "no Stream V2 message: it does not begin with CBOR tag {}", tag_self_described);
  PEN_ASSIGN(const auto tag, reader.tag());
  if (tag != tag_self_described)
    return make_error(Errc::malformed, "no Stream V2 message: it begins with CBOR tag {}, not {}", tag,
                      tag_self_described);
  PEN_ASSIGN(auto parsed, read_fields(reader, context));
  if (!reader.at_end())
    return make_error(Errc::malformed, "{} bytes follow the message", message.size() - reader.offset());
  return parsed;
}

}  // namespace

Result<Message> parse_message(Bytes message, const MessageLimits& limits) {
  return parse(message, ArrayContext{limits, std::nullopt});
}

Result<Message> parse_detached(Bytes message, Bytes pixels, const MessageLimits& limits) {
  return parse(message, ArrayContext{limits, pixels});
}

std::optional<ImageName> name_of_image(Bytes message, const MessageLimits& limits) {
  CborReader reader(message, limits.nesting_max);
  if (reader.peek() != CborKind::tag || !reader.tag().ok()) return std::nullopt;
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

Result<SeriesEnd> read_end(CborReader& reader, CborContainer& fields, const MessageLimits& limits) {
  SeriesEnd end;
  bool has_id = false;
  bool has_unique_id = false;
  std::string scratch;
  for (;;) {
    PEN_ASSIGN(const bool another, reader.more(fields));
    if (!another) break;
    PEN_ASSIGN(const auto key, reader.text(scratch));
    if (key == "series_id") {
      if (has_id) return make_error(Errc::malformed, "series_id: twice");
      PEN_ASSIGN(end.id, reader.unsigned_integer(), "series_id");
      has_id = true;
    } else if (key == "series_unique_id") {
      if (has_unique_id) return make_error(Errc::malformed, "series_unique_id: twice");
      PEN_ASSIGN(end.unique_id, read_identifier(reader, limits), "series_unique_id");
      has_unique_id = true;
    } else {
      PEN_TRY(reader.skip(), "{}", std::string(key.substr(0, 64)));
    }
  }
  if (!has_id) return make_error(Errc::malformed, "series_id: missing");
  if (!has_unique_id) return make_error(Errc::malformed, "series_unique_id: missing");
  return end;
}

}  // namespace penstock::stream
