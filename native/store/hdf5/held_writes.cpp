#include "store/hdf5/held_writes.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace penstock::store::hdf5 {
namespace {

/// Longer writes are not made longer still.
constexpr std::size_t joined_bytes_max = 1 << 20;
/// Of a write in the list and in the table of pages.
constexpr std::uint64_t write_overhead_bytes = 128;

std::atomic<std::uint64_t> bytes_of_all{0};

}  // namespace

void HeldWrites::add(std::uint64_t address, Bytes bytes, bool joined) {
  count(bytes.size());
  if (joined && !writes_.empty()) {
    auto& last = writes_.back();
    if (last.address + last.bytes.size() == address && last.bytes.size() < joined_bytes_max) {
      last.bytes.insert(last.bytes.end(), bytes.begin(), bytes.end());
      note_pages(writes_.size() - 1, address, address + bytes.size());
      return;
    }
  }
  count(write_overhead_bytes);
  writes_.push_back({address, {bytes.begin(), bytes.end()}});
  note_pages(writes_.size() - 1, address, address + bytes.size());
}

void HeldWrites::count(std::uint64_t bytes) {
  bytes_ += bytes;
  bytes_of_all += bytes;
}

std::uint64_t HeldWrites::all_bytes() { return bytes_of_all; }

void HeldWrites::note_pages(std::size_t number, std::uint64_t from, std::uint64_t to) {
  for (auto page = from / page_bytes; page * page_bytes < to; ++page) {
    auto& numbers = pages_[page];
    if (numbers.empty() || numbers.back() != number) numbers.push_back(number);
  }
}

void HeldWrites::lay_over(MutableBytes bytes, std::uint64_t address) const {
  if (writes_.empty()) return;
  const auto end = address + bytes.size();
  for (auto page = address / page_bytes; page * page_bytes < end; ++page) {
    const auto found = pages_.find(page);
    if (found == pages_.end()) continue;
    for (const auto number : found->second) {
      const auto& write = writes_[number];
      const auto from = std::max({address, write.address, page * page_bytes});
      const auto to = std::min({end, write.address + write.bytes.size(), (page + 1) * page_bytes});
      if (from < to)
        std::memcpy(bytes.data() + (from - address), write.bytes.data() + (from - write.address), to - from);
    }
  }
}

bool HeldWrites::overlap(std::uint64_t address, std::uint64_t size) const {
  for (auto page = address / page_bytes; page * page_bytes < address + size; ++page)
    if (pages_.contains(page)) return true;  // or nearly
  return false;
}

std::map<std::uint64_t, std::uint64_t> HeldWrites::stretches() const {
  std::map<std::uint64_t, std::uint64_t> joined;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> parts;
  for (const auto& write : writes_) parts.emplace_back(write.address, write.address + write.bytes.size());
  std::sort(parts.begin(), parts.end());
  for (const auto& [from, to] : parts) {
    if (!joined.empty() && from <= joined.rbegin()->first + joined.rbegin()->second) {
      auto& [address, size] = *joined.rbegin();
      size = std::max(size, to - address);
    } else {
      joined.emplace(from, to - from);
    }
  }
  return joined;
}

void HeldWrites::clear() {
  writes_.clear();
  pages_.clear();
  bytes_of_all -= bytes_;
  bytes_ = 0;
}

void FreshSpace::add(std::uint64_t address, std::uint64_t size) {
  if (size == 0) return;
  if (const auto after = stretches_.upper_bound(address); after != stretches_.begin()) {
    const auto before = std::prev(after);
    if (before->second == address) {
      before->second = address + size;
      return;
    }
  }
  stretches_[address] = address + size;
}

FreshSpace::Part FreshSpace::part_at(std::uint64_t address, std::uint64_t size) const {
  const auto after = stretches_.upper_bound(address);
  if (after != stretches_.begin())
    if (const auto end = std::prev(after)->second; end > address) return {std::min(size, end - address), true};
  return {after == stretches_.end() ? size : std::min(size, after->first - address), false};
}

}  // namespace penstock::store::hdf5
