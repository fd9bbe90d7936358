#include "store/hdf5/reading/extensible_array.hpp"

#include <algorithm>
#include <bit>

namespace penstock::store::hdf5 {
namespace {

constexpr std::uint64_t undefined = ~std::uint64_t{0};
constexpr std::uint64_t address_bytes = 8;
constexpr std::uint64_t checksum_bytes = 4;
constexpr std::uint64_t block_bytes_max = 8 << 20;
constexpr unsigned header_blocks_max = 64;

/// Bytes that are taken one after the other. Beyond their end come zeros, and `ok` is false from then on.
class Cursor {
 public:
  explicit Cursor(Bytes bytes) : bytes_(bytes) {}

  template <typename T>
  T take() {
    if (left() < sizeof(T)) return fail(), T{0};
    const auto value = load_le<T>(bytes_.data() + at_);
    at_ += sizeof(T);
    return value;
  }
  std::uint64_t take(unsigned bytes) {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < bytes; ++i) value |= std::uint64_t{take<std::uint8_t>()} << (8 * i);
    return value;
  }
  Bytes take_bytes(std::uint64_t count) {
    if (left() < count) return fail(), Bytes();
    const auto bytes = bytes_.subspan(at_, count);
    at_ += count;
    return bytes;
  }
  bool starts(std::string_view signature) { return as_text(take_bytes(signature.size())) == signature; }
  std::uint64_t left() const { return bytes_.size() - at_; }
  bool ok() const { return ok_; }

 private:
  void fail() {
    ok_ = false;
    at_ = bytes_.size();
  }

  Bytes bytes_;
  std::uint64_t at_ = 0;
  bool ok_ = true;
};

/// The array's parameters, as its creator chose them, and where its first block is.
struct Array {
  bool filtered = false;
  unsigned element_bytes = 0;
  unsigned index_bits = 0;           ///< of an element's number, at most
  std::uint64_t index_elements = 0;  ///< in the index block itself
  std::uint64_t data_elements_min = 0;
  std::uint64_t pointers_min = 0;
  unsigned page_bits = 0;
  std::uint64_t end = 0;  ///< one past the highest element that was ever set
  std::uint64_t index_block = undefined;

  unsigned super_blocks() const { return 1 + index_bits - static_cast<unsigned>(std::countr_zero(data_elements_min)); }
  /// Super blocks whose data blocks the index block names itself.
  unsigned direct_super_blocks() const { return 2 * static_cast<unsigned>(std::countr_zero(pointers_min)); }
  unsigned offset_bytes() const { return (index_bits + 7) / 8; }
};

std::uint64_t data_blocks_of(unsigned super_block) { return std::uint64_t{1} << (super_block / 2); }

class ArrayReader {
 public:
  ArrayReader(File& file, std::uint64_t file_bytes, const DatasetInfo& info, std::uint64_t chunks_max)
      : file_(file), file_bytes_(file_bytes), chunks_max_(chunks_max) {
    chunk_bytes_ = info.element_bytes;
    for (const auto extent : info.chunk_shape) chunk_bytes_ *= extent;
  }

  bool read(std::uint64_t object_header) {
    const auto array_header = find_array(object_header);
    if (array_header == undefined) return true;  // nothing was ever written
    return array_header && read_header(*array_header) && read_index_block();
  }
  std::vector<IndexedChunk> take_chunks() { return std::move(chunks_); }

 private:
  std::optional<std::vector<std::byte>> bytes_at(std::uint64_t address, std::uint64_t size) {
    if (too_many_ || size > block_bytes_max || address > file_bytes_ || size > file_bytes_ - address)
      return std::nullopt;
    // Blocks that name the same one again and again are no array.
    if (size > file_bytes_ - taken_) return std::nullopt;
    taken_ += size;
    std::vector<std::byte> bytes(size);
    const auto count = file_.read_at(bytes, address);
    if (!count.ok() || *count != size) return std::nullopt;
    return bytes;
  }

  /// The address in the layout message, which may stand in a continuation of the object header.
  std::optional<std::uint64_t> find_array(std::uint64_t object_header) {
    const auto prefix =
        bytes_at(object_header, std::min<std::uint64_t>(64, file_bytes_ - std::min(file_bytes_, object_header)));
    if (!prefix) return std::nullopt;
    Cursor cursor(*prefix);
    if (!cursor.starts("OHDR") || cursor.take<std::uint8_t>() != 2) return std::nullopt;
    const auto flags = cursor.take<std::uint8_t>();
    if ((flags & 0x20) != 0) cursor.take_bytes(16);
    if ((flags & 0x10) != 0) cursor.take_bytes(4);
    const auto size = cursor.take(1u << (flags & 3));
    const auto first = object_header + (prefix->size() - cursor.left());
    if (!cursor.ok()) return std::nullopt;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> blocks = {{first, size}};
    for (std::size_t i = 0; i < blocks.size() && i < header_blocks_max; ++i) {
      const auto bytes = bytes_at(blocks[i].first, blocks[i].second);
      if (!bytes) return std::nullopt;
      if (const auto found = find_array_in(*bytes, (flags & 4) != 0, blocks)) return found;
    }
    return std::nullopt;
  }

