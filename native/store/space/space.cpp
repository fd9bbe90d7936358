#include "store/space/space.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "base/invariant.hpp"
#include "store/recovery/journal_place.hpp"

namespace penstock::store {
namespace {

// A lease of metadata is a quarter of what was leased before, so that long recordings do not
// scatter their index and short ones do not grow by it.
constexpr std::uint64_t metadata_lease_bytes_min = 64 << 10;
constexpr std::uint64_t metadata_lease_bytes_max = 4 << 20;
constexpr std::uint64_t metadata_kept_bytes = 64 << 10;
constexpr std::uint64_t metadata_alignment_bytes = 8;
constexpr std::uint64_t metadata_guard_bytes = 8;

/// Of a file that nobody else writes to.
class OwnEnd final : public EndOfFile {
 public:
  explicit OwnEnd(std::uint64_t end) : end_(end) {}
  Result<std::uint64_t> advance(std::uint64_t bytes) override { return end_.fetch_add(bytes); }

 private:
  std::atomic<std::uint64_t> end_;
};

}  // namespace

Space::Space(std::shared_ptr<File> file, SpaceOptions options, std::shared_ptr<EndOfFile> shared_end)
    : file_(std::move(file)),
      options_(options),
      end_of_file_(shared_end ? std::move(shared_end) : std::make_shared<OwnEnd>(0)) {}

Space::Space(std::shared_ptr<File> file, SpaceOptions options, std::uint64_t used_bytes, std::uint64_t front_bytes,
             std::shared_ptr<EndOfFile> shared_end)
    : file_(std::move(file)),
      options_(options),
      end_of_file_(shared_end ? std::move(shared_end) : std::make_shared<OwnEnd>(align_up(used_bytes, page_bytes))),
      next_(align_up(used_bytes, page_bytes)),
      reserved_end_(next_),
      extent_end_(next_),
      metadata_leased_(front_bytes),
      end_(next_),
      metadata_extents_{{0, front_bytes}} {
  use_for_metadata({0, front_bytes});
}

Result<std::uint64_t> Space::take_segment(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  const auto fits = [&](const Hole& hole) { return hole.bytes >= bytes; };
  if (const auto hole = std::find_if(holes_.begin(), holes_.end(), fits); hole != holes_.end()) {
    const auto address = hole->address;
    const auto used = align_up(bytes, options_.alignment_bytes);
    if (hole->bytes > used)
      *hole = {address + used, hole->bytes - used};
    else
      holes_.erase(hole);
    end_ = std::max(end_, address + bytes);
    return address;
  }
  PEN_ASSIGN(const auto address, take(bytes, options_.alignment_bytes));
  end_ = std::max(end_, address + bytes);
  return address;
}

void Space::give_back(std::uint64_t address, std::uint64_t bytes) {
  MutexLock lock(mutex_);
  holes_.push_back({address, bytes});
}

Result<std::uint64_t> Space::take_metadata(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  const auto wanted = align_up(bytes, metadata_alignment_bytes);
  // Twice for a block that is larger than what lies in front of the journal's pages.
  while (!has_metadata(wanted + metadata_guard_bytes)) {
    const auto usual = std::clamp(metadata_leased_ / 4, metadata_lease_bytes_min, metadata_lease_bytes_max);
    const auto lease = std::max(usual, align_up(wanted + metadata_guard_bytes, page_bytes));
    PEN_TRY(lease_metadata(lease, wanted + metadata_guard_bytes));
  }
  return hand_out_metadata(wanted);
}

/// What follows in the extent reserves this stretch as well, as soon as there is room.
Result<std::uint64_t> Space::take_metadata_unbacked(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  const auto wanted = align_up(bytes, metadata_alignment_bytes);
  while (!has_metadata(wanted + metadata_guard_bytes)) {
    const auto lease = std::max(metadata_lease_bytes_min, align_up(wanted + metadata_guard_bytes, page_bytes));
    if (align_up(next_, page_bytes) + lease > extent_end_) PEN_TRY(lease_extent(lease, page_bytes));
    const auto address = align_up(next_, page_bytes);
    next_ = address + lease;
    use_for_metadata({address, lease});
    metadata_extents_.push_back({address, lease});
  }
  return hand_out_metadata(wanted);
}

/// Whether so many bytes are left; what stands behind the journal's pages comes when nothing in front of them is.
bool Space::has_metadata(std::uint64_t bytes) {
  if (metadata_next_ + bytes <= metadata_end_) return true;
  if (bytes > rest_.bytes) return false;
  metadata_next_ = rest_.address;
  metadata_end_ = rest_.address + rest_.bytes;
  rest_ = {};
  return true;
}

void Space::use_for_metadata(Hole hole) {
  const auto end = hole.address + hole.bytes;
  metadata_next_ = hole.address;
  metadata_end_ = end;
  if (hole.address >= journal_end || end <= journal_address) return;
  metadata_end_ = journal_address;
  if (end > journal_end) rest_ = {journal_end, end - journal_end};
  end_ = std::max(end_, journal_end);
}

std::uint64_t Space::hand_out_metadata(std::uint64_t bytes) {
  const auto address = metadata_next_;
  metadata_next_ += bytes;
  PEN_INVARIANT(metadata_next_ + metadata_guard_bytes <= metadata_end_);
  end_ = std::max(end_, metadata_next_ + metadata_guard_bytes);
  return address;
}

/// A full disk must not keep HDF5 from completing what it has begun: where the file system reserves
/// nothing, room for metadata is written once before HDF5 uses it. The first lease puts as much by for
/// the time when the disk is full.
Result<void> Space::lease_metadata(std::uint64_t bytes, std::uint64_t least) {
  auto address = take(bytes, page_bytes);
  if (address.ok())
    if (auto backed = back_with_zeros(*address, bytes); !backed.ok()) {
      next_ = *address;  // or every attempt on a full disk would use up another stretch
      address = std::move(backed).error();
    }
  if (!address.ok()) {
    if (address.error().code() != Errc::no_space || kept_.bytes < least) return std::move(address).error();
    use_for_metadata(std::exchange(kept_, {}));
    return {};
  }
  use_for_metadata({*address, bytes});
  metadata_extents_.push_back({*address, bytes});
  metadata_leased_ += bytes;
  if (metadata_leased_ > bytes) return {};
  PEN_ASSIGN(const auto kept, take(metadata_kept_bytes, page_bytes));
  PEN_TRY(back_with_zeros(kept, metadata_kept_bytes));
  kept_ = {kept, metadata_kept_bytes};
  metadata_extents_.push_back({kept, metadata_kept_bytes});
  return {};
}

Result<void> Space::back_with_zeros(std::uint64_t address, std::uint64_t bytes) {
  if (file_->reserves()) return {};
  static constexpr std::array<std::byte, 16 * page_bytes> zeros{};
  for (std::uint64_t at = 0; at < bytes; at += zeros.size())
    PEN_TRY(write_at(*file_, Bytes(zeros).first(std::min<std::uint64_t>(zeros.size(), bytes - at)), address + at));
  return {};
}

Result<void> Space::lease_front() {
  MutexLock lock(mutex_);
  return metadata_leased_ == 0 ? lease_metadata(metadata_lease_bytes_min, metadata_guard_bytes) : Result<void>{};
}

std::uint64_t Space::end() const {
  MutexLock lock(mutex_);
  return std::max(end_, covered_.load());
}

std::vector<Space::Extent> Space::metadata_extents() const {
  MutexLock lock(mutex_);
  return metadata_extents_;
}

void Space::cover(std::uint64_t end) {
  auto covered = covered_.load();
  while (covered < end && !covered_.compare_exchange_weak(covered, end)) {
  }
}

void Space::release_unused() {
  MutexLock lock(mutex_);
  if (const auto from = align_up(next_, page_bytes); from < reserved_end_)
    holes_.push_back({from, reserved_end_ - from});
  reserved_end_ = extent_end_ = next_;
  for (const auto& hole : holes_) file_->discard(hole.address, hole.bytes);
  holes_.clear();
}

Result<std::uint64_t> Space::take(std::uint64_t bytes, std::uint64_t alignment) {
  if (align_up(next_, alignment) + bytes > extent_end_) PEN_TRY(lease_extent(bytes, alignment));
  const auto address = align_up(next_, alignment);
  if (address + bytes > reserved_end_) PEN_TRY(reserve_to(address + bytes));
  next_ = address + bytes;
  PEN_INVARIANT(next_ <= reserved_end_ && reserved_end_ <= extent_end_);
  return address;
}

/// Where somebody else's extent came between, what is left of the old one waits for smaller segments.
Result<void> Space::lease_extent(std::uint64_t bytes, std::uint64_t alignment) {
  const auto slack = alignment > page_bytes ? alignment : 0;  // extents start at a page
  const auto wanted = std::max(align_up(options_.extent_bytes, page_bytes), align_up(bytes + slack, page_bytes));
  PEN_ASSIGN(const auto address, end_of_file_->advance(wanted));
  PEN_INVARIANT(address >= extent_end_);  // what was leased before is leased once
  if (address != extent_end_) {
    const auto rest = align_up(next_, options_.alignment_bytes);
    if (rest < reserved_end_) holes_.push_back({rest, reserved_end_ - rest});
    next_ = reserved_end_ = address;
  }
  extent_end_ = address + wanted;
  return {};
}

/// The whole extent at once, or as much as a nearly full disk has, down to what is needed now. The system
/// call happens with the mutex held: whoever comes meanwhile needs the space too.
Result<void> Space::reserve_to(std::uint64_t end) {
  const auto least = align_up(end - reserved_end_, page_bytes);
  for (auto wanted = extent_end_ - reserved_end_;;) {
    auto reserved = file_->reserve(reserved_end_, wanted);
    if (reserved.ok()) {
      reserved_end_ += wanted;
      return {};
    }
    if (reserved.error().code() != Errc::no_space || wanted <= least) return reserved;
    wanted = std::max(align_up(wanted / 2, page_bytes), least);
  }
}

}  // namespace penstock::store
