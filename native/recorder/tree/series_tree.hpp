/// What is in the file of a series: the tree at its start, and the values that are known at its end.
///
/// use() is called before the store is made, by one thread; afterwards the columns are constant. All other calls are
/// safe from several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "recorder/series/chunks/chunk_coding.hpp"
#include "recorder/series/series_account.hpp"
#include "recorder/series/series_spec.hpp"
#include "recorder/tree/element_starts.hpp"
#include "recorder/tree/layout/user_layout.hpp"
#include "store/frame_axes.hpp"
#include "store/store.hpp"

namespace penstock::recorder {

class SeriesTree {
 public:
  /// Counts of values that are not stored as they came, by column.
  using Unfitting = std::vector<std::uint64_t>;

  /// All of them outlive it.
  SeriesTree(const SeriesSpec& spec, const ChunkCoding& coding, const ElementStarts& elements, unsigned ranks)
      : spec_(spec), coding_(coding), elements_(elements), ranks_(ranks) {}

  /// Columns for what the first frame brings along, and those that the layout declares.
  void use(const std::vector<MetaColumn>& columns);
  const std::vector<MetaColumn>& columns() const { return columns_; }
  /// Where the values of this name are, or would be.
  std::string column_path(const std::string& name) const;

  /// Adds the values that the layout asks for to a frame, and keeps those of the first and the last one.
  void complete(Frame& frame);
  /// Times of exposure count from this date, which need not be when the detector was armed. The first frame's counts.
  void note_series_date(const std::string& date);
  EdgeValues edges() const;
  /// Of another rank.
  void merge_edges(const EdgeValues& edges);

  /// What the store is made with, once it is settled what the file is made for.
  store::FileLayout layout(store::Placement placement) const;

  struct End {
    std::uint64_t frames = 0;
    std::uint64_t filled = 0;  ///< locations that read as the fill value
    std::string_view ended_by;
    bool resumed = false;  ///< the file has had the first frame's values
    /// Called while the store finishes, on the closing thread.
    std::function<Unfitting()> unfitting;
  };
  /// This outlives the values.
  store::FinalValues values_at_end(const SeriesAccount& account, End end) const;

 private:
  Series assembled_series() const;
  store::FileLayout tree(store::Placement placement) const;
  std::vector<std::pair<std::string, store::Attribute>> column_attributes(const Unfitting& counts) const;
  std::optional<store::FrameAxis> plot_axis() const;
  std::optional<store::ValueNode> series_date() const;
  void add_elements(const Ledger& ledger, std::uint64_t frames, store::FinalValues& values) const;

  const SeriesSpec& spec_;
  const ChunkCoding& coding_;
  const ElementStarts& elements_;
  const unsigned ranks_;
  std::vector<MetaColumn> columns_;
  mutable std::mutex mutex_;
  // guarded by mutex_
  EdgeValues edges_;  ///< of the frames that came here, and at the end elsewhere
  std::string series_date_;
};

}  // namespace penstock::recorder
