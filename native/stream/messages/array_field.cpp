#include "stream/messages/array_field.hpp"

#include <fmt/ranges.h>

namespace penstock::stream {
namespace {

constexpr std::uint64_t typed_array_first = 64;
constexpr std::uint64_t typed_array_last = 87;

/// RFC 8746: bit 4 of the tag says float, bit 3 signed, bit 2 little-endian, and the lowest two give the size.
Result<void> read_type_of_tag(std::uint64_t tag, ArrayField& field) {
  constexpr std::uint64_t clamped_u8 = 68, no_type = 76;
  if (tag < typed_array_first || tag > typed_array_last || tag == no_type)
    return make_error(Errc::malformed, "tag {} instead of a typed array (tags {} to {})", tag, typed_array_first,
                      typed_array_last);
  const bool is_float = (tag & 16) != 0, is_signed = (tag & 8) != 0, little_endian = (tag & 4) != 0;
  const auto size = tag & 3;
  if (is_float) {
    if (size == 3)
      return make_error(Errc::unsupported, "typed array of tag {}: floats of 128 bits; send float64 (tag 86)", tag);
    constexpr ElementType floats[] = {ElementType::f32, ElementType::f32, ElementType::f64};
    field.spec.type = floats[size];
    field.form.half = size == 0;
    field.form.big_endian = !little_endian;
    return {};
  }
  constexpr ElementType whole[] = {ElementType::u8, ElementType::u16, ElementType::u32, ElementType::u64};
  constexpr ElementType with_sign[] = {ElementType::i8, ElementType::i16, ElementType::i32, ElementType::i64};
  field.spec.type = is_signed ? with_sign[size] : whole[size];
  field.form.big_endian = !little_endian && size > 0 && tag != clamped_u8;
  return {};
}

Result<Encoding> encoding_of_algorithm(std::string_view algorithm) {
  if (algorithm == "bslz4") return Encoding::bitshuffle_lz4;
  if (algorithm == "bszstd") return Encoding::bitshuffle_zstd;
  if (algorithm == "lz4") return Encoding::lz4;
  if (algorithm == "trpx")
    return make_error(
        Errc::unsupported,
        "compression algorithm \"trpx\", which no HDF5 filter decompresses; set the detector's compression "
        "to bslz4");
  return make_error(Errc::unsupported, "compression algorithm \"{}\" is not supported, expected bslz4, bszstd or lz4",
                    algorithm.substr(0, 32));
}

/// The byte string itself, or [offset, bytes] where the pixels stand apart.
Result<Bytes> read_payload(CborReader& reader, const ArrayContext& context) {
  if (!context.pixels || reader.peek() != CborKind::array) return reader.bytes();
  PEN_ASSIGN(auto range, reader.enter_array());
  std::uint64_t numbers[2] = {0, 0};
  std::size_t count = 0;
  for (;;) {
    PEN_ASSIGN(const bool another, reader.more(range));
    if (!another) break;
    if (count == 2) return make_error(Errc::malformed, "a range of pixels with more than [offset, bytes]");
    PEN_ASSIGN(numbers[count++], reader.unsigned_integer());
  }
  if (count != 2) return make_error(Errc::malformed, "a range of pixels with {} numbers, not [offset, bytes]", count);
  const auto [offset, size] = numbers;
  if (offset > context.pixels->size() || size > context.pixels->size() - offset)
    return make_error(Errc::malformed, "pixels [{}, {}] reach beyond the pixel part of {} bytes", offset, size,
                      context.pixels->size());
  return context.pixels->subspan(offset, size);
}

/// Compressed bytes that no typed array is around: numbers of the size that the compressor took them for.
Result<void> take_type_of_modifier(std::uint64_t modifier, ArrayField& field) {
  switch (modifier) {
    case 0:
    case 1: field.spec.type = ElementType::u8; return {};
    case 2: field.spec.type = ElementType::u16; return {};
    case 4: field.spec.type = ElementType::u32; return {};
    case 8: field.spec.type = ElementType::u64; return {};
    default: return make_error(Errc::malformed, "compression with modifier {}, expected 1, 2, 4 or 8", modifier);
  }
}

Result<void> check_modifier(Encoding encoding, std::uint64_t modifier, std::size_t element_bytes) {
  if (modifier == element_bytes || (encoding == Encoding::lz4 && modifier == 0)) return {};
  return make_error(Errc::mismatch, "compression \"{}\" with modifier {}, but the elements have {} bytes",
                    name(encoding), modifier, element_bytes);
}

/// [algorithm, modifier, bytes]
Result<void> read_compressed(CborReader& reader, const ArrayContext& context, bool typed, ArrayField& field) {
  PEN_ASSIGN(auto items, reader.enter_array());
  const auto expect_item = [&](std::string_view what) -> Result<void> {
    PEN_ASSIGN(const bool another, reader.more(items));
    if (!another) return make_error(Errc::malformed, "compressed bytes (tag {}) without {}", tag_compressed, what);
    return {};
  };
  std::string scratch;
  PEN_TRY(expect_item("algorithm"));
  PEN_ASSIGN(const auto algorithm, reader.text(scratch));
  PEN_ASSIGN(field.encoding, encoding_of_algorithm(algorithm));
  PEN_TRY(expect_item("modifier"));
  PEN_ASSIGN(const auto modifier, reader.unsigned_integer());
  if (!typed) PEN_TRY(take_type_of_modifier(modifier, field));
  PEN_TRY(check_modifier(field.encoding, modifier, field.form.element_bytes(field.spec.type)));
  PEN_TRY(expect_item("bytes"));
  PEN_ASSIGN(field.payload, read_payload(reader, context));
  PEN_ASSIGN(const bool another, reader.more(items));
  if (another) return make_error(Errc::malformed, "compressed bytes (tag {}) with more than 3 items", tag_compressed);
  return {};
}

Result<std::vector<std::uint64_t>> read_shape(CborReader& reader, const MessageLimits& limits) {
  PEN_ASSIGN(auto dimensions, reader.enter_array());
  std::vector<std::uint64_t> shape;
  for (;;) {
    PEN_ASSIGN(const bool another, reader.more(dimensions));
    if (!another) break;
    if (shape.size() == limits.dimensions_max)
      return make_error(Errc::too_large, "shape with more than {} dimensions", limits.dimensions_max);
    PEN_ASSIGN(const auto extent, reader.unsigned_integer());
    shape.push_back(extent);
  }
  if (shape.empty()) return make_error(Errc::malformed, "shape with no dimension");
  return shape;
}

/// Reads a typed array; its shape is left as it is.
Result<void> read_typed(CborReader& reader, std::uint64_t tag, const ArrayContext& context, ArrayField& field) {
  PEN_TRY(read_type_of_tag(tag, field));
  if (reader.peek() == CborKind::tag) {
    PEN_ASSIGN(const auto inner, reader.tag());
    if (inner != tag_compressed)
      return make_error(Errc::unsupported, "tag {} within a typed array is not supported, expected {} (compressed)",
                        inner, tag_compressed);
    PEN_TRY(read_compressed(reader, context, true, field));
  } else {
    PEN_ASSIGN(field.payload, read_payload(reader, context));
  }
  if (field.payload.size() > context.limits.frame_bytes_max)
    return make_error(Errc::too_large, "{} bytes exceed the limit of {}", field.payload.size(),
                      context.limits.frame_bytes_max);
  return {};
}

/// Elements in a typed array that has no shape: what it holds, or what a compressed one claims to
/// expand to (all three framings begin with that size).
Result<std::uint64_t> elements_of(const ArrayField& field) {
  auto size = std::uint64_t{field.payload.size()};
  if (field.encoding != Encoding::none) {
    if (size < 12) return make_error(Errc::truncated, "compressed bytes of {} bytes lack their header", size);
    size = load_be<std::uint64_t>(field.payload.data());
  }
  const auto element_bytes = field.form.element_bytes(field.spec.type);
  if (size % element_bytes != 0)
    return make_error(Errc::malformed, "{} bytes is not a multiple of the element size ({} bytes)", size,
                      element_bytes);
  return size / element_bytes;
}

Result<void> check_size(const ArrayField& field, const MessageLimits& limits) {
  PEN_ASSIGN(const auto bytes, field.spec.bytes(limits.frame_bytes_max));
  const auto expected = field.form.sent_bytes(bytes);
  if (field.encoding == Encoding::none && field.payload.size() != expected)
    return make_error(Errc::mismatch, "shape [{}] of {} needs {} bytes, but {} were sent",
                      fmt::join(field.spec.shape, ", "), name(field.spec.type), expected, field.payload.size());
  if (field.payload.empty()) return make_error(Errc::malformed, "no bytes");
  return {};
}

Result<void> read_shaped(CborReader& reader, std::uint64_t order, const ArrayContext& context, ArrayField& field) {
  PEN_ASSIGN(auto items, reader.enter_array());
  PEN_ASSIGN(const bool shape_follows, reader.more(items));
  if (!shape_follows) return make_error(Errc::malformed, "array (tag {}) without shape", order);
  PEN_ASSIGN(field.spec.shape, read_shape(reader, context.limits), "shape");
  PEN_ASSIGN(const bool data_follows, reader.more(items));
  if (!data_follows) return make_error(Errc::malformed, "array (tag {}) without elements", order);
  PEN_ASSIGN(const auto tag, reader.tag());
  PEN_TRY(read_typed(reader, tag, context, field));
  PEN_ASSIGN(const bool another, reader.more(items));
  if (another) return make_error(Errc::malformed, "array (tag {}) with more than shape and elements", order);
  return {};
}

}  // namespace

std::uint64_t typed_array_tag(ElementType type, const WireForm& form) {
  constexpr std::uint64_t little_endian = 4;
  const auto tag = [&](std::uint64_t tag_big_endian) { return tag_big_endian + (form.big_endian ? 0 : little_endian); };
  switch (type) {
    case ElementType::u8: return 64;
    case ElementType::u16: return tag(65);
    case ElementType::u32: return tag(66);
    case ElementType::u64: return tag(67);
    case ElementType::i8: return 72;
    case ElementType::i16: return tag(73);
    case ElementType::i32: return tag(74);
    case ElementType::i64: return tag(75);
    case ElementType::f32: return tag(form.half ? 80 : 81);
    case ElementType::f64: return tag(82);
  }
  return 64;
}

bool is_array_tag(std::uint64_t tag) {
  return tag == tag_row_major || tag == tag_column_major || tag == tag_compressed ||
         (tag >= typed_array_first && tag <= typed_array_last);
}

Result<ArrayField> read_array(CborReader& reader, const ArrayContext& context) {
  ArrayField field;
  PEN_ASSIGN(const auto tag, reader.tag());
  if (tag == tag_row_major || tag == tag_column_major) {
    PEN_TRY(read_shaped(reader, tag, context, field));
    field.form.column_major = tag == tag_column_major && field.spec.shape.size() > 1;
  } else if (tag >= typed_array_first && tag <= typed_array_last) {
    PEN_TRY(read_typed(reader, tag, context, field));
    PEN_ASSIGN(const auto elements, elements_of(field));
    field.spec.shape = {elements};
  } else if (tag == tag_compressed) {
    PEN_TRY(read_compressed(reader, context, false, field));
    PEN_ASSIGN(const auto elements, elements_of(field));
    field.spec.shape = {elements};
  } else {
    return make_error(Errc::malformed, "tag {} instead of an array (tag {})", tag, tag_row_major);
  }
  PEN_TRY(check_size(field, context.limits));
  return field;
}

}  // namespace penstock::stream
