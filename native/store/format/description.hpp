/// The description segment's JSON text: the tree of the file, and which datasets the records of the other segments
/// speak of.
///
/// Enough to rebuild all of a file whose HDF5 metadata is lost, as it was made. Knows no HDF5 and performs no I/O.
/// `parse_description` takes hostile text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "store/layout.hpp"

namespace penstock::store::format {

struct Description {
  std::vector<ChunkedNode> datasets;  ///< a record's `dataset` is a position here
  std::vector<ColumnNode> columns;
  std::optional<Members> members;  ///< names and numbers alone
  std::optional<MemberMark> member;

  std::optional<FrameSubsets> subsets;

  /// Whether it has all of the tree; without it the attributes of datasets and columns are not known either.
  bool has_tree = false;
  std::vector<GroupNode> groups;
  std::vector<ValueNode> values;  ///< of one with a place only type and shape, and of text nothing
  std::vector<LinkNode> links;
  /// The file gets a seal when it is closed.
  bool sealed = false;
};

/// Values of at least this size are stored outside the description.
constexpr std::size_t large_value_bytes = 16 << 10;
/// The bytes of a text or an array that is large; otherwise none.
Bytes large_bytes(const Value& value);

std::string describe(const FileLayout& layout);
Result<Description> parse_description(std::string_view text);

}  // namespace penstock::store::format
