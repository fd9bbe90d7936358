#include "frame/npy.hpp"

#include <array>
#include <optional>
#include <utility>

namespace penstock {
namespace {

constexpr std::size_t dimensions_max = 8;
constexpr std::string_view magic = "\x93NUMPY";

constexpr std::array<std::pair<std::string_view, ElementType>, 12> descriptions{{
    {"|u1", ElementType::u8},
    {"|i1", ElementType::i8},
    {"<u1", ElementType::u8},
    {"<i1", ElementType::i8},
    {"<u2", ElementType::u16},
    {"<i2", ElementType::i16},
    {"<u4", ElementType::u32},
    {"<i4", ElementType::i32},
    {"<u8", ElementType::u64},
    {"<i8", ElementType::i64},
    {"<f4", ElementType::f32},
    {"<f8", ElementType::f64},
}};

/// Reads the one Python dictionary that a header is made of.
class HeaderText {
 public:
  explicit HeaderText(std::string_view text) : text_(text) {}

  Result<ArraySpec> parse() {
    PEN_TRY(expect('{'));
    while (!take('}')) {
      PEN_ASSIGN(const auto key, quoted());
      PEN_TRY(expect(':'));
      PEN_TRY(entry(key));
      if (!take(',')) {
        PEN_TRY(expect('}'));
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) return bad("the end");
    if (!type_ || !shape_ || !order_known_)
      return make_error(Errc::malformed, "npy header lacks one of 'descr', 'fortran_order' and 'shape'");
    return ArraySpec{*type_, *shape_};
  }

 private:
  Error bad(std::string_view expected) const {
    return make_error(Errc::malformed, "npy header: expected {} at position {}", expected, at_);
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }

  bool take(char wanted) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  Result<void> expect(char wanted) {
    if (!take(wanted)) return bad(fmt::format("'{}'", wanted));
    return {};
  }

  Result<std::string_view> quoted() {
    const char quote = take('\'') ? '\'' : '"';
    if (quote == '"' && !take('"')) return bad("a quoted word");
    const auto end = text_.find(quote, at_);
    if (end == std::string_view::npos) return bad("a closing quote");
    const auto word = text_.substr(at_, end - at_);
    at_ = end + 1;
    return word;
  }

  Result<void> entry(std::string_view key) {
    if (key == "descr" && !type_) return description();
    if (key == "fortran_order" && !order_known_) return order();
    if (key == "shape" && !shape_) return shape();
    return make_error(Errc::malformed, "npy header: key '{}' is unknown or comes twice", key.substr(0, 40));
  }

  Result<void> description() {
    PEN_ASSIGN(const auto word, quoted());
    for (const auto& [known, type] : descriptions)
      if (word == known) type_ = type;
    if (!type_)
      return make_error(Errc::unsupported, "npy descr is '{}', expected a little-endian integer or float type",
                        word.substr(0, 40));
    return {};
  }

  Result<void> order() {
    skip_space();
    constexpr std::string_view c_order = "False";
    if (text_.substr(at_, c_order.size()) != c_order)
      return make_error(Errc::unsupported, "npy fortran_order is not False; save the array in C order");
    at_ += c_order.size();
    order_known_ = true;
    return {};
  }

  Result<void> shape() {
    PEN_TRY(expect('('));
    std::vector<std::uint64_t> extents;
    while (!take(')')) {
      PEN_ASSIGN(const auto extent, number());
      if (extents.size() == dimensions_max)
        return make_error(Errc::too_large, "npy shape has more than {} dimensions", dimensions_max);
      extents.push_back(extent);
      if (!take(',')) {
        PEN_TRY(expect(')'));
        break;
      }
    }
    shape_ = std::move(extents);
    return {};
  }

  Result<std::uint64_t> number() {
    skip_space();
    const auto first = at_;
    std::uint64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (at_ - first == 18) return bad("a number of at most 18 digits");
      value = value * 10 + static_cast<std::uint64_t>(text_[at_] - '0');
    }
    if (at_ == first) return bad("a number");
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::optional<ElementType> type_;
  std::optional<std::vector<std::uint64_t>> shape_;
  bool order_known_ = false;
};

}  // namespace

Result<NpyHeader> parse_npy_header(Bytes file) {
  constexpr std::size_t short_prefix = 10;
  constexpr std::size_t long_prefix = 12;
  if (file.size() < short_prefix || as_text(file.first(magic.size())) != magic)
    return make_error(Errc::malformed, "not an npy file: it does not start with \\x93NUMPY");
  const auto version = std::to_integer<unsigned>(file[6]);
  if (version < 1 || version > 3) return make_error(Errc::unsupported, "npy format version {} is unknown", version);
  const auto prefix = version == 1 ? short_prefix : long_prefix;
  if (file.size() < prefix) return make_error(Errc::truncated, "npy file ends within its header");
  const std::size_t length =
      version == 1 ? load_le<std::uint16_t>(file.data() + 8) : load_le<std::uint32_t>(file.data() + 8);
  if (length > npy_header_bytes_max)
    return make_error(Errc::too_large, "npy header claims {} bytes, which exceeds the maximum of {}", length,
                      npy_header_bytes_max);
  if (length > file.size() - prefix)
    return make_error(Errc::truncated, "npy header claims {} bytes, the file has {} after it", length,
                      file.size() - prefix);
  NpyHeader header;
  header.data_offset = prefix + length;
  PEN_ASSIGN(header.array, HeaderText(as_text(file.subspan(prefix, length))).parse());
  return header;
}

}  // namespace penstock
