/// What is fixed about a series before its first frame: configuration, start message, path, and what follows from them.
///
/// Constant after make(); every part of a SeriesFile reads it without a lock and is destroyed before it. Sizes are in
/// bytes, uncompressed. A *part* of a frame is one channel of one of the detector's elements.
#pragma once

#include <cstdint>
#include <string>

#include "frame/frame.hpp"
#include "frame/mosaic.hpp"
#include "recorder/config/config.hpp"
#include "recorder/config/scan.hpp"
#include "recorder/series/accounting/ledger.hpp"
#include "recorder/tree/nexus/nexus.hpp"
#include "store/store.hpp"

namespace penstock::recorder {

/// Locations in HDF5's index of a growing dataset.
constexpr std::uint64_t chunks_max = (std::uint64_t{1} << 32) - 2;

class SeriesSpec {
 public:
  /// Checks the start message against the configuration, in a recorder of `ranks` ranks. An error names the field and
  /// its value.
  static Result<SeriesSpec> make(const Config& config, unsigned ranks, Series series, std::string path);
  /// `too_large` if a segment cannot hold a chunk.
  Result<void> check_segments() const;

  const Config& config() const { return config_; }
  const Series& series() const { return series_; }
  const std::string& path() const { return path_; }
  const Mosaic& mosaic() const { return mosaic_; }
  const Tiling& tiling() const { return mosaic_.tiling(); }
  const ScanConfig& scan() const { return scan_; }
  Arrangement arrangement() const { return {tiling().tile_shape(), scan_, frames_a_chunk_}; }

  std::uint32_t elements() const { return mosaic_.elements(); }
  bool has_elements() const { return elements() > 1; }
  std::uint32_t parts() const { return static_cast<std::uint32_t>(series_.channels.size()) * elements(); }
  std::uint32_t part_of(std::uint32_t channel, std::uint32_t element) const { return channel * elements() + element; }
  std::uint32_t part_of(const Frame& frame) const { return part_of(frame.channel, frame.element.value_or(0)); }
  std::uint64_t part_bytes() const { return part_bytes_; }
  /// The frame and the part that a chunk belongs to.
  Ledger::Item item_of(const store::ChunkHead& head) const;
  /// Image numbers from here on have no location in the index.
  std::uint64_t frames_max() const { return chunks_max / mosaic_.tiles_a_frame(); }

  std::uint64_t frames_a_chunk() const { return frames_a_chunk_; }
  bool gathers() const { return frames_a_chunk_ > 1; }
  /// Fixed offsets are for consecutive frames, one per chunk.
  bool fits_slots() const { return !scan_ && mosaic_.tiles_a_frame() == 1 && !gathers(); }
  std::uint64_t chunk_bytes() const { return tiling().tile_bytes() * frames_a_chunk_; }
  /// A chunk is a frame, or an element of one: a frame that comes in the file's encoding is stored unchanged.
  bool is_chunk_a_frame() const { return tiling().whole() && !gathers(); }
  /// Memory for the file's segments.
  std::uint64_t segment_pool_bytes() const;

  /// Unacknowledged frames that a sender has to be able to keep; 0: any number.
  std::uint64_t window_needed() const;
  /// `refused` if a sender that keeps `frames` (0: not announced) would wait for an acknowledgement for ever.
  Result<void> check_window(std::uint64_t frames) const;

  /// Whether masks of numbers of this type fit: gaps make them larger than those that the elements send, and they may
  /// take up to tables_bytes.
  bool maps_have_room(ElementType type) const;
  /// Whether the file may replace another: not one that holds the same series, nor one of the same source and name.
  bool may_overwrite() const { return config_.store.overwrite && !series_.resumed && !series_.anew; }
  /// Locations in the dataset that read as the fill value, wholly or in part.
  std::uint64_t filled(const LedgerCounts& counts) const;

 private:
  SeriesSpec(const Config& config, Series series, std::string path, Mosaic mosaic, ScanConfig scan);

  Config config_;
  Series series_;
  std::string path_;
  Mosaic mosaic_;
  ScanConfig scan_;
  std::uint64_t part_bytes_ = 0;
  std::uint64_t frames_a_chunk_ = 1;
};

}  // namespace penstock::recorder
