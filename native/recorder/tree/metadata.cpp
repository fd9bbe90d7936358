#include "recorder/tree/metadata.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "recorder/tree/expand.hpp"

namespace penstock::recorder {
namespace {

constexpr std::size_t text_bytes_min = 64;
constexpr std::size_t text_bytes_max = 1024;

MetaColumn column_of(const std::string& name, const MetaValue& sample) {
  if (const auto* text = std::get_if<std::string>(&sample)) {
    const auto room = std::clamp(2 * text->size(), text_bytes_min, text_bytes_max);
    return {name, ElementType::u8, (room + 15) / 16 * 16};
  }
  if (const auto* array = std::get_if<MetaArray>(&sample))
    return {.name = name, .type = array->spec.type, .shape = array->spec.shape};
  if (std::holds_alternative<double>(sample)) return {name, ElementType::f64};
  return {name, std::holds_alternative<std::int64_t>(sample) ? ElementType::i64 : ElementType::u64};
}

template <typename Integer, typename Number>
bool fits(Number number) {
  if constexpr (std::is_integral_v<Number>) {
    return std::in_range<Integer>(number);
  } else {
    // Both bounds are powers of two, which a double has exactly.
    constexpr double end = 2.0 * static_cast<double>(std::uint64_t{1} << (std::numeric_limits<Integer>::digits - 1));
    return number >= static_cast<double>(std::numeric_limits<Integer>::min()) && number < end;
  }
}

template <typename Integer, typename Number>
bool encode_integer(Number number, std::byte* out) {
  bool fitting = fits<Integer>(number);
  // Half a number would look like a whole one.
  if constexpr (!std::is_integral_v<Number>)
    fitting = fitting && static_cast<double>(static_cast<Integer>(number)) == number;
  store_le(out, fitting ? static_cast<Integer>(number) : Integer{0});
  return fitting;
}

template <typename Number>
bool encode_number(Number number, ElementType type, std::byte* out) {
  if (type == ElementType::i64) return encode_integer<std::int64_t>(number, out);
  if (type == ElementType::u64) return encode_integer<std::uint64_t>(number, out);
  const auto stored = static_cast<double>(number);
  store_le(out, stored);
  if constexpr (std::is_integral_v<Number>) return fits<Number>(stored) && static_cast<Number>(stored) == number;
  return true;
}

/// As much of `text` as there is room for, cut between two characters.
bool encode_text(std::string_view text, std::size_t room, std::byte* out) {
  auto size = std::min(text.size(), room);
  if (size < text.size())
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  std::memcpy(out, text.data(), size);
  std::memset(out + size, 0, room - size);
  return size == text.size();
}

void encode_nothing(const MetaColumn& column, std::byte* out) {
  const auto bytes = column.row_bytes();
  std::memset(out, 0, bytes);
  if (column.text_bytes > 0) return;
  for (std::size_t at = 0; at < bytes; at += size_of(column.type)) {
    if (column.type == ElementType::f32) store_le(out + at, std::numeric_limits<float>::quiet_NaN());
    if (column.type == ElementType::f64) store_le(out + at, std::numeric_limits<double>::quiet_NaN());
  }
}

}  // namespace

bool can_be_column(const std::string& name) {
  const auto awkward = [](char c) { return c == '/' || static_cast<unsigned char>(c) < 0x20; };
  return !name.empty() && name.front() != '.' && std::none_of(name.begin(), name.end(), awkward);
}

std::vector<MetaColumn> meta_columns(const Metadata& metadata) {
  std::vector<MetaColumn> columns;
  for (const auto& [name, sample] : metadata) {
    const bool there =
        std::any_of(columns.begin(), columns.end(), [&name = name](const auto& c) { return c.name == name; });
    if (!there && can_be_column(name)) columns.push_back(column_of(name, sample));
  }
  return columns;
}

std::uint64_t memory_bytes(const Metadata& metadata) {
  constexpr std::uint64_t block_bytes = 16;               // of the allocator, for each block
  const auto inline_capacity = std::string().capacity();  // a text up to this long has no block of its own
  const auto of_text = [inline_capacity](const std::string& text) {
    const auto capacity = std::min(text.capacity(), text_bytes_max + 1);
    return capacity <= inline_capacity ? 0 : capacity + 1 + block_bytes;
  };
  std::uint64_t bytes = metadata.capacity() * sizeof(Metadata::value_type);
  for (const auto& [name, value] : metadata) {
    bytes += of_text(name);
    if (const auto* text = std::get_if<std::string>(&value)) bytes += of_text(*text);
    if (const auto* array = std::get_if<MetaArray>(&value))
      bytes += array->data.capacity() + array->spec.shape.capacity() * sizeof(array->spec.shape[0]) + 2 * block_bytes;
  }
  return bytes;
}

bool expand_arrays(Metadata& metadata) {
  bool damaged = false;
  std::erase_if(metadata, [&](auto& item) {
    auto* array = std::get_if<MetaArray>(&item.second);
    if (array == nullptr || (array->encoding == Encoding::none && array->form.plain())) return false;
    const auto bytes = array->spec.bytes(meta_array_bytes_max);
    std::vector<std::byte> data(bytes.ok() ? *bytes : 0);
    CodecScratch scratch;
    const bool good =
        bytes.ok() && expand({array->encoding, array->form}, array->spec, array->data, data, scratch).ok();
    damaged |= !good;
    *array = MetaArray{std::move(array->spec), std::move(data)};
    return !good;
  });
  return damaged;
}

void shorten_text(Metadata& metadata) {
  for (auto& item : metadata) {
    auto* text = std::get_if<std::string>(&item.second);
    if (text != nullptr && text->size() > text_bytes_max + 1) *text = text->substr(0, text_bytes_max + 1);
  }
}

bool encode_value(const MetaValue* value, const MetaColumn& column, std::byte* out) {
  if (value == nullptr) {
    encode_nothing(column, out);
    return true;
  }
  return std::visit(
      [&](const auto& v) {
        using Held = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<Held, MetaArray>) {
          const bool fits = v.spec == ArraySpec{column.type, column.shape} && v.data.size() == column.row_bytes();
          if (fits && column.text_bytes == 0)
            std::memcpy(out, v.data.data(), v.data.size());
          else
            encode_nothing(column, out);
          return fits;
        } else if constexpr (std::is_same_v<Held, std::string>) {
          if (column.text_bytes > 0) return encode_text(v, column.text_bytes, out);
          encode_nothing(column, out);
          return false;
        } else {
          if (column.text_bytes > 0) return encode_text(fmt::format("{}", v), column.text_bytes, out);
          if (!column.shape.empty()) {
            encode_nothing(column, out);
            return false;
          }
          return encode_number(v, column.type, out);
        }
      },
      *value);
}

}  // namespace penstock::recorder
