/// The tree of a file as data: what the indexer creates before the first frame. Knows no HDF5.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "codec/codec.hpp"
#include "frame/array.hpp"
#include "store/chunk_grid.hpp"
#include "store/places.hpp"

namespace penstock::store {

/// A scalar or array (row-major; an empty shape is a scalar).
struct ArrayValue {
  ArraySpec spec;
  std::vector<std::byte> data;
};

/// Written as the enumeration of FALSE and TRUE that the field's readers take for a truth value.
struct Boolean {
  bool value = false;
};

/// Strings are written as variable-length ASCII, which all readers in the field understand.
using Value = std::variant<std::string, std::vector<std::string>, ArrayValue, Boolean>;

template <typename T>
Value scalar(ElementType type, T number) {
  ArrayValue value{{type, {}}, std::vector<std::byte>(sizeof number)};
  std::memcpy(value.data.data(), &number, sizeof number);
  return value;
}
inline Value scalar(double number) { return scalar(ElementType::f64, number); }
inline Value scalar(std::int64_t number) { return scalar(ElementType::i64, number); }
inline Value scalar(std::uint64_t number) { return scalar(ElementType::u64, number); }
Value vector_of(const std::vector<double>& numbers);

struct Attribute {
  std::string name;
  Value value;
};

/// Paths are absolute ("/entry/data"); parents that no node names are created as plain groups.
struct GroupNode {
  std::string path;
  std::vector<Attribute> attributes;
};

/// Where the bytes of a large value lie in a segment of values.
struct ValuePlace {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;  ///< CRC-32C
};

/// A dataset that is complete when the file is created.
struct ValueNode {
  std::string path;
  Value value;
  std::vector<Attribute> attributes;
  /// The store's to set. An array that has a place needs no data: HDF5's dataset lies on these bytes.
  std::optional<ValuePlace> place = {};
};

/// A second name for an object.
struct LinkNode {
  std::string path;
  std::string target;
};

/// A record has a bit for each frame of its chunk.
constexpr std::uint64_t frames_a_chunk_max = 32;

/// A virtual dataset of the same file that shows another's frames in equal bands of rows and columns, with gaps between
/// them that read as the fill value. It is as long as the other.
struct Assembled {
  std::string path;
  std::vector<std::uint64_t> row_gaps = {};  ///< pixels; one fewer than there are bands of rows
  std::vector<std::uint64_t> column_gaps = {};

  /// Of a frame whose last two dimensions are those of `shape`.
  std::vector<std::uint64_t> frame_shape(std::vector<std::uint64_t> shape) const;
};

/// A dataset whose chunks come through the store's segments. Its first dimension grows.
struct ChunkedNode {
  std::string path;
  ElementType type = ElementType::u16;
  std::vector<std::uint64_t> frame_shape;  ///< the other dimensions
  std::uint64_t frames_max = 0;            ///< announced number of frames; 0 is unlimited
  std::vector<FilterSpec> filters;
  std::vector<std::byte> fill;  ///< one element; empty is 0
  std::vector<Attribute> attributes;
  /// With slots: the most that a stored chunk may have; 0: as much as without a filter.
  std::uint64_t chunk_bytes_max = 0;
  /// Its placement is the caller's to set, and the same for all datasets of a file; the rest is the store's.
  Places places = {};
  std::vector<std::uint64_t> chunk_shape = {};  ///< in all dimensions; empty is one whole frame
  /// Positions along each axis of a scan, which are the dimensions in front of the frame's; the first may still
  /// grow. Empty: one frame behind the other.
  std::vector<std::uint64_t> scan_shape = {};
  std::optional<Assembled> assembled = {};  ///< of frames in which the parts of a detector touch

