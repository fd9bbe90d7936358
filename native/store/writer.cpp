#include "store/writer.hpp"

#include <algorithm>

#include "base/crc32c.hpp"
#include "base/time/clock.hpp"
#include "store/recovery/cut_short.hpp"

namespace penstock::store {
namespace {

/// The kernel takes at most 1024 pieces in one call; header and padding need two.
constexpr std::size_t pieces_max = 1000;
/// Bounds the header region (40 bytes each).
constexpr std::size_t records_max = 1 << 16;
/// Of values of the segment's frames, which bounds the header region as well.
constexpr std::size_t row_bytes_wanted = 1 << 20;
constexpr std::size_t row_bytes_max = 160 << 20;
/// HDF5's chunk index for one growing dimension has 2^32 places.
constexpr std::uint64_t chunk_index_max = (std::uint64_t{1} << 32) - 2;
constexpr std::uint64_t hdf5_chunk_bytes_max = (std::uint64_t{1} << 32) - 1;
/// A piece costs the kernel about as much as copying this many bytes.
constexpr std::size_t gather_bytes_min = 4 << 10;
/// Copied in steps that stay in the cache between checksum and copy.
constexpr std::size_t copy_step_bytes = 64 << 10;

alignas(8) constexpr std::byte zeros[8] = {};

std::uint32_t copy_with_crc(std::byte* to, Bytes from) {
  std::uint32_t crc = 0;
  for (std::size_t at = 0; at < from.size(); at += copy_step_bytes) {
    const auto step = from.subspan(at, std::min(copy_step_bytes, from.size() - at));
    crc = crc32c(step, crc);
    std::memcpy(to + at, step.data(), step.size());
  }
  return crc;
}

class SegmentWriter final : public ChunkWriter {
 public:
  explicit SegmentWriter(std::shared_ptr<WriterShared> shared)
      : shared_(std::move(shared)), number_(shared_->writers++), direct_(shared_->pipeline->direct()) {}
  ~SegmentWriter() override { (void)flush(); }

  Result<MutableBytes> reserve(std::size_t bound) override {
    if (bound > hdf5_chunk_bytes_max)
      return make_error(Errc::too_large, "a chunk of up to {} bytes; HDF5 has at most {}", bound, hdf5_chunk_bytes_max);
    PEN_TRY(make_staging(bound));
    reserved_ = bound;
    return room().first(bound);
  }

  Result<void> commit(const ChunkHead& head, std::size_t size) override {
    PEN_TRY(check(head, size));
    if (size > reserved_)
      return make_error(Errc::invalid_argument, "a commit of {} bytes after a reserve of {}", size, reserved_);
    add_record(head, room().first(size), crc32c(room().first(size)));
    add_staged(size);
    return seal_if_full(size);
  }

  Result<void> put(const ChunkHead& head, Bytes data, std::shared_ptr<const void> owner,
                   std::size_t capacity) override {
    PEN_TRY(check(head, data.size()));
    PEN_TRY(make_room(data.size(), head.rows.size()));
    if (owner && can_gather(data, capacity)) {
      gather(head, data, std::move(owner));
    } else {
      PEN_TRY(make_staging(data.size()));
      auto* to = room().data();
      if (head.crc) std::memcpy(to, data.data(), data.size());
      add_record(head, data, head.crc ? *head.crc : copy_with_crc(to, data));
      add_staged(data.size());
    }
    return seal_if_full(data.size());
  }

  Result<void> flush() override { return segment_.records.empty() ? Result<void>{} : seal(); }

  std::int64_t oldest_ns() const override { return segment_.oldest_ns; }
  std::uint64_t waiting_bytes() const override { return segment_.data_bytes; }

