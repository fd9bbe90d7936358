#include "recorder/series/accounting/frame_entries.hpp"

#include <algorithm>

namespace penstock::recorder {
namespace {

/// Of a block with more entries that differ, packing would save little.
constexpr std::size_t others_max = 64;
/// With what the map and the allocator add.
constexpr std::uint64_t packed_bytes = 160;
constexpr std::uint64_t stretch_bytes = 64;

}  // namespace

FrameEntry& FrameEntries::at(std::uint64_t number) {
  const auto block = number / block_frames;
  auto found = open_.find(block);
  if (found == open_.end()) {
    found = open_.emplace(block, unpack(block)).first;
    if (open_.size() > pack_at_) pack_all_but(block);
  }
  return (*found->second)[number % block_frames];
}

std::uint64_t FrameEntries::memory_bytes() const {
  return open_.size() * (sizeof(Block) + stretch_bytes) + packed_.size() * packed_bytes +
         others_ * sizeof(Packed::others[0]) + whole_.size() * stretch_bytes;
}

bool FrameEntries::may_hold(std::uint64_t number, std::uint64_t came) const {
  const auto block = number / block_frames;
  return open_.contains(block) || memory_bytes() < free_bytes + came || packed_.contains(block) ||
         stretch_of(block) != whole_.end();
}

std::uint64_t FrameEntries::safe_below() const {
  std::uint64_t block = 0;
  for (;;) {
    if (const auto stretch = stretch_of(block); stretch != whole_.end()) {
      block = stretch->second;
      continue;
    }
    const auto safe = safe_in(block);
    if (safe < block_frames) return block * block_frames + safe;
    ++block;
  }
}

std::uint64_t FrameEntries::safe_in(std::uint64_t block) const {
  std::bitset<block_frames> safe;
  if (const auto open = open_.find(block); open != open_.end()) {
    for (std::uint64_t i = 0; i < block_frames; ++i) safe[i] = (*open->second)[i].safe == all_parts_;
  } else if (const auto packed = packed_.find(block); packed != packed_.end()) {
    safe = packed->second.whole;
    for (const auto& [i, entry] : packed->second.others) safe[i] = entry.safe == all_parts_;
  }
  std::uint64_t count = 0;
  while (count < block_frames && safe[count]) ++count;
  return count;
}

std::map<std::uint64_t, std::uint64_t>::const_iterator FrameEntries::stretch_of(std::uint64_t block) const {
  const auto behind = whole_.upper_bound(block);
  if (behind == whole_.begin()) return whole_.end();
  const auto found = std::prev(behind);
  return block < found->second ? found : whole_.end();
}

std::unique_ptr<FrameEntries::Block> FrameEntries::unpack(std::uint64_t block) {
  auto entries = std::make_unique<Block>();
  if (const auto packed = packed_.extract(block); !packed.empty()) {
    for (std::uint64_t i = 0; i < block_frames; ++i)
      if (packed.mapped().whole[i]) (*entries)[i] = whole_entry();
    for (const auto& [i, entry] : packed.mapped().others) (*entries)[i] = entry;
    others_ -= packed.mapped().others.size();
  } else if (const auto stretch = stretch_of(block); stretch != whole_.end()) {
    entries->fill(whole_entry());
    const auto [first, end] = *stretch;
    whole_.erase(stretch);
    if (first < block) whole_[first] = block;
    if (block + 1 < end) whole_[block + 1] = end;
  }
  return entries;
}

/// Those that cannot be packed stay: the next time is when there are twice as many.
void FrameEntries::pack_all_but(std::uint64_t block) {
  std::erase_if(open_, [&](const auto& each) { return each.first != block && pack(each.first, *each.second); });
  pack_at_ = std::max(open_usual, 2 * open_.size());
}

bool FrameEntries::pack(std::uint64_t block, const Block& entries) {
  Packed packed;
  for (std::uint64_t i = 0; i < block_frames; ++i) {
    if (entries[i] == whole_entry())
      packed.whole.set(i);
    else if (!(entries[i] == FrameEntry{}))
      packed.others.emplace_back(static_cast<std::uint8_t>(i), entries[i]);
    if (packed.others.size() > others_max) return false;
  }
  if (packed.whole.all()) {
    add_whole(block);
    return true;
  }
  packed.others.shrink_to_fit();
  others_ += packed.others.size();
  packed_.emplace(block, std::move(packed));
  return true;
}

void FrameEntries::add_whole(std::uint64_t block) {
  auto end = block + 1;
  if (const auto next = whole_.find(end); next != whole_.end()) {
    end = next->second;
    whole_.erase(next);
  }
  const auto behind = whole_.lower_bound(block);
  if (behind != whole_.begin() && std::prev(behind)->second == block)
    std::prev(behind)->second = end;
  else
    whole_[block] = end;
}

}  // namespace penstock::recorder