  /// Of a chunk, unfiltered; check_layout has seen that it is below 4 GiB.
  std::uint64_t raw_bytes() const {
    std::uint64_t bytes = size_of(type);
    for (const auto extent : chunk_shape.empty() ? frame_shape : chunk_shape) bytes *= extent;
    return bytes;
  }
  /// The dimensions behind the first.
  std::vector<std::uint64_t> fixed_dimensions() const;
  /// An error where the chunk's shape cannot be.
  Result<ChunkGrid> grid() const;
  /// Where there is a grid: chunks that a frame lies in …
  std::uint64_t chunks_a_frame() const;
  /// … and frames that a chunk has a part of, or all of.
  std::uint64_t frames_a_chunk() const { return chunk_shape.empty() || !scan_shape.empty() ? 1 : chunk_shape.front(); }
  /// Each frame one chunk, one behind the other.
  bool is_chunk_a_frame() const { return scan_shape.empty() && chunks_a_frame() == 1 && frames_a_chunk() == 1; }
};

/// One value a frame; written in batches of rows.
struct ColumnNode {
  std::string path;
  ElementType type = ElementType::u64;
  std::vector<std::byte> fill = {};  ///< one element; empty is 0
  std::vector<Attribute> attributes = {};
  /// Above 0 the values are text: number of bytes of UTF-8, padded with zeros; `type` and `fill` say
  /// nothing then. (HDF5 keeps text of variable length where readers of a growing file cannot follow.)
  std::size_t text_bytes = 0;
  std::vector<std::uint64_t> shape = {};  ///< of a row that is an array of numbers; empty: one
  /// The segments of the frames have its values too (ChunkHead::rows).
  bool in_segments = false;

  std::size_t row_bytes() const {
    std::size_t bytes = text_bytes > 0 ? text_bytes : size_of(type);
    for (const auto extent : shape) bytes *= extent;
    return bytes;
  }
};

/// A dataset of FrameSubsets.
struct Subset {
  std::string path;
  std::vector<Attribute> attributes = {};
};

constexpr std::size_t subsets_max = 256;
/// Of a subset that has no frames because they would need too many mappings: where they are.
constexpr const char* left_empty_attribute = "left_empty";

/// Datasets among which a value of each frame chooses. The first chunked dataset has all frames, without a scan. A
/// subset is empty until the file is finished; then it is a virtual dataset of its frames, by rising number.
struct FrameSubsets {
  std::string choice;            ///< path of the text column with the path of each frame's subset
  std::string states;            ///< path of the column of states: those of 1 (received) and 5 (partial) have pixels
  std::string numbers;           ///< path of the i16 column that gets the position in `datasets`; of no frame: -1
  std::vector<Subset> datasets;  ///< the first has the frames whose value is none of the paths
};

/// Where the chunks of a master file lie: in other files of its folder, its members. Rank r of `ranks` writes members
/// r, r + ranks, …; with `frames` above 0 each holds at most this many frames, the first ones in the first member of a
/// rank, and then row 0 is the first of these. Otherwise a rank has one member, and a row is a frame's number.
struct Members {
  std::string stem;  ///< the file of member 7 is stem7suffix
  std::string suffix;
  std::uint64_t frames = 0;
  unsigned ranks = 1;
  bool overwrite = false;  ///< files that have the members' names make way
  // What stands in each member beside its datasets, which have the paths that they have in the master.
  std::vector<GroupNode> groups = {};
  std::vector<ValueNode> values = {};

  std::string file_name(std::uint64_t member) const { return stem + std::to_string(member) + suffix; }
  std::uint64_t member_of(std::uint64_t frame, unsigned rank) const {
    return (frames > 0 ? frame / frames : 0) * ranks + rank;
  }
  std::uint64_t row_of(std::uint64_t frame) const { return frames > 0 ? frame % frames : frame; }
  /// The frame that is row 0 of a member.
  std::uint64_t first_frame(std::uint64_t member) const { return frames > 0 ? member / ranks * frames : 0; }
};

/// What a member says of itself.
struct MemberMark {
  std::string master;  ///< its name alone
  std::uint64_t number = 0;

  bool operator==(const MemberMark&) const = default;
};

/// The root's attributes by which readers know a member.
GroupNode member_attributes(const MemberMark& mark, const Members& members);

struct FileLayout {
  std::vector<GroupNode> groups;
  std::vector<ValueNode> values;
  std::vector<ChunkedNode> chunked;       ///< the position here is the DatasetId
  std::vector<ColumnNode> columns;        ///< the position here is the ColumnId
  std::vector<LinkNode> links;            ///< made last
  std::optional<Members> members;         ///< then the chunked datasets are virtual
  std::optional<MemberMark> member = {};  ///< of a member
  std::optional<FrameSubsets> subsets = {};
};

}  // namespace penstock::store
