#include "store/recovery/scan.hpp"

#include <algorithm>
#include <utility>

#include "store/recovery/journal_place.hpp"

namespace penstock::store {
namespace {

constexpr std::size_t read_min_bytes = page_bytes;
constexpr std::size_t read_max_bytes = std::size_t{1} << 20;
constexpr std::size_t damaged_kept_max = 1000;
/// Of segments that are asked for before the walk comes to them, and of the header region of each.
constexpr std::uint64_t asked_segments_max = 16;
constexpr std::uint64_t asked_bytes_max = std::uint64_t{1} << 20;

Result<std::vector<std::byte>> read_region(File& file, const format::SegmentHeader& header) {
  // Before any memory is taken: the header may announce a region of 256 MiB in a tiny file.
  PEN_ASSIGN(const auto file_bytes, file.size());
  if (header.address > file_bytes || header.header_bytes > file_bytes - header.address)
    return make_error(Errc::truncated, "segment at {}: the file of {} bytes ends within its header of {} bytes",
                      header.address, file_bytes, header.header_bytes);
  std::vector<std::byte> region(header.header_bytes);
  PEN_ASSIGN(const auto count, file.read_at(region, header.address));
  if (count != region.size())
    return make_error(Errc::truncated, "segment at {}: the file became shorter", header.address);
  return region;
}

}  // namespace

SegmentScanner::SegmentScanner(File& file, ScanOptions options, std::uint64_t end, std::uint64_t file_bytes)
    : file_(&file),
      options_(std::move(options)),
      end_(end),
      file_bytes_(file_bytes),
      position_(align_up(options_.begin, format::walk_step_bytes)),
      read_size_(read_min_bytes) {}

Result<SegmentScanner> SegmentScanner::create(File& file, ScanOptions options) {
  PEN_ASSIGN(const auto size, file.size());
  // Addresses are added to below; no real file comes near this.
  if (size > std::uint64_t{1} << 62) return make_error(Errc::too_large, "a file of {} bytes", size);
  const auto end = std::min(size, options.end);
  options.begin = std::min(options.begin, end);
  return SegmentScanner(file, std::move(options), end, size);
}

/// The bytes at the position, from the window or read anew; fewer than a header's only at the end. The position
/// moves on where nothing was ever written: between slots there may be far more of that than of anything else.
Result<Bytes> SegmentScanner::header_bytes() {
  const bool inside = position_ >= window_at_ && position_ + format::header_size_bytes <= window_at_ + window_size_;
  if (!inside) {
    const auto data = file_->next_data(position_) / format::walk_step_bytes * format::walk_step_bytes;
    position_ = std::max(position_, std::min(data, align_up(end_, format::walk_step_bytes)));
    const bool walks_on = window_size_ > 0 && position_ == window_at_ + window_size_;
    read_size_ = walks_on ? std::min(read_size_ * 2, read_max_bytes) : read_min_bytes;
    window_.resize(std::max(window_.size(), read_size_));
    PEN_ASSIGN(window_size_, file_->read_at(MutableBytes(window_).first(read_size_), position_));
    window_at_ = position_;
  }
  const auto from = static_cast<std::size_t>(position_ - window_at_);
  return Bytes(window_).first(window_size_).subspan(std::min(from, window_size_));
}

/// A segment is mostly followed by another of the same length. The walk needs one header to find the next, so it would
/// wait for the storage as often as there are segments.
void SegmentScanner::ask_ahead(const format::SegmentHeader& last) {
  const auto stride = last.segment_bytes;
  const bool again = std::exchange(stride_, stride) == stride;
  const bool in_step = asked_until_ > position_ && (asked_until_ - position_) % stride == 0;
  if (!again || !in_step) asked_until_ = position_ + stride;  // the one at the position is read at once
  if (!again) return;
  const auto until = std::min(end_, position_ + asked_segments_max * stride);
  for (; asked_until_ < until; asked_until_ += stride)
    file_->will_read(asked_until_, std::min<std::uint64_t>(last.header_bytes, asked_bytes_max));
}

Result<std::optional<format::SegmentHeader>> SegmentScanner::next() {
  while (position_ < end_) {
    if (options_.cancelled && options_.cancelled()) break;
    PEN_ASSIGN(const auto bytes, header_bytes());
    const auto address = position_;
    position_ += format::walk_step_bytes;
    if (is_journal_page(address)) continue;  // one that was being written is no damage
    if (!format::starts_segment(bytes)) continue;
    const auto header = format::decode_header(bytes.first(std::min(bytes.size(), format::header_size_bytes)), address);
    if (!header.ok()) {
      ++damaged_count_;
      if (damaged_.size() < damaged_kept_max) damaged_.push_back({address, header.error().message()});
      continue;
    }
    if (!options_.file_id) options_.file_id = header->file_id;
    if (header->file_id != *options_.file_id) {
      ++foreign_count_;
      if (header->kind == format::SegmentKind::description && !described_elsewhere_)
        described_elsewhere_ = header->file_id;
      continue;
    }
    // The file was cut off within it: what lies there may be of later.
    const bool whole = header->segment_bytes <= file_bytes_ - std::min(file_bytes_, address);
    position_ = address + (whole ? header->segment_bytes : header->header_bytes);
    ask_ahead(*header);
    return std::optional(*header);
  }
  return std::optional<format::SegmentHeader>();
}

Result<std::vector<format::ChunkRecord>> read_records(File& file, const format::SegmentHeader& header) {
  PEN_ASSIGN(const auto region, read_region(file, header));
  PEN_ASSIGN(auto records, format::decode_records(header, region));
  std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  for (std::size_t i = 1; i < records.size(); ++i) {
    const auto& before = records[i - 1];
    if (std::uint64_t{before.offset} + before.size > records[i].offset)
      return make_error(Errc::corrupt, "segment at {}: chunk {} of dataset {} at offset {} overlaps chunk {} before it",
                        header.address, records[i].chunk_index, records[i].dataset, records[i].offset,
                        before.chunk_index);
  }
  return records;
}

Result<std::vector<std::byte>> read_rows(File& file, const format::SegmentHeader& header) {
  if (header.row_bytes == 0) return std::vector<std::byte>();
  PEN_ASSIGN(const auto region, read_region(file, header));
  PEN_ASSIGN(const auto rows, format::decode_rows(header, region));
  return std::vector<std::byte>(rows.begin(), rows.end());
}

Result<std::vector<format::Stretch>> read_stretches(File& file, const format::SegmentHeader& header) {
  PEN_ASSIGN(const auto region, read_region(file, header));
  return format::decode_stretches(header, region);
}

Result<std::string> read_description(File& file, const format::SegmentHeader& header) {
  PEN_ASSIGN(const auto region, read_region(file, header));
  PEN_ASSIGN(const auto text, format::decode_description(header, region));
  return std::string(text);
}

}  // namespace penstock::store