  static std::optional<std::uint64_t> find_array_in(Bytes messages, bool ordered,
                                                    std::vector<std::pair<std::uint64_t, std::uint64_t>>& blocks) {
    constexpr std::uint8_t layout = 0x08, continuation = 0x10;
    Cursor cursor(messages);
    while (cursor.left() >= 4) {
      const auto type = cursor.take<std::uint8_t>();
      const auto size = cursor.take<std::uint16_t>();
      cursor.take<std::uint8_t>();
      if (ordered) cursor.take<std::uint16_t>();
      Cursor message(cursor.take_bytes(size));
      if (!cursor.ok()) return std::nullopt;
      if (type == layout) return array_of(message);
      if (type != continuation) continue;
      const auto address = message.take<std::uint64_t>(), bytes = message.take<std::uint64_t>();
      // "OCHK" stands before the messages, a checksum behind them.
      if (message.ok() && bytes > 4 + checksum_bytes) blocks.emplace_back(address + 4, bytes - 4 - checksum_bytes);
    }
    return std::nullopt;
  }

  static std::optional<std::uint64_t> array_of(Cursor layout) {
    constexpr std::uint8_t chunked = 2, extensible_array = 4;
    if (layout.take<std::uint8_t>() != 4 || layout.take<std::uint8_t>() != chunked) return std::nullopt;
    layout.take<std::uint8_t>();
    const auto rank = layout.take<std::uint8_t>(), width = layout.take<std::uint8_t>();
    layout.take_bytes(std::uint64_t{rank} * width);
    if (layout.take<std::uint8_t>() != extensible_array) return std::nullopt;
    layout.take_bytes(5);  // as in the array's own header
    const auto address = layout.take<std::uint64_t>();
    return layout.ok() ? std::optional(address) : std::nullopt;
  }

  bool read_header(std::uint64_t address) {
    constexpr std::uint64_t header_bytes = 4 + 8 + 6 * 8 + address_bytes;
    const auto bytes = bytes_at(address, header_bytes);
    if (!bytes) return false;
    Cursor cursor(*bytes);
    if (!cursor.starts("EAHD") || cursor.take<std::uint8_t>() != 0) return false;
    const auto client = cursor.take<std::uint8_t>();
    array_.filtered = client == 1;
    array_.element_bytes = cursor.take<std::uint8_t>();
    array_.index_bits = cursor.take<std::uint8_t>();
    array_.index_elements = cursor.take<std::uint8_t>();
    array_.data_elements_min = cursor.take<std::uint8_t>();
    array_.pointers_min = cursor.take<std::uint8_t>();
    array_.page_bits = cursor.take<std::uint8_t>();
    cursor.take_bytes(4 * 8);  // numbers and sizes of blocks
    array_.end = cursor.take<std::uint64_t>();
    cursor.take<std::uint64_t>();  // elements that there is room for
    array_.index_block = cursor.take<std::uint64_t>();
    address_ = address;
    const auto is_power = [](std::uint64_t number) { return std::has_single_bit(number); };
    const bool sane = client <= 1 && array_.index_bits >= 8 && array_.index_bits <= 40 &&
                      is_power(array_.data_elements_min) && is_power(array_.pointers_min) && array_.page_bits > 0 &&
                      array_.page_bits <= 20 && array_.super_blocks() >= array_.direct_super_blocks();
    const auto wanted = address_bytes + (array_.filtered ? 4 : 0);
    const auto size_bytes = array_.element_bytes - wanted;
    return cursor.ok() && sane && array_.element_bytes >= wanted &&
           (array_.filtered ? size_bytes >= 1 && size_bytes <= 8 : size_bytes == 0);
  }

  /// What every block begins with; `offset` where it tells its first element.
  bool begins(Cursor& cursor, std::string_view signature, bool offset) const {
    const bool is_one = cursor.starts(signature) && cursor.take<std::uint8_t>() == 0 &&
                        cursor.take<std::uint8_t>() == (array_.filtered ? 1 : 0) &&
                        cursor.take<std::uint64_t>() == address_;
    if (offset) cursor.take_bytes(array_.offset_bytes());
    return is_one && cursor.ok();
  }

  static constexpr std::uint64_t prefix_bytes = 4 + 2 + address_bytes;

