#include "recover/values/frame_values.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "recover/proof.hpp"
#include "store/format/rows.hpp"
#include "store/recovery/scan.hpp"

namespace penstock::recover {
namespace {

using store::format::RowReader;
using store::format::SegmentHeader;

constexpr std::size_t batch_bytes = 16 << 20;
constexpr std::size_t batch_values = 256 << 10;
constexpr std::size_t run_bytes_max = 8 << 20;

/// Values of several segments, gathered so that a column gets long runs of rows.
class Batch {
 public:
  Batch(store::hdf5::IndexFile& index, const std::vector<store::ColumnNode>& columns,
        const std::vector<std::uint64_t>& present)
      : index_(index), columns_(columns), present_(present), last_frames_(columns.size()) {}

  /// Values of later calls count before those of earlier ones.
  Result<void> add(Bytes rows) {
    RowReader reader(rows);
    std::optional<std::uint64_t> last;
    bool is_wanted = false;
    while (true) {
      PEN_ASSIGN(const auto value, reader.next());
      if (!value) return {};
      if (value->frame != last) is_wanted = is_present(value->frame);
      last = value->frame;
      if (!is_wanted) continue;
      // A description that was made anew, or by a version of before, does not say which columns the numbers mean.
      if (value->column >= columns_.size() || !columns_[value->column].in_segments) continue;
      const auto& column = columns_[value->column];
      if (value->bytes.size() > column.row_bytes())
        return make_error(Errc::malformed, "a value for {} has {} bytes; its rows have {}", column.path,
                          value->bytes.size(), column.row_bytes());
      values_.push_back({value->frame, bytes_.size(), value->column, static_cast<std::uint16_t>(value->bytes.size())});
      bytes_.insert(bytes_.end(), value->bytes.begin(), value->bytes.end());
    }
  }

  const LastFrames& last_frames() const { return last_frames_; }

  bool is_full() const { return bytes_.size() >= batch_bytes || values_.size() >= batch_values; }

  Result<void> write() {
    std::stable_sort(values_.begin(), values_.end(), [](const Value& a, const Value& b) {
      return std::tie(a.column, a.frame) < std::tie(b.column, b.frame);
    });
    for (std::size_t first = 0; first < values_.size();) {
      PEN_ASSIGN(first, write_run(first));
    }
    values_.clear();
    bytes_.clear();
    return {};
  }

 private:
  struct Value {
    std::uint64_t frame;
    std::size_t at;  ///< in bytes_
    std::uint16_t column;
    std::uint16_t bytes;
  };

  bool is_present(std::uint64_t frame) const { return std::binary_search(present_.begin(), present_.end(), frame); }

  /// From `first` on the values of consecutive frames in one column. Returns the position behind them.
  Result<std::size_t> write_run(std::size_t first) {
    const auto column = values_[first].column;
    const auto row_bytes = columns_[column].row_bytes();
    run_.clear();
    auto next_frame = values_[first].frame;
    std::size_t at = first;
    for (; at < values_.size() && values_[at].column == column && run_.size() < run_bytes_max; ++at) {
      const auto& value = values_[at];
      const bool again = value.frame + 1 == next_frame && at > first;
      if (!again && value.frame != next_frame) break;
      if (again) run_.resize(run_.size() - row_bytes);
      run_.insert(run_.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(value.at),
                  bytes_.begin() + static_cast<std::ptrdiff_t>(value.at + value.bytes));
      run_.resize(run_.size() + row_bytes - value.bytes);
      next_frame = value.frame + 1;
    }
    PEN_TRY(index_.put_rows(store::ColumnId{column}, {values_[first].frame}, run_));
    last_frames_[column] = std::max(last_frames_[column], std::optional(next_frame - 1));
    return at;
  }

  store::hdf5::IndexFile& index_;
  const std::vector<store::ColumnNode>& columns_;
  const std::vector<std::uint64_t>& present_;
  LastFrames last_frames_;
  std::vector<Value> values_;
  std::vector<std::byte> bytes_;
  std::vector<std::byte> run_;
};

Result<SegmentHeader> read_header(File& file, std::uint64_t address) {
  std::array<std::byte, store::format::header_size_bytes> bytes{};
  PEN_ASSIGN(const auto count, file.read_at(bytes, address));
  return store::format::decode_header(Bytes(bytes).first(count), address);
}

Result<void> add_segment(File& file, std::uint64_t address, Batch& batch) {
  PEN_ASSIGN(const auto header, read_header(file, address));
  PEN_ASSIGN(const auto rows, store::read_rows(file, header));
  return batch.add(rows);
}

/// Without one the segment was being written when the recorder died, and none of its frames needs its values.
bool has_complete_chunk(File& file, std::uint64_t address) {
  const auto header = read_header(file, address);
  if (!header.ok()) return false;
  const auto records = store::read_records(file, *header);
  if (!records.ok()) return false;
  std::vector<Candidate> chunks;
  std::vector<std::size_t> all;
  for (const auto& record : *records) {
    all.push_back(chunks.size());
    chunks.push_back({.address = address + record.offset, .size = record.size, .crc = record.crc});
  }
  const auto proofs = prove(file, chunks, std::move(all), {.threads = 1, .cancelled = {}, .advance = [](auto) {}});
  return proofs.ok() && std::any_of(proofs->begin(), proofs->end(), [](auto proof) { return proof == Proof::whole; });
}

}  // namespace

Result<LastFrames> write_values(Env& env, std::vector<ValuesSource> sources, store::hdf5::IndexFile& index,
                                const std::vector<store::ColumnNode>& columns,
                                const std::vector<std::uint64_t>& present, check::Findings& findings) {
  Batch batch(index, columns, present);
  for (auto& source : sources) {
    if (source.segments.empty()) continue;
    std::sort(source.segments.begin(), source.segments.end(),
              [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
    PEN_ASSIGN(const auto file, env.open(source.path, {}));
    for (const auto& segment : source.segments) {
      const auto added = add_segment(*file, segment.address, batch);
      if (!added.ok() && has_complete_chunk(*file, segment.address))
        findings.add({check::Level::error,
                      "a segment's values of frames are corrupt",
                      fmt::format("offset {}", segment.address),
                      {},
                      added.error().message(),
                      "values that its frames brought along may be missing; the frames are not affected"});
      if (batch.is_full()) PEN_TRY(batch.write());
    }
  }
  PEN_TRY(batch.write());
  return batch.last_frames();
}

}  // namespace penstock::recover
