#include "store/members/member_map.hpp"

#include <algorithm>
#include <set>

namespace penstock::store {
namespace {

/// Frames that are dealt to ranks in turn come back to the same one after so many at most; more ranks than that are
/// told apart all the same, in more runs.
constexpr std::uint64_t period_max = 64;

}  // namespace

MemberMap::MemberMap(std::size_t datasets, Members members, std::uint64_t sparse_pages_max)
    : members_(std::move(members)), sparse_pages_max_(sparse_pages_max), pages_(datasets) {}

Result<bool> MemberMap::note(std::size_t dataset, std::uint64_t frame, unsigned rank) {
  if (dataset >= pages_.size()) return false;
  auto& pages = pages_[dataset];
  auto page = pages.find(frame / page_frames);
  if (page == pages.end()) {
    if (page_count_ >= sparse_pages_max_ && chunk_count_ < chunks_a_page_min * page_count_)
      return make_error(Errc::too_large, "frame {}: the frames are too far apart, {} chunks in {} ranges of {}", frame,
                        chunk_count_, page_count_, page_frames);
    page = pages.emplace(frame / page_frames, Owners(page_frames, nobody)).first;
    ++page_count_;
  }
  auto& owner = page->second[frame % page_frames];
  if (owner != nobody) return false;
  owner = static_cast<std::uint16_t>(rank);
  ++chunk_count_;
  return true;
}

/// Each ends with a frame that somebody has.
std::vector<MemberMap::Piece> MemberMap::pieces(std::size_t dataset) const {
  std::vector<Piece> pieces;
  for (const auto& [number, page] : pages_[dataset]) {
    const auto base = number * page_frames;
    if (pieces.empty() || pieces.back().base + pieces.back().owners.size() != base) pieces.push_back({base, {}});
    auto& owners = pieces.back().owners;
    owners.insert(owners.end(), page.begin(), page.end());
  }
  for (auto& piece : pieces)
    while (piece.owners.back() == nobody) piece.owners.pop_back();
  return pieces;
}

std::uint64_t MemberMap::end() const {
  std::uint64_t end = 0;
  for (const auto& pages : pages_) {
    if (pages.empty()) continue;
    const auto& [number, page] = *pages.rbegin();
    const auto last = std::find_if(page.rbegin(), page.rend(), [](const auto owner) { return owner != nobody; });
    end = std::max(end, number * page_frames + static_cast<std::uint64_t>(page.rend() - last));
  }
  return end;
}

std::vector<std::uint64_t> MemberMap::members() const {
  std::set<std::uint64_t> found;
  for (const auto& pages : pages_)
    for (const auto& [number, page] : pages)
      for (std::uint64_t i = 0; i < page.size(); ++i)
        if (page[i] != nobody) found.insert(members_.member_of(number * page_frames + i, page[i]));
  return {found.begin(), found.end()};
}

std::uint64_t MemberMap::block_end(std::uint64_t frame) const {
  return members_.frames > 0 ? (frame / members_.frames + 1) * members_.frames : ~std::uint64_t{0};
}

/// The stretch from `first` on in which every frame's rank is that of the frame one period before, with the period that
/// says the most in the fewest runs.
MemberMap::Stretch MemberMap::longest(const Piece& piece, std::uint64_t first) const {
  const auto& owners = piece.owners;
  const auto limit = std::min<std::uint64_t>(owners.size(), block_end(piece.base + first) - piece.base);
  Stretch best{first + 1, 1};
  Owners pattern;
  for (std::uint64_t period = 1; period <= std::min<std::uint64_t>(members_.ranks, period_max); ++period) {
    pattern.assign(period, nobody);
    auto end = first;
    for (; end < limit; ++end) {
      auto& owner = pattern[(end - first) % period];
      if (owners[end] == nobody || owners[end] == owner) continue;
      if (owner != nobody) break;
      owner = owners[end];
    }
    if ((end - first) / period > (best.end - first) / best.period) best = {end, period};
    if (end == limit) break;
  }
  return best;
}

void MemberMap::add_runs(const Piece& piece, std::uint64_t first, const Stretch& stretch,
                         std::vector<MemberRun>& runs) const {
  for (std::uint64_t start = first; start < std::min(stretch.end, first + stretch.period); ++start) {
    MemberRun run;
    for (auto at = start; at < stretch.end; at += stretch.period) {
      const auto owner = piece.owners[at];
      if (owner == nobody) continue;
      const auto frame = piece.base + at;
      if (run.count == 0) run = {frame, stretch.period, 0, members_.member_of(frame, owner), members_.row_of(frame)};
      run.count = (frame - run.first) / stretch.period + 1;
    }
    if (run.count > 0) runs.push_back(run);
  }
}

std::vector<MemberRun> MemberMap::runs(std::size_t dataset) const {
  std::vector<MemberRun> runs;
  for (const auto& piece : pieces(dataset)) {
    for (std::uint64_t at = 0; at < piece.owners.size();) {
      if (piece.owners[at] == nobody) {
        ++at;
        continue;
      }
      const auto stretch = longest(piece, at);
      add_runs(piece, at, stretch, runs);
      at = stretch.end;
    }
  }
  return runs;
}

}  // namespace penstock::store