  bool read_index_block() {
    if (array_.index_block == undefined) return true;  // nothing was ever set
    const auto direct = array_.direct_super_blocks();
    const auto data_blocks = 2 * (array_.pointers_min - 1);
    const auto super_blocks = array_.super_blocks() - direct;
    const auto bytes = bytes_at(array_.index_block, prefix_bytes + array_.index_elements * array_.element_bytes +
                                                        (data_blocks + super_blocks) * address_bytes);
    if (!bytes) return false;
    Cursor cursor(*bytes);
    if (!begins(cursor, "EAIB", false)) return false;
    std::uint64_t number = 0;
    take_elements(cursor, array_.index_elements, number);
    for (unsigned block = 0; block < direct; ++block)
      for (std::uint64_t i = 0; i < data_blocks_of(block); ++i)
        if (!read_data_block(cursor.take<std::uint64_t>(), elements_of(block), {}, number)) return false;
    for (auto block = direct; block < array_.super_blocks(); ++block)
      if (!read_super_block(cursor.take<std::uint64_t>(), block, number)) return false;
    return cursor.ok() && !too_many_;
  }

  std::uint64_t elements_of(unsigned super_block) const {
    return (std::uint64_t{1} << ((super_block + 1) / 2)) * array_.data_elements_min;
  }
  std::uint64_t pages_of(std::uint64_t elements) const {
    return elements > std::uint64_t{1} << array_.page_bits ? elements >> array_.page_bits : 0;
  }

  bool read_super_block(std::uint64_t address, unsigned block, std::uint64_t& number) {
    const auto count = data_blocks_of(block), elements = elements_of(block);
    if (address == undefined || number >= array_.end) {
      number += count * elements;
      return true;
    }
    const auto mask_bytes = (pages_of(elements) + 7) / 8;
    const auto bytes = bytes_at(address, prefix_bytes + array_.offset_bytes() + count * (mask_bytes + address_bytes));
    if (!bytes) return false;
    Cursor cursor(*bytes);
    if (!begins(cursor, "EASB", true)) return false;
    const auto written = cursor.take_bytes(count * mask_bytes);
    for (std::uint64_t i = 0; i < count; ++i)
      if (!read_data_block(cursor.take<std::uint64_t>(), elements, {written, i * pages_of(elements)}, number))
        return false;
    return cursor.ok();
  }

  /// A bit for each page that was ever written, the highest first; those of a block begin at `first`, without a gap.
  struct Pages {
    Bytes bits;
    std::uint64_t first = 0;

    bool written(std::uint64_t page) const {
      const auto bit = first + page;
      return (std::to_integer<unsigned>(bits[bit / 8]) >> (7 - bit % 8) & 1) != 0;
    }
  };

  bool read_data_block(std::uint64_t address, std::uint64_t elements, const Pages& pages, std::uint64_t& number) {
    if (address == undefined || number >= array_.end) {
      number += elements;
      return true;
    }
    const auto count = pages.bits.empty() ? 0 : pages_of(elements);
    const auto checksums = count == 0 ? 0 : checksum_bytes * (count + 1);
    const auto bytes =
        bytes_at(address, prefix_bytes + array_.offset_bytes() + elements * array_.element_bytes + checksums);
    if (!bytes) return false;
    Cursor cursor(*bytes);
    if (!begins(cursor, "EADB", true)) return false;
    if (count == 0) {
      take_elements(cursor, elements, number);
      return cursor.ok();
    }
    cursor.take_bytes(checksum_bytes);
    const auto of_page = elements / count;
    for (std::uint64_t page = 0; page < count; ++page) {
      if (pages.written(page)) {
        take_elements(cursor, of_page, number);
      } else {
        cursor.take_bytes(of_page * array_.element_bytes);
        number += of_page;
      }
      cursor.take_bytes(checksum_bytes);
    }
    return cursor.ok();
  }

  void take_elements(Cursor& cursor, std::uint64_t count, std::uint64_t& number) {
    for (std::uint64_t i = 0; i < count; ++i, ++number) {
      IndexedChunk chunk{number, cursor.take<std::uint64_t>(), static_cast<std::uint32_t>(chunk_bytes_), 0};
      if (array_.filtered) {
        chunk.size = static_cast<std::uint32_t>(cursor.take(array_.element_bytes - 12));
        chunk.filter_mask = cursor.take<std::uint32_t>();
      }
      if (!cursor.ok() || chunk.address == undefined) continue;
      too_many_ = too_many_ || chunks_.size() == chunks_max_;
      if (!too_many_) chunks_.push_back(chunk);
    }
  }

  File& file_;
  const std::uint64_t file_bytes_;
  const std::uint64_t chunks_max_;
  bool too_many_ = false;
  std::uint64_t taken_ = 0;  ///< bytes that were read
  std::uint64_t chunk_bytes_ = 0;
  std::uint64_t address_ = 0;
  Array array_;
  std::vector<IndexedChunk> chunks_;
};

}  // namespace

std::optional<std::vector<IndexedChunk>> read_extensible_array(File& file, std::uint64_t file_bytes,
                                                               std::uint64_t header, const DatasetInfo& info,
                                                               std::uint64_t chunks_max) {
  ArrayReader reader(file, file_bytes, info, chunks_max);
  if (!reader.read(header)) return std::nullopt;
  return reader.take_chunks();
}

}  // namespace penstock::store::hdf5
