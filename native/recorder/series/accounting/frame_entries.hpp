/// An entry for each frame number of a series, in little memory: stretches of frames that are complete and safe cost
/// nothing, and a block of which few frames came is packed. For one thread at a time.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace penstock::recorder {

/// As stored in the file, one byte a frame.
enum class FrameState : std::uint8_t {
  missing = 0,   ///< never came; reads as the fill value
  received = 1,  ///< in the file
  damaged = 2,   ///< came, but could not be understood; reads as the fill value
  dropped = 3,   ///< arrived when the pool was full, or after its file was closed
  lost = 4,      ///< came, but the storage did not take it
  partial = 5,   ///< some of its channels or elements are in the file, and the others never came
};

struct FrameEntry {
  std::uint32_t received = 0;  ///< bit a part
  std::uint32_t safe = 0;
  std::uint32_t lost = 0;                  ///< and not received since
  FrameState state = FrameState::missing;  ///< of a frame that is not wholly received

  bool operator==(const FrameEntry&) const = default;
};

class FrameEntries {
 public:
  static constexpr std::uint64_t block_frames = 256;
  /// Besides what the frames that came pay for: see may_hold().
  static constexpr std::uint64_t free_bytes = 16 << 20;

  /// `all_parts` has a bit for each part of a frame.
  explicit FrameEntries(std::uint32_t all_parts) : all_parts_(all_parts) {}

  /// Made where there is none. Valid until the next call.
  FrameEntry& at(std::uint64_t number);
  /// Whether there is room for an entry of this number, after `came` frames: there always is among others. Numbers that
  /// are far apart cost a block each, and all blocks together may take free_bytes and a byte for each frame that came.
  bool may_hold(std::uint64_t number, std::uint64_t came) const;
  std::uint64_t memory_bytes() const;
  /// The lowest number of a frame that is not safe in all parts.
  std::uint64_t safe_below() const;

  /// Calls `take(number, entry)` for each entry that is not empty, in no order.
  template <typename Take>
  void for_each(Take take) const {
    const FrameEntry whole = whole_entry();
    const auto visit = [&](std::uint64_t block, std::uint64_t i, const FrameEntry& entry) {
      if (!(entry == FrameEntry{})) take(block * block_frames + i, entry);
    };
    for (const auto& [block, entries] : open_)
      for (std::uint64_t i = 0; i < block_frames; ++i) visit(block, i, (*entries)[i]);
    for (const auto& [block, packed] : packed_) {
      for (std::uint64_t i = 0; i < block_frames; ++i)
        if (packed.whole[i]) visit(block, i, whole);
      for (const auto& [i, entry] : packed.others) visit(block, i, entry);
    }
    for (const auto& [first, end] : whole_)
      for (auto block = first; block < end; ++block)
        for (std::uint64_t i = 0; i < block_frames; ++i) visit(block, i, whole);
  }

 private:
  using Block = std::array<FrameEntry, block_frames>;
  struct Packed {
    std::bitset<block_frames> whole;
    std::vector<std::pair<std::uint8_t, FrameEntry>> others;
  };

  FrameEntry whole_entry() const { return {.received = all_parts_, .safe = all_parts_}; }
  /// Frames at the beginning of the block that are safe in all parts.
  std::uint64_t safe_in(std::uint64_t block) const;
  std::unique_ptr<Block> unpack(std::uint64_t block);
  void pack_all_but(std::uint64_t block);
  bool pack(std::uint64_t block, const Block& entries);
  std::map<std::uint64_t, std::uint64_t>::const_iterator stretch_of(std::uint64_t block) const;
  void add_whole(std::uint64_t block);

  const std::uint32_t all_parts_;
  std::map<std::uint64_t, std::unique_ptr<Block>> open_;
  std::map<std::uint64_t, Packed> packed_;
  std::map<std::uint64_t, std::uint64_t> whole_;  ///< blocks of complete frames: first, and one past the last
  std::uint64_t others_ = 0;                      ///< in all of packed_
  std::size_t pack_at_ = open_usual;

  /// So many blocks are worked with before some are packed: a megabyte.
  static constexpr std::size_t open_usual = 256;
};

}  // namespace penstock::recorder
