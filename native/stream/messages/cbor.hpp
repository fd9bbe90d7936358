/// CBOR (RFC 8949) read item by item from memory, and written.
///
/// The reader trusts nothing: each length is checked against the bytes that are there before it is
/// used, containers nest at most as deep as configured, and after an error it must not be used
/// further. It never allocates but for text in pieces. Views point into the input.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace penstock::stream {

enum class CborKind : std::uint8_t {
  unsigned_integer,
  negative_integer,
  bytes,
  text,
  array,
  map,
  tag,
  boolean,
  null,  ///< also `undefined`
  floating,
  simple,
  stop,  ///< the break that ends an indefinite-length item
  end,   ///< of the input
};
std::string_view name(CborKind kind);

/// An array or map that is being read; for CborReader::more().
struct CborContainer {
  /// Items (entries of a map) still to come; not known for an indefinite length.
  std::optional<std::uint64_t> left;
};

class CborReader {
 public:
  CborReader(Bytes input, int nesting_max) : input_(input), nesting_left_(nesting_max) {}

  /// What comes next, without taking it.
  CborKind peek() const;
  std::size_t offset() const { return offset_; }
  /// The bytes that were taken since offset() was `from`.
  Bytes taken_since(std::size_t from) const { return input_.subspan(from, offset_ - from); }
  bool at_end() const { return offset_ == input_.size(); }

  // Each takes one item, or is an error that names what is there instead.
  Result<std::uint64_t> unsigned_integer();
  /// An integer of either sign that fits 64 bits signed.
  Result<std::int64_t> integer();
  /// A float of any width, or an integer.
  Result<double> number();
  Result<bool> boolean();
  Result<void> null();
  Result<std::uint64_t> tag();
  /// Refuses byte strings in pieces (`unsupported`).
  Result<Bytes> bytes();
  /// Checked UTF-8. Text in pieces is put together in `scratch`, to which the view then points.
  Result<std::string_view> text(std::string& scratch);

  Result<CborContainer> enter_array();
  Result<CborContainer> enter_map();
  /// Whether another item (the key of another entry) follows; leaves the container if not.
  Result<bool> more(CborContainer& container);

  /// Takes what a copy of this reader has taken.
  void catch_up(const CborReader& copy) {
    offset_ = copy.offset_;
    nesting_left_ = copy.nesting_left_;
  }

  /// Takes one item with all that is in it.
  Result<void> skip();

 private:
  struct Head {
    std::uint8_t major = 0;
    std::uint8_t detail = 0;
    std::uint64_t argument = 0;
    bool indefinite() const { return detail == 31; }
  };
  Result<Head> take_head();
  Result<Head> expect(std::uint8_t major, std::string_view wanted);
  Error wrong_kind(std::string_view wanted) const;
  Result<Bytes> take(std::uint64_t size, std::string_view what);
  Result<CborContainer> enter(std::uint8_t major, std::string_view wanted);
  Result<void> skip_string();

  const Bytes input_;
  std::size_t offset_ = 0;
  int nesting_left_;
};

/// Appends to a byte vector that outlives it. Nothing checks that containers get what they announce.
class CborWriter {
 public:
  explicit CborWriter(std::vector<std::byte>& into) : into_(into) {}

  void unsigned_integer(std::uint64_t value) { head(0, value); }
  void integer(std::int64_t value);
  void floating(double value);
  void boolean(bool value);
  void null();
  void text(std::string_view value);
  void bytes(Bytes value);
  /// The head of a byte string of which the caller provides the bytes.
  void bytes_head(std::uint64_t size) { head(2, size); }
  void array(std::uint64_t items) { head(4, items); }
  void map(std::uint64_t entries) { head(5, entries); }
  void tag(std::uint64_t number) { head(6, number); }
  /// Bytes that are CBOR already.
  void raw(Bytes item) { into_.insert(into_.end(), item.begin(), item.end()); }

 private:
  void head(std::uint8_t major, std::uint64_t argument);

  std::vector<std::byte>& into_;
};

}  // namespace penstock::stream
