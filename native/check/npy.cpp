#include "check/npy.hpp"

#include <algorithm>
#include <charconv>

namespace penstock::check {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::uint64_t header_bytes_max = 1 << 20;

/// What follows `'key':` in the dictionary that the header is.
Result<std::string_view> field(std::string_view header, std::string_view key) {
  const auto quoted = fmt::format("'{}'", key);
  auto at = header.find(quoted);
  if (at == std::string_view::npos) return make_error(Errc::malformed, "the .npy header has no '{}'", key);
  at = header.find_first_not_of(" :", at + quoted.size());
  if (at == std::string_view::npos) return make_error(Errc::malformed, "the .npy header ends after '{}'", key);
  return header.substr(at);
}

Result<ElementType> parse_type(std::string_view text) {
  const auto end = text.find('\'', 1);
  if (text.front() != '\'' || end == std::string_view::npos)
    return make_error(Errc::unsupported, "the .npy array's type is not a plain number");
  const auto code = text.substr(1, end - 1);
  struct Known {
    std::string_view code;
    ElementType type;
  };
  static constexpr Known known[] = {{"|u1", ElementType::u8},  {"<u1", ElementType::u8},  {"|i1", ElementType::i8},
                                    {"<i1", ElementType::i8},  {"<u2", ElementType::u16}, {"<i2", ElementType::i16},
                                    {"<u4", ElementType::u32}, {"<i4", ElementType::i32}, {"<u8", ElementType::u64},
                                    {"<i8", ElementType::i64}, {"<f4", ElementType::f32}, {"<f8", ElementType::f64}};
  for (const auto& item : known)
    if (item.code == code) return item.type;
  return make_error(Errc::unsupported, "the .npy array's type is {}; little-endian integers and floats are read", code);
}

Result<std::vector<std::uint64_t>> parse_shape(std::string_view text) {
  const auto end = text.find(')');
  if (text.front() != '(' || end == std::string_view::npos)
    return make_error(Errc::malformed, "the .npy array's shape is not a tuple");
  std::vector<std::uint64_t> shape;
  const char* at = text.data() + 1;
  const char* last = text.data() + end;
  while (at < last) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    std::uint64_t extent = 0;
    const auto parsed = std::from_chars(at, last, extent);
    if (parsed.ec != std::errc()) return make_error(Errc::malformed, "the .npy array's shape is no list of numbers");
    shape.push_back(extent);
    at = parsed.ptr;
  }
  return shape;
}

}  // namespace

Result<NpyArray> open_npy(Env& env, const std::string& path) {
  NpyArray array;
  PEN_ASSIGN(array.file, env.open(path, {}));
  std::array<std::byte, 12> start{};
  PEN_ASSIGN(const auto count, array.file->read_at(start, 0));
  if (count < start.size() || as_text(Bytes(start).first(magic.size())) != magic)
    return make_error(Errc::malformed, "{} is not a .npy file", path);
  const auto version = std::to_integer<unsigned>(start[6]);
  if (version < 1 || version > 3) return make_error(Errc::unsupported, "{}: .npy version {}", path, version);
  const std::uint64_t prefix = version == 1 ? 10 : 12;
  const std::uint64_t length =
      version == 1 ? load_le<std::uint16_t>(start.data() + 8) : load_le<std::uint32_t>(start.data() + 8);
  if (length > header_bytes_max) return make_error(Errc::malformed, "{}: a header of {} bytes", path, length);
  std::string header(length, '\0');
  PEN_ASSIGN(const auto got, array.file->read_at(std::as_writable_bytes(std::span(header)), prefix));
  if (got != length) return make_error(Errc::truncated, "{} ends within its header", path);
  PEN_ASSIGN(const auto descr, field(header, "descr"), "{}", path);
  PEN_ASSIGN(array.spec.type, parse_type(descr), "{}", path);
  PEN_ASSIGN(const auto order, field(header, "fortran_order"), "{}", path);
  if (!order.starts_with("False"))
    return make_error(Errc::unsupported, "{} is in Fortran order; C order is read", path);
  PEN_ASSIGN(const auto shape, field(header, "shape"), "{}", path);
  PEN_ASSIGN(array.spec.shape, parse_shape(shape), "{}", path);
  array.data_at = prefix + length;
  PEN_ASSIGN(const auto bytes, array.spec.bytes(std::uint64_t{1} << 60), "{}", path);
  PEN_ASSIGN(const auto size, array.file->size());
  if (size < array.data_at + bytes)
    return make_error(Errc::truncated, "{} has {} bytes of the {} that its header announces", path, size,
                      array.data_at + bytes);
  return array;
}

}  // namespace penstock::check
