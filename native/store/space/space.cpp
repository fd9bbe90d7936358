#include "store/space/space.hpp"

#include <algorithm>
#include <array>

namespace penstock::store {
namespace {

// A lease of metadata is a quarter of what was leased before, so that long recordings do not
// scatter their index and short ones do not grow by it.
constexpr std::uint64_t metadata_lease_bytes_min = 64 << 10;
constexpr std::uint64_t metadata_lease_bytes_max = 4 << 20;
constexpr std::uint64_t metadata_kept_bytes = 64 << 10;
constexpr std::uint64_t metadata_alignment_bytes = 8;
constexpr std::uint64_t metadata_guard_bytes = 8;

}  // namespace

Space::Space(std::shared_ptr<File> file, SpaceOptions options, std::uint64_t used_bytes, std::uint64_t front_bytes)
    : file_(std::move(file)),
      options_(options),
      next_(align_up(used_bytes, page_bytes)),
      extent_end_(next_),
      metadata_end_(front_bytes),
      metadata_leased_(front_bytes),
      end_(next_) {}

Result<std::uint64_t> Space::take_segment(std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const auto fits = [&](const Hole& hole) { return hole.bytes >= bytes; };
  if (const auto hole = std::find_if(holes_.begin(), holes_.end(), fits); hole != holes_.end()) {
    const auto address = hole->address;
    const auto used = align_up(bytes, options_.alignment_bytes);
    if (hole->bytes > used)
      *hole = {address + used, hole->bytes - used};
    else
      holes_.erase(hole);
    return address;
  }
  PEN_ASSIGN(const auto address, take(bytes, options_.alignment_bytes));
  end_ = std::max(end_, address + bytes);
  return address;
}

void Space::give_back(std::uint64_t address, std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  holes_.push_back({address, bytes});
}

Result<std::uint64_t> Space::take_metadata(std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const auto wanted = align_up(bytes, metadata_alignment_bytes);
  if (metadata_next_ + wanted + metadata_guard_bytes > metadata_end_) {
    const auto usual = std::clamp(metadata_leased_ / 4, metadata_lease_bytes_min, metadata_lease_bytes_max);
    const auto lease = std::max(usual, align_up(wanted + metadata_guard_bytes, page_bytes));
    PEN_TRY(lease_metadata(lease, wanted + metadata_guard_bytes));
  }
  const auto address = metadata_next_;
  metadata_next_ += wanted;
  end_ = std::max(end_, metadata_next_ + metadata_guard_bytes);
  return address;
}

/// A full disk must not keep HDF5 from completing what it has begun: where the file system reserves
/// nothing, room for metadata is written once before HDF5 uses it. The first lease puts as much by for
/// the time when the disk is full.
Result<void> Space::lease_metadata(std::uint64_t bytes, std::uint64_t least) {
  auto address = take(bytes, page_bytes);
  if (address.ok())
    if (auto backed = back_with_zeros(*address, bytes); !backed.ok()) address = std::move(backed).error();
  if (!address.ok()) {
    if (address.error().code() != Errc::no_space || kept_.bytes < least) return std::move(address).error();
    metadata_next_ = kept_.address;
    metadata_end_ = kept_.address + kept_.bytes;
    kept_ = {};
    return {};
  }
  metadata_next_ = *address;
  metadata_end_ = *address + bytes;
  metadata_leased_ += bytes;
  if (metadata_leased_ > bytes) return {};
  PEN_ASSIGN(const auto kept, take(metadata_kept_bytes, page_bytes));
  PEN_TRY(back_with_zeros(kept, metadata_kept_bytes));
  kept_ = {kept, metadata_kept_bytes};
  return {};
}

Result<void> Space::back_with_zeros(std::uint64_t address, std::uint64_t bytes) {
  if (file_->reserves()) return {};
  static constexpr std::array<std::byte, 16 * page_bytes> zeros{};
  for (std::uint64_t at = 0; at < bytes; at += zeros.size())
    PEN_TRY(write_at(*file_, Bytes(zeros).first(std::min<std::uint64_t>(zeros.size(), bytes - at)), address + at));
  return {};
}

std::uint64_t Space::end() const {
  std::lock_guard lock(mutex_);
  return end_;
}

Result<std::uint64_t> Space::take(std::uint64_t bytes, std::uint64_t alignment) {
  auto address = align_up(next_, alignment);
  if (address + bytes > extent_end_) {
    PEN_TRY(lease_extent(address + bytes - extent_end_));
  }
  next_ = address + bytes;
  return address;
}

/// The system call happens with the mutex held: whoever comes meanwhile needs the extent too.
Result<void> Space::lease_extent(std::uint64_t bytes) {
  const auto least = align_up(bytes, page_bytes);
  // A disk that is nearly full may not have a whole extent left, but still this segment.
  for (auto wanted = std::max(align_up(options_.extent_bytes, page_bytes), least);;
       wanted = std::max(wanted / 2, least)) {
    auto reserved = file_->reserve(extent_end_, align_up(wanted, page_bytes));
    if (reserved.ok()) {
      extent_end_ += align_up(wanted, page_bytes);
      return {};
    }
    if (reserved.error().code() != Errc::no_space || wanted <= least) return reserved;
  }
}

}  // namespace penstock::store
