/// Values under names that the first frame did not bring. The file has no columns for them, and cannot get some while
/// readers may have it open: their segments say what they are (store/format/rows.hpp), and the columns are made when
/// the file is closed (docs/explanation/decisions/0059-late-columns.md).
///
/// All calls are safe from several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.hpp"
#include "recorder/series/accounting/rows.hpp"
#include "recorder/tree/metadata.hpp"
#include "store/format/rows.hpp"

namespace penstock::recorder {

class LateColumns {
 public:
  /// Where the column of a name goes: of each name to another path.
  using PathOf = std::function<std::string(const std::string& name)>;
  /// Called once for a name, with what is to be known of it.
  using Remark = std::function<void(const std::string& name, const std::string& what)>;

  /// `known` are the columns that the file has. They outlive this object, which looks for their names.
  LateColumns(const std::vector<MetaColumn>& known, PathOf path_of, Remark remark, bool in_slots);

  /// Appends the values of `row` for which the file has no column.
  void append(const Row& row, store::format::RowAppender& appender);
  bool any() const;

 private:
  struct Column {
    MetaColumn meta;
    store::ColumnNode node;
    bool remarked = false;
  };
  void remark_new(const std::string& name, std::size_t count, std::uint64_t frame) PEN_REQUIRES(mutex_);
  bool is_known(const std::string& name) const;
  Column* find(const std::string& name, const MetaValue& value) PEN_REQUIRES(mutex_);
  Column* make(const std::string& name, const MetaValue& value) PEN_REQUIRES(mutex_);
  void append(Column& column, const MetaValue& value, store::format::RowAppender& appender) PEN_REQUIRES(mutex_);

  const PathOf path_of_;
  const Remark remark_;
  const std::size_t row_bytes_max_;
  std::vector<std::string_view> known_;  ///< names, rising

  mutable Mutex mutex_;
  std::map<std::string, Column> columns_ PEN_GUARDED_BY(mutex_);  ///< by name
  std::size_t remarked_frames_ PEN_GUARDED_BY(mutex_) = 0;
  std::set<std::string> left_out_ PEN_GUARDED_BY(mutex_);
};

}  // namespace penstock::recorder
