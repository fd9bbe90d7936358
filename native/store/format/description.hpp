/// The description segment's JSON text: which datasets the records of the other segments speak of.
///
/// Enough to rebuild the chunked datasets and columns of a file whose HDF5 metadata is lost. Knows
/// no HDF5 and performs no I/O. `parse_description` takes hostile text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "store/layout.hpp"

namespace penstock::store::format {

struct Description {
  std::vector<ChunkedNode> datasets;  ///< without their attributes; a record's `dataset` is a position here
  std::vector<ColumnNode> columns;    ///< without their attributes
  std::optional<Members> members;     ///< names and numbers alone
  std::optional<MemberMark> member;
};

std::string describe(const FileLayout& layout);
Result<Description> parse_description(std::string_view text);

}  // namespace penstock::store::format
