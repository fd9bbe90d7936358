#include "stream/messages/cbor_json.hpp"

#include <nlohmann/json.hpp>

namespace penstock::stream {
namespace {

using Json = nlohmann::ordered_json;

std::string base64url(Bytes bytes) {
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  text.reserve(bytes.size() * 4 / 3 + 3);
  std::uint32_t bits = 0;
  int held = 0;
  for (const auto byte : bytes) {
    bits = bits << 8 | std::to_integer<std::uint32_t>(byte);
    for (held += 8; held >= 6; held -= 6) text += alphabet[bits >> (held - 6) & 63];
  }
  if (held > 0) text += alphabet[bits << (6 - held) & 63];
  return text;
}

Result<Json> read_item(CborReader& reader);

Result<Json> read_list(CborReader& reader) {
  Json list = Json::array();
  PEN_ASSIGN(auto container, reader.enter_array());
  for (;;) {
    PEN_ASSIGN(const bool another, reader.more(container));
    if (!another) return list;
    PEN_ASSIGN(auto item, read_item(reader));
    list.push_back(std::move(item));
  }
}

Result<Json> read_object(CborReader& reader) {
  // Gathered in a map first: looking each key up in an ordered object is quadratic.
  std::map<std::string, Json> object;
  PEN_ASSIGN(auto container, reader.enter_map());
  for (;;) {
    PEN_ASSIGN(const bool another, reader.more(container));
    if (!another) return Json(std::move(object));
    PEN_ASSIGN(auto key, read_item(reader));
    PEN_ASSIGN(auto item, read_item(reader));
    object.insert_or_assign(key.is_string() ? key.get<std::string>() : key.dump(), std::move(item));
  }
}

Result<Json> read_item(CborReader& reader) {
  while (reader.peek() == CborKind::tag) PEN_TRY(reader.tag());
  switch (reader.peek()) {
    case CborKind::unsigned_integer: {
      PEN_ASSIGN(const auto value, reader.unsigned_integer());
      return Json(value);
    }
    case CborKind::negative_integer: {
      PEN_ASSIGN(const auto value, reader.integer());
      return Json(value);
    }
    case CborKind::floating: {
      PEN_ASSIGN(const auto value, reader.number());
      return Json(value);
    }
    case CborKind::boolean: {
      PEN_ASSIGN(const bool value, reader.boolean());
      return Json(value);
    }
    case CborKind::bytes: {
      PEN_ASSIGN(const auto value, reader.bytes());
      return Json(base64url(value));
    }
    case CborKind::text: {
      std::string scratch;
      PEN_ASSIGN(const auto value, reader.text(scratch));
      return Json(std::string(value));
    }
    case CborKind::array: return read_list(reader);
    case CborKind::map: return read_object(reader);
    default: {
      PEN_TRY(reader.skip());
      return Json(nullptr);
    }
  }
}

}  // namespace

Result<std::string> read_as_json(CborReader& reader, std::size_t bytes_max) {
  // Measured before it is built: a tree takes many times the bytes of its CBOR.
  auto ahead = reader;
  PEN_TRY(ahead.skip());
  const auto size = ahead.offset() - reader.offset();
  if (size > bytes_max) {
    PEN_TRY(reader.skip());
    return make_error(Errc::too_large, "{} bytes exceed the limit of {}", size, bytes_max);
  }
  PEN_ASSIGN(const auto item, read_item(reader));
  return item.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void write_json(CborWriter& writer, std::string_view json) {
  const auto item = Json::parse(json, nullptr, false);
  if (item.is_discarded()) return writer.text(json);
  const auto encoded = Json::to_cbor(item);
  writer.raw(std::as_bytes(std::span(encoded)));
}

}  // namespace penstock::stream
