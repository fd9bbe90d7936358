#include "stream/array_field.hpp"

#include <fmt/ranges.h>

namespace penstock::stream {
namespace {

constexpr std::uint64_t typed_array_first = 64;
constexpr std::uint64_t typed_array_last = 87;

Result<ElementType> element_type_of_tag(std::uint64_t tag) {
  switch (tag) {
    case 64:
    case 68: return ElementType::u8;
    case 69: return ElementType::u16;
    case 70: return ElementType::u32;
    case 71: return ElementType::u64;
    case 72: return ElementType::i8;
    case 77: return ElementType::i16;
    case 78: return ElementType::i32;
    case 79: return ElementType::i64;
    case 85: return ElementType::f32;
    case 86: return ElementType::f64;
    case 65:
    case 66:
    case 67:
    case 73:
    case 74:
    case 75:
    case 80:
    case 81:
    case 82:
    case 83:
      return make_error(Errc::unsupported, "typed array of tag {}: big-endian elements; send little-endian", tag);
    case 84:
    case 87:
      return make_error(Errc::unsupported, "typed array of tag {}: floats of {} bits", tag, tag == 84 ? 16 : 128);
    default: return make_error(Errc::malformed, "tag {} where a typed array (tags 64 to 86) is expected", tag);
  }
}

Result<Encoding> encoding_of_algorithm(std::string_view algorithm) {
  if (algorithm == "bslz4") return Encoding::bitshuffle_lz4;
  if (algorithm == "bszstd") return Encoding::bitshuffle_zstd;
  if (algorithm == "lz4") return Encoding::lz4;
  return make_error(Errc::unsupported, "compression algorithm \"{}\"; bslz4, bszstd and lz4 are understood",
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

Result<void> check_modifier(Encoding encoding, std::uint64_t modifier, std::size_t element_bytes) {
  if (modifier == element_bytes || (encoding == Encoding::lz4 && modifier == 0)) return {};
  return make_error(Errc::mismatch, "compression \"{}\" with modifier {}, but the elements have {} bytes",
                    name(encoding), modifier, element_bytes);
}

/// [algorithm, modifier, bytes]
Result<void> read_compressed(CborReader& reader, const ArrayContext& context, ArrayField& field) {
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
  PEN_TRY(check_modifier(field.encoding, modifier, size_of(field.spec.type)));
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
  PEN_ASSIGN(field.spec.type, element_type_of_tag(tag));
  if (reader.peek() == CborKind::tag) {
    PEN_ASSIGN(const auto inner, reader.tag());
    if (inner != tag_compressed)
      return make_error(Errc::unsupported, "tag {} within a typed array; only {} (compressed) is understood", inner,
                        tag_compressed);
    PEN_TRY(read_compressed(reader, context, field));
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
  if (size % size_of(field.spec.type) != 0)
    return make_error(Errc::malformed, "{} bytes are no whole number of {} elements", size, name(field.spec.type));
  return size / size_of(field.spec.type);
}

Result<void> check_size(const ArrayField& field, const MessageLimits& limits) {
  PEN_ASSIGN(const auto expected, field.spec.bytes(limits.frame_bytes_max));
  if (field.encoding == Encoding::none && field.payload.size() != expected)
    return make_error(Errc::mismatch, "shape [{}] of {} needs {} bytes, but {} were sent",
                      fmt::join(field.spec.shape, ", "), name(field.spec.type), expected, field.payload.size());
  if (field.payload.empty()) return make_error(Errc::malformed, "no bytes");
  return {};
}

Result<void> read_row_major(CborReader& reader, const ArrayContext& context, ArrayField& field) {
  PEN_ASSIGN(auto items, reader.enter_array());
  PEN_ASSIGN(const bool shape_follows, reader.more(items));
  if (!shape_follows) return make_error(Errc::malformed, "array (tag {}) without shape", tag_row_major);
  PEN_ASSIGN(field.spec.shape, read_shape(reader, context.limits), "shape");
  PEN_ASSIGN(const bool data_follows, reader.more(items));
  if (!data_follows) return make_error(Errc::malformed, "array (tag {}) without elements", tag_row_major);
  PEN_ASSIGN(const auto tag, reader.tag());
  PEN_TRY(read_typed(reader, tag, context, field));
  PEN_ASSIGN(const bool another, reader.more(items));
  if (another) return make_error(Errc::malformed, "array (tag {}) with more than shape and elements", tag_row_major);
  return {};
}

}  // namespace

std::uint64_t typed_array_tag(ElementType type) {
  switch (type) {
    case ElementType::u8: return 64;
    case ElementType::u16: return 69;
    case ElementType::u32: return 70;
    case ElementType::u64: return 71;
    case ElementType::i8: return 72;
    case ElementType::i16: return 77;
    case ElementType::i32: return 78;
    case ElementType::i64: return 79;
    case ElementType::f32: return 85;
    case ElementType::f64: return 86;
  }
  return 64;
}

Result<ArrayField> read_array(CborReader& reader, const ArrayContext& context) {
  ArrayField field;
  PEN_ASSIGN(const auto tag, reader.tag());
  if (tag == tag_column_major)
    return make_error(Errc::unsupported, "array of tag {}: column-major order; send row-major (tag {})", tag,
                      tag_row_major);
  if (tag == tag_row_major) {
    PEN_TRY(read_row_major(reader, context, field));
  } else if (tag >= typed_array_first && tag <= typed_array_last) {
    PEN_TRY(read_typed(reader, tag, context, field));
    PEN_ASSIGN(const auto elements, elements_of(field));
    field.spec.shape = {elements};
  } else {
    return make_error(Errc::malformed, "tag {} where an array (tag {}) is expected", tag, tag_row_major);
  }
  PEN_TRY(check_size(field, context.limits));
  return field;
}

}  // namespace penstock::stream
