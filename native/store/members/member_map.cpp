#include "store/members/member_map.hpp"

#include <algorithm>
#include <set>

namespace penstock::store {
namespace {

/// Frames that are dealt to ranks in turn come back to the same one after so many at most; more ranks than that are
/// told apart all the same, in more runs.
constexpr std::uint64_t period_max = 64;

}  // namespace

MemberMap::MemberMap(std::size_t datasets, Members members) : members_(std::move(members)), owners_(datasets) {}

bool MemberMap::note(std::size_t dataset, std::uint64_t frame, unsigned rank) {
  auto& owners = owners_[dataset];
  if (frame >= owners.size()) owners.resize(frame + 1, nobody);
  if (owners[frame] != nobody) return false;
  owners[frame] = static_cast<std::uint16_t>(rank);
  return true;
}

std::uint64_t MemberMap::end() const {
  std::uint64_t end = 0;
  for (const auto& owners : owners_) end = std::max<std::uint64_t>(end, owners.size());
  return end;
}

std::vector<std::uint64_t> MemberMap::members() const {
  std::set<std::uint64_t> found;
  for (const auto& owners : owners_)
    for (std::uint64_t frame = 0; frame < owners.size(); ++frame)
      if (owners[frame] != nobody) found.insert(members_.member_of(frame, owners[frame]));
  return {found.begin(), found.end()};
}

std::uint64_t MemberMap::block_end(std::uint64_t frame) const {
  return members_.frames > 0 ? (frame / members_.frames + 1) * members_.frames : ~std::uint64_t{0};
}

/// The stretch from `first` on in which every frame's rank is that of the frame one period before, with the period that
/// says the most in the fewest runs.
MemberMap::Stretch MemberMap::longest(const std::vector<std::uint16_t>& owners, std::uint64_t first) const {
  const auto limit = std::min<std::uint64_t>(owners.size(), block_end(first));
  Stretch best{first + 1, 1};
  std::vector<std::uint16_t> pattern;
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

void MemberMap::add_runs(const std::vector<std::uint16_t>& owners, std::uint64_t first, const Stretch& stretch,
                         std::vector<MemberRun>& runs) const {
  for (std::uint64_t start = first; start < std::min(stretch.end, first + stretch.period); ++start) {
    MemberRun run;
    for (auto frame = start; frame < stretch.end; frame += stretch.period) {
      if (owners[frame] == nobody) continue;
      if (run.count == 0)
        run = {frame, stretch.period, 0, members_.member_of(frame, owners[frame]), members_.row_of(frame)};
      run.count = (frame - run.first) / stretch.period + 1;
    }
    if (run.count > 0) runs.push_back(run);
  }
}

std::vector<MemberRun> MemberMap::runs(std::size_t dataset) const {
  const auto& owners = owners_[dataset];
  std::vector<MemberRun> runs;
  for (std::uint64_t frame = 0; frame < owners.size();) {
    if (owners[frame] == nobody) {
      ++frame;
      continue;
    }
    const auto stretch = longest(owners, frame);
    add_runs(owners, frame, stretch, runs);
    frame = stretch.end;
  }
  return runs;
}

}  // namespace penstock::store