 private:
  Result<void> check(const ChunkHead& head, std::size_t size) const {
    const auto position = static_cast<std::size_t>(head.dataset);
    if (position >= shared_->datasets.size())
      return make_error(Errc::invalid_argument, "a chunk of dataset {} of {}", position, shared_->datasets.size());
    const auto& dataset = shared_->datasets[position];
    if (head.index > chunk_index_max)
      return make_error(Errc::too_large, "chunk {} of {} exceeds the maximum of {}", head.index, dataset.path,
                        chunk_index_max);
    if (size == 0 || size > hdf5_chunk_bytes_max)
      return make_error(Errc::invalid_argument, "chunk {} of {} has {} bytes", head.index, dataset.path, size);
    if (dataset.chunks_max > 0 && head.index >= dataset.chunks_max)
      return make_error(Errc::too_large, "chunk {} of {}, which has room for {}", head.index, dataset.path,
                        dataset.chunks_max);
    if (dataset.chunk_bytes_max > 0 && size > dataset.chunk_bytes_max)
      return make_error(Errc::too_large, "chunk {} of {} has {} bytes; its slot has room for {}", head.index,
                        dataset.path, size, dataset.chunk_bytes_max);
    if (dataset.frames_a_chunk > 1 && (head.frame == 0 || (head.frame >> (dataset.frames_a_chunk - 1)) > 1))
      return make_error(Errc::invalid_argument, "chunk {} of {} has the frames {:#x} of {}", head.index, dataset.path,
                        head.frame, dataset.frames_a_chunk);
    if (head.rows.size() > row_bytes_max - row_bytes_wanted)
      return make_error(Errc::too_large, "chunk {} of {} has {} bytes of values of its frames; {} are possible",
                        head.index, dataset.path, head.rows.size(), row_bytes_max - row_bytes_wanted);
    const auto all_skipped = (std::uint64_t{1} << dataset.filters) - 1;
    if ((head.filter_mask & all_skipped) == all_skipped && size != dataset.raw_bytes)
      return make_error(Errc::mismatch, "chunk {} of {} has {} bytes and no filter; {} are needed", head.index,
                        dataset.path, size, dataset.raw_bytes);
    return {};
  }

  bool can_gather(Bytes data, std::size_t capacity) const {
    if (data.size() < gather_bytes_min) return false;
    return !direct_ || (reinterpret_cast<std::uintptr_t>(data.data()) % page_bytes == 0 &&
                        capacity >= align_up(data.size(), page_bytes));
  }

  /// Seals first where a small chunk would lead over the segment's size, so that segments keep to
  /// it; a large one may end behind it rather than leave the segment half full.
  Result<void> make_room(std::size_t size, std::size_t row_bytes) {
    const auto target = shared_->options.segment_bytes;
    const bool small = size <= target / 16;
    if (small && !segment_.records.empty() && segment_bytes_with(1, row_bytes) + align_up(size, 8) > target)
      return seal();
    return {};
  }

  std::uint64_t segment_bytes_with(std::size_t more_records, std::size_t more_row_bytes) const {
    return format::header_region_bytes((segment_.records.size() + more_records) * format::record_size_bytes +
                                       segment_.rows.size() + more_row_bytes) +
           segment_.data_bytes;
  }

  Result<void> seal_if_full(std::size_t last_size) {
    if (shared_->one_chunk_a_segment) return seal();
    const bool full =
        segment_bytes_with(0, 0) + std::min<std::uint64_t>(last_size, 512) > shared_->options.segment_bytes;
    const bool many = segment_.pieces.size() >= pieces_max || segment_.records.size() >= records_max ||
                      segment_.rows.size() >= row_bytes_wanted;
    return full || many ? seal() : Result<void>{};
  }

  /// The part of the staging buffer that no chunk occupies.
  MutableBytes room() { return segment_.staging ? segment_.staging->bytes().subspan(staged_) : MutableBytes{}; }

  /// Ensures that room() has `size` bytes and the padding behind them. Takes a new segment if it has less.
  Result<void> make_staging(std::size_t size) {
    const auto wanted = align_up(size, page_bytes) + page_bytes;
    if (room().size() >= wanted) return {};
    if (!segment_.records.empty()) PEN_TRY(seal());
    segment_.staging.reset();
    const auto target = shared_->options.segment_bytes;
    // The chunk that fills a segment begins before its end.
    auto capacity = target + page_bytes + wanted;
    if (shared_->one_chunk_a_segment) capacity = wanted;
    if (capacity > shared_->staging.budget_bytes() / 2)
      capacity =
          std::max<std::uint64_t>(wanted, std::min<std::uint64_t>(capacity, shared_->staging.budget_bytes() / 2));
    while (true) {
      auto buffer = shared_->staging.acquire(capacity, std::chrono::seconds(1));
      if (buffer.ok()) {
        segment_.staging = std::move(*buffer);
        staged_ = 0;
        return {};
      }
      // The write threads give buffers back whatever happens to the storage, so waiting has an end.
      if (buffer.error().code() != Errc::timed_out) return std::move(buffer).error();
    }
  }

