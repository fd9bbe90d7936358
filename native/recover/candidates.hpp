/// The chunks that a file's segments hold, as they name them themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/files/env.hpp"
#include "check/findings.hpp"
#include "store/format/description.hpp"
#include "store/format/segment.hpp"
#include "store/recovery/late_values.hpp"
#include "store/seal.hpp"

namespace penstock::recover {

/// A chunk that a record names. Its bytes are not looked at yet.
struct Candidate {
  std::uint16_t dataset = 0;
  std::uint64_t index = 0;     ///< the chunk's number in the dataset's grid
  std::uint64_t sequence = 0;  ///< of its segment; the lower one counts
  std::uint64_t address = 0;
  std::uint64_t segment_end = 0;
  std::uint32_t size = 0;
  std::uint32_t crc = 0;
  std::uint32_t filter_mask = 0;
  std::int64_t received_ns = 0;
  std::uint32_t frame = 0;         ///< of a scan; where a chunk has several frames a bit for each that it has
  std::uint16_t zero_sectors = 0;  ///< as its record says
};

using store::ValuesSegment;

struct Segments {
  store::format::FileId file_id{};
  store::format::Description description;
  std::vector<store::ChunkGrid> grids;  ///< of its datasets
  std::vector<Candidate> candidates;    ///< by dataset, index and rising sequence
  std::vector<ValuesSegment> of_values;
  std::uint64_t count = 0;  ///< of all kinds
  std::uint64_t of_chunks = 0;
  std::vector<store::Extent> guarded;  ///< what needs no seal
  std::uint64_t end = 0;               ///< of the file, and of segments that were cut off with its end
  std::vector<store::format::SegmentHeader> seals;
  store::format::SegmentHeader described_by;                       ///< the description that is whole
  std::vector<store::format::SegmentHeader> damaged_descriptions;  ///< copies of it
  std::vector<std::uint64_t> damaged_headers_of_description;       ///< addresses of copies whose header is damaged
  // Where no copy is whole:
  std::optional<Error> no_description;
  std::vector<store::format::SegmentHeader> undescribed;  ///< segments of chunks whose records wait for one
  std::vector<store::format::SegmentHeader> values;       ///< segments of values
  std::uint64_t first_address = ~std::uint64_t{0};  ///< of any header, also a damaged one; all ones: there is none
  std::uint64_t last_sequence = 0;                  ///< the highest
  std::int64_t last_ns = 0;                         ///< realtime, when the newest was sealed
};

/// Whether a file of this size is an incomplete copy, which ends within the chunk or before it. A recorder gives a file
/// the space of a segment before it writes it, unless the storage cannot; but not the space of slots.
bool is_cut_off(const Segments& segments, const Candidate& candidate, std::uint64_t file_bytes);

/// New structures come before the first segment. Known before anything is written, or promised by a dry run.
Result<void> can_be_rebuilt(const Segments& segments);

/// Writes the copies of the description that a kill tore once more; of those whose header is damaged nothing is left.
Result<void> mend_descriptions(File& file, const Segments& segments);
/// The same of all that is damaged, where another description was written.
Result<void> remove_damaged_descriptions(File& file, const Segments& segments);

/// Takes the records of undescribed segments, once the description is there.
Result<void> complete_segments(File& file, Segments& segments, check::Findings& findings);

/// Walks over the whole file. What is damaged becomes a finding; where no description is left the segments are
/// incomplete and `no_description` says why. Memory: 56 bytes a chunk, and 32 a segment.
Result<Segments> read_segments(File& file, check::Findings& findings, const std::function<bool()>& cancelled,
                               const std::function<void(std::uint64_t)>& position);

}  // namespace penstock::recover
