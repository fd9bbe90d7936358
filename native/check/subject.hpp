/// The datasets of a file as a check works on them.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "check/compare/pipeline.hpp"
#include "check/findings.hpp"
#include "check/structures/index_process.hpp"
#include "check/structures/index_table.hpp"

namespace penstock::check {

/// A dataset whose data lie in the file as chunks. Contiguous data count as chunks of one frame each.
/// Constant once made, but for marks that threads may set at once.
struct Subject {
  const TreeDataset* tree = nullptr;  ///< outlives this
  std::string path;
  std::vector<std::uint64_t> chunk_shape;
  std::vector<std::uint64_t> grid;  ///< possible chunks along each dimension
  std::uint64_t chunk_raw_bytes = 0;
  std::unique_ptr<IndexTable> index;
  std::vector<store::IndexedChunk> made_chunks;  ///< what `index` speaks of, for contiguous data
  std::optional<Pipeline> pipeline;              ///< nothing where chunks cannot be expanded here
  bool has_records = false;                      ///< its chunks lie in segments
  std::size_t frame_dimensions = 2;
  /// Of chunks with several frames, by position in the index: the frames that a record says are in it; bit i is the
  /// ith. 0 where no record was found. Threads set them at once.
  std::unique_ptr<std::atomic<std::uint32_t>[]> frames_there;
  /// Of a scan: the frame at each place; ~0 where none says so. Empty: place n has frame n.
  std::vector<std::uint64_t> frame_at;
  bool compared = false;  ///< its pixels are compared with the reference

  std::optional<std::uint64_t> first_frame;  ///< of a source file: the frame of the series that is row 0
  std::uint64_t frames = 0;
  /// Of each frame: what came of the comparison.
  static constexpr std::uint8_t was_compared = 1;
  static constexpr std::uint8_t was_different = 2;
  std::unique_ptr<std::atomic<std::uint8_t>[]> frame_marks;

  const store::DatasetInfo& info() const { return tree->info; }
  /// Of a dataset of frames.
  std::uint64_t rows() const { return info().shape[info().shape.size() - 2]; }
  std::uint64_t columns() const { return info().shape.back(); }
  /// Dimensions in front of the frame's: 1, or the axes of a scan. None without a third dimension.
  std::size_t leading() const;
  /// Chunks that a frame lies in, where there are dimensions in front of its own …
  std::uint64_t chunks_a_frame() const;
  /// … and frames, one behind the other, that a chunk has a part of, or all of.
  std::uint64_t frames_a_chunk() const { return leading() == 1 && !chunk_shape.empty() ? chunk_shape.front() : 1; }
  /// All chunks that there may be.
  std::uint64_t chunk_count() const;
  /// Position of chunk `number` in the grid.
  std::vector<std::uint64_t> grid_position(std::uint64_t number) const;
  /// The frame's number in the series.
  FrameSpan span_of(std::uint64_t frame) const;
  /// "frame 17"; in a source file "frame 45 of the series".
  std::string frame_name(std::uint64_t frame) const;
  /// "/entry/data/data frame 17 at offset 4096", with "chunk 3 of 16" where a frame has several; of a scan "place".
  Place where(std::uint64_t number, std::uint64_t address) const;
};

/// Nothing for a dataset without data of its own in the file, or too small to have chunks. A note in
/// `why_not` where the data cannot be looked at.
std::unique_ptr<Subject> make_subject(const TreeDataset& dataset, const Plugins& plugins, std::string& why_not);

/// Prepares the subject for comparing its frames; an error where its shape is not that of frames.
Result<void> prepare_comparison(Subject& subject);

}  // namespace penstock::check