  void add_record(const ChunkHead& head, Bytes data, std::uint32_t crc) {
    if (segment_.records.empty()) segment_.oldest_ns = monotonic_ns();
    segment_.records.push_back({head.index, head.received_ns, static_cast<std::uint32_t>(segment_.data_bytes),
                                static_cast<std::uint32_t>(data.size()), crc, head.filter_mask,
                                static_cast<std::uint16_t>(head.dataset), zero_sectors_of(segment_.data_bytes, data),
                                head.frame});
    segment_.companions.push_back({head.cookie, head.encoded_ns});
    segment_.rows.insert(segment_.rows.end(), head.rows.begin(), head.rows.end());
  }

  /// The next `size` bytes of the staging buffer belong to the segment, with padding.
  void add_staged(std::size_t size) {
    auto* from = room().data();
    const auto padded = align_up(size, format::chunk_alignment_bytes);
    std::memset(from + size, 0, padded - size);
    append_staged(from, padded);
  }

  void append_staged(std::byte* from, std::size_t bytes) {
    auto& pieces = segment_.pieces;
    if (!pieces.empty() && static_cast<std::byte*>(pieces.back().iov_base) + pieces.back().iov_len == from)
      pieces.back().iov_len += bytes;
    else
      pieces.push_back({from, bytes});
    staged_ += bytes;
    reserved_ = 0;
    segment_.data_bytes += bytes;
  }

  /// Fills the page that the staged chunks end in, so that the next piece starts at a page.
  void pad_to_page() {
    const auto padded = align_up(segment_.data_bytes, page_bytes);
    const auto gap = padded - segment_.data_bytes;
    if (gap == 0) return;
    auto* from = room().data();
    std::memset(from, 0, gap);
    append_staged(from, gap);
  }

  void gather(const ChunkHead& head, Bytes data, std::shared_ptr<const void> owner) {
    if (direct_) pad_to_page();
    add_record(head, data, head.crc.value_or(0));
    if (!head.crc) segment_.unsummed.push_back({segment_.records.size() - 1, data.data()});
    const auto padded = align_up(data.size(), direct_ ? page_bytes : format::chunk_alignment_bytes);
    auto* base = const_cast<std::byte*>(data.data());
    segment_.pieces.push_back({base, direct_ ? padded : data.size()});
    if (!direct_ && padded > data.size())
      segment_.pieces.push_back({const_cast<std::byte*>(zeros), padded - data.size()});
    segment_.data_bytes += padded;
    segment_.owners.push_back(std::move(owner));
  }

  Result<void> seal() {
    if (direct_) pad_to_page();
    segment_.writer = number_;
    auto full = std::exchange(segment_, {});
    staged_ = reserved_ = 0;
    return shared_->pipeline->push(std::move(full));
  }

  const std::shared_ptr<WriterShared> shared_;
  const std::uint32_t number_;
  const bool direct_;
  FilledSegment segment_;
  std::size_t staged_ = 0;    ///< bytes of the staging buffer that chunks occupy
  std::size_t reserved_ = 0;  ///< bytes behind them that the caller may fill and commit
};

}  // namespace

WriterShared::WriterShared(const StoreOptions& options_of_store, const FileLayout& layout, const Share& share)
    : options(options_of_store),
      staging(options.buffers ? *options.buffers : BufferPool(options.buffer_bytes, options.huge_pages)),
      writers(share.rank << 16) {
  for (const auto& node : layout.chunked) {
    const auto bytes = node.raw_bytes();
    datasets.push_back({node.path, bytes, node.filters.size()});
    datasets.back().frames_a_chunk = node.frames_a_chunk();
    if (node.places.placement == Placement::log) continue;
    one_chunk_a_segment = true;
    datasets.back().chunk_bytes_max = std::max(node.chunk_bytes_max, bytes);
    datasets.back().chunks_max = node.frames_max;
  }
}

std::unique_ptr<ChunkWriter> make_chunk_writer(std::shared_ptr<WriterShared> shared) {
  return std::make_unique<SegmentWriter>(std::move(shared));
}

}  // namespace penstock::store
