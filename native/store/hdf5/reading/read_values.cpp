#include "store/hdf5/reading/read_values.hpp"

#include <cstring>
#include <functional>

#include "store/hdf5/handles.hpp"

namespace penstock::store::hdf5 {
namespace {

constexpr std::uint64_t attribute_bytes_max = std::uint64_t{1} << 24;

/// Reads a whole attribute or dataset into memory laid out as `memory_type`.
using ReadInto = std::function<herr_t(hid_t memory_type, void* into)>;

std::optional<std::vector<std::uint64_t>> shape_of(hid_t space) {
  if (H5Sget_simple_extent_type(space) == H5S_NULL) return std::nullopt;
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 0 || rank > H5S_MAX_RANK) return std::nullopt;
  std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
  if (rank > 0 && H5Sget_simple_extent_dims(space, dims.data(), nullptr) != rank) return std::nullopt;
  return std::vector<std::uint64_t>(dims.begin(), dims.end());
}

/// Product of the shape and `element_bytes`, or nothing above `bytes_max`.
std::optional<std::uint64_t> bytes_of(const std::vector<std::uint64_t>& shape, std::uint64_t element_bytes,
                                      std::uint64_t bytes_max) {
  std::uint64_t bytes = element_bytes;
  for (const auto extent : shape) {
    if (extent == 0) return 0;
    if (bytes > bytes_max / extent) return std::nullopt;
    bytes *= extent;
  }
  return bytes <= bytes_max ? std::optional(bytes) : std::nullopt;
}

Result<std::vector<std::string>> read_variable_text(hid_t type, hid_t space, std::uint64_t count,
                                                    const ReadInto& read) {
  Handle memory(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(memory.get(), H5T_VARIABLE);
  H5Tset_cset(memory.get(), H5Tget_cset(type));
  std::vector<char*> pointers(count, nullptr);
  if (read(memory.get(), pointers.data()) < 0) return library_error("read the text");
  std::vector<std::string> texts;
  texts.reserve(pointers.size());
  for (const char* text : pointers) texts.emplace_back(text == nullptr ? "" : text);
  H5Dvlen_reclaim(memory.get(), space, H5P_DEFAULT, pointers.data());
  return texts;
}

Result<std::vector<std::string>> read_fixed_text(hid_t type, std::uint64_t count, const ReadInto& read) {
  const auto size = H5Tget_size(type);
  std::vector<char> characters(count * size);
  if (read(type, characters.data()) < 0) return library_error("read the text");
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; i < count; ++i) {
    const char* text = characters.data() + i * size;
    texts.emplace_back(text, strnlen(text, size));
  }
  return texts;
}

Result<Value> read_any(hid_t type, hid_t space, std::uint64_t bytes_max, const ReadInto& read) {
  const auto shape = shape_of(space);
  if (!shape) return make_error(Errc::unsupported, "a null dataspace");
  const std::uint64_t element_bytes = H5Tget_size(type);
  const auto bytes = bytes_of(*shape, element_bytes, bytes_max);
  if (!bytes || element_bytes == 0) return make_error(Errc::too_large, "a value above {} bytes", bytes_max);
  if (H5Tget_class(type) == H5T_STRING) {
    const auto count = *bytes / element_bytes;
    auto texts = H5Tis_variable_str(type) > 0 ? read_variable_text(type, space, count, read)
                                              : read_fixed_text(type, count, read);
    if (!texts.ok()) return std::move(texts).error();
    if (shape->empty() && !texts->empty()) return Value(std::move(texts->front()));
    return Value(std::move(*texts));
  }
  const auto element = element_type_of_hdf5(type);
  if (!element) return make_error(Errc::unsupported, "neither text nor little-endian numbers");
  ArrayValue array{{*element, *shape}, std::vector<std::byte>(*bytes)};
  if (*bytes > 0 && read(type, array.data.data()) < 0) return library_error("read the numbers");
  return Value(std::move(array));
}

std::optional<Attribute> read_attribute(hid_t object, unsigned index) {
  Handle attribute(H5Aopen_by_idx(object, ".", H5_INDEX_NAME, H5_ITER_INC, index, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (!attribute) return std::nullopt;
  const auto length = H5Aget_name(attribute.get(), 0, nullptr);
  if (length <= 0 || length > 4096) return std::nullopt;
  std::string name(static_cast<std::size_t>(length), '\0');
  H5Aget_name(attribute.get(), name.size() + 1, name.data());
  Handle type(H5Aget_type(attribute.get()), H5Tclose);
  Handle space(H5Aget_space(attribute.get()), H5Sclose);
  if (!type || !space) return std::nullopt;
  auto value = read_any(type.get(), space.get(), attribute_bytes_max,
                        [&](hid_t memory_type, void* into) { return H5Aread(attribute.get(), memory_type, into); });
  if (!value.ok()) return std::nullopt;
  return Attribute{std::move(name), std::move(*value)};
}

}  // namespace

std::optional<ElementType> element_type_of_hdf5(hid_t type) {
  const auto size = H5Tget_size(type);
  if (size > 1 && H5Tget_order(type) != H5T_ORDER_LE) return std::nullopt;
  if (H5Tget_class(type) == H5T_FLOAT) {
    if (size == 4) return ElementType::f32;
    if (size == 8) return ElementType::f64;
    return std::nullopt;
  }
  if (H5Tget_class(type) != H5T_INTEGER) return std::nullopt;
  const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
  switch (size) {
    case 1: return is_signed ? ElementType::i8 : ElementType::u8;
    case 2: return is_signed ? ElementType::i16 : ElementType::u16;
    case 4: return is_signed ? ElementType::i32 : ElementType::u32;
    case 8: return is_signed ? ElementType::i64 : ElementType::u64;
    default: return std::nullopt;
  }
}

std::vector<Attribute> read_attributes(hid_t object) {
  std::vector<Attribute> attributes;
  H5O_info_t info;
  if (H5Oget_info2(object, &info, H5O_INFO_NUM_ATTRS) < 0) return attributes;
  for (hsize_t i = 0; i < info.num_attrs && i < 65536; ++i)
    if (auto attribute = read_attribute(object, static_cast<unsigned>(i))) attributes.push_back(std::move(*attribute));
  return attributes;
}

Result<Value> read_value(hid_t dataset, std::uint64_t bytes_max) {
  Handle type(H5Dget_type(dataset), H5Tclose);
  Handle space(H5Dget_space(dataset), H5Sclose);
  if (!type || !space) return library_error("get type and shape");
  return read_any(type.get(), space.get(), bytes_max, [dataset](hid_t memory_type, void* into) {
    return H5Dread(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, into);
  });
}

Result<Value> read_rows(hid_t dataset, std::uint64_t rows, std::uint64_t bytes_max) {
  Handle type(H5Dget_type(dataset), H5Tclose);
  Handle space(H5Dget_space(dataset), H5Sclose);
  const hsize_t first = 0, count = rows;
  Handle memory(H5Screate_simple(1, &count, nullptr), H5Sclose);
  if (!type || !space || !memory) return library_error("get type and shape");
  if (rows > 0 && H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, &first, nullptr, &count, nullptr) < 0)
    return library_error("choose the rows");
  return read_any(type.get(), memory.get(), bytes_max, [&](hid_t memory_type, void* into) {
    return rows == 0 ? 0 : H5Dread(dataset, memory_type, memory.get(), space.get(), H5P_DEFAULT, into);
  });
}

}  // namespace penstock::store::hdf5
