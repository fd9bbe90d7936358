/// Which frames the chunks of a file hold: by their numbers, of a scan by the records and the column of places, and of
/// chunks with several frames by the records.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "check/structures/index_process.hpp"
#include "check/structures/index_table.hpp"
#include "recover/candidates.hpp"
#include "recover/ledger_rows.hpp"

namespace penstock::recover {

class ChunkFrames {
 public:
  using Tables = std::vector<std::unique_ptr<check::IndexTable>>;

  /// `indexed` by dataset, empty without an index; `states` as the column has them. Both of `tree`. `segments`
  /// outlives this.
  void learn(const Segments& segments, const check::Tree& tree, const Tables& indexed, Bytes states);
  /// The candidate's chunk goes into the index.
  void choose(const Candidate& candidate);

  /// Of one chunk that is chosen or in the index; rising.
  std::vector<std::uint64_t> in(std::uint16_t dataset, std::uint64_t chunk) const;
  /// For messages: of a chunk that is named by a record.
  static std::uint64_t first_of(const Segments& segments, const Candidate& candidate);

  struct Found {
    std::vector<std::uint64_t> whole;    ///< frames that are in each of the chunks that they need
    std::vector<std::uint64_t> partial;  ///< … in some
  };
  /// `chunks` rise; so do the frames.
  Found among(std::uint16_t dataset, const std::vector<std::uint64_t>& chunks) const;

  /// Of a scan: what `known`, by frame, does not say of the frames in `whole`.
  std::vector<FramePlace> new_places(const std::vector<std::uint64_t>& known,
                                     const std::vector<std::uint64_t>& whole) const;

 private:
  std::uint64_t place_of(std::uint16_t dataset, std::uint64_t chunk) const;
  std::optional<std::uint64_t> frame_at(std::uint16_t dataset, std::uint64_t place) const;

  const Segments* segments_ = nullptr;
  std::unordered_map<std::uint64_t, std::uint64_t> frame_at_;               ///< of a scan: by place
  std::vector<std::unordered_map<std::uint64_t, std::uint32_t>> gathered_;  ///< by dataset and chunk: its frames
};

}  // namespace penstock::recover
