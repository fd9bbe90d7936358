/// Receipts of contiguous frames: which of them are on storage, and their checksums.
///
/// A frame at a fixed place has no record in a segment. Its receipt says the same: eight bytes at a fixed
/// place too, written when the frame's write has returned and before anybody is told of it. So they stay
/// when the recorder is killed, whatever HDF5 had in its memory. docs/reference/format.md is their
/// specification.
#pragma once

#include <vector>

#include "base/env.hpp"
#include "store/layout.hpp"

namespace penstock::store {

constexpr std::uint64_t receipt_mark = std::uint64_t{1} << 32;
constexpr std::uint64_t receipt_bytes = 8;

constexpr std::uint64_t receipt_of(std::uint32_t crc) { return receipt_mark | crc; }
/// 0, or anything else without the mark, says that there is no frame.
constexpr bool is_receipt(std::uint64_t value) { return value >> 32 == 1; }
constexpr std::uint32_t crc_in(std::uint64_t receipt) { return static_cast<std::uint32_t>(receipt); }

/// One a frame. `truncated` where the file ends before them, whatever its description claims.
Result<std::vector<std::uint64_t>> read_receipts(File& file, const ChunkedNode& node);

Result<void> write_receipt(File& file, const ChunkedNode& node, std::uint64_t frame, std::uint32_t crc);

/// Writes the fill value for frames that have no receipt and lie before `end`.
Result<void> fill_gaps(File& file, const ChunkedNode& node, const std::vector<std::uint64_t>& receipts,
                       std::uint64_t end);

}  // namespace penstock::store
