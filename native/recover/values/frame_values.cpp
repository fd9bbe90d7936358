#include "recover/values/frame_values.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "store/format/rows.hpp"
#include "store/recovery/complete_chunk.hpp"
#include "store/recovery/scan.hpp"
#include "store/recovery/value_runs.hpp"

namespace penstock::recover {
namespace {

using store::format::RowReader;
using store::format::SegmentHeader;

/// Values of several segments, gathered so that a column gets long runs of rows.
class Batch {
 public:
  Batch(store::hdf5::IndexFile& index, const std::vector<store::ColumnNode>& columns,
        const std::vector<std::uint64_t>& present)
      : index_(index), columns_(columns), present_(present), last_frames_(columns.size()) {}

  /// Values of later calls count before those of earlier ones. An error is about the rows.
  Result<void> add(Bytes rows) {
    RowReader reader(rows);
    std::optional<std::uint64_t> last;
    bool is_wanted = false;
    while (true) {
      PEN_ASSIGN(const auto value, reader.next());
      if (!value) return {};
      if (value->frame != last) is_wanted = is_present(value->frame);
      last = value->frame;
      if (!is_wanted || !written_.ok()) continue;
      has_late_ = has_late_ || value->column == store::format::late_column;
      // A description that was made anew, or by a version of before, does not say which columns the numbers mean.
      if (value->column >= columns_.size() || !columns_[value->column].in_segments) continue;
      const auto& column = columns_[value->column];
      if (value->bytes.size() > column.row_bytes())
        return make_error(Errc::malformed, "a value for {} has {} bytes; its rows have {}", column.path,
                          value->bytes.size(), column.row_bytes());
      runs_.add(value->frame, value->column, value->bytes);
      if (runs_.is_full() && written_.ok()) written_ = write();
    }
  }

  const LastFrames& last_frames() const { return last_frames_; }

  /// Some of the values belong to columns that the description does not have.
  bool has_late() const { return has_late_; }

  /// An error is about the file that the values go into.
  Result<void> finish() {
    PEN_TRY(written_);
    return write();
  }

 private:
  Result<void> write() {
    return runs_.write([this](std::uint16_t column) { return columns_[column].row_bytes(); },
                       [this](std::uint16_t column, std::uint64_t first, Bytes rows) {
                         const auto end = first + rows.size() / columns_[column].row_bytes();
                         last_frames_[column] = std::max(last_frames_[column], std::optional(end - 1));
                         return index_.put_rows(store::ColumnId{column}, {first}, rows);
                       });
  }

  bool is_present(std::uint64_t frame) const { return std::binary_search(present_.begin(), present_.end(), frame); }

  store::hdf5::IndexFile& index_;
  const std::vector<store::ColumnNode>& columns_;
  const std::vector<std::uint64_t>& present_;
  LastFrames last_frames_;
  store::ValueRuns runs_;
  Result<void> written_;
  bool has_late_ = false;
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

}  // namespace

Result<WrittenValues> write_values(Env& env, std::vector<ValuesSource>& sources, store::hdf5::IndexFile& index,
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
      if (added.ok()) continue;
      const auto header = read_header(*file, segment.address);
      if (header.ok() && store::has_complete_chunk(*file, *header))
        findings.add({check::Level::error,
                      "a segment's values of frames are corrupt",
                      fmt::format("offset {}", segment.address),
                      {},
                      added.error().message(),
                      "values that its frames brought along may be missing; the frames are not affected"});
    }
  }
  PEN_TRY(batch.finish());
  return WrittenValues{batch.last_frames(), batch.has_late()};
}

Result<void> write_late_values(Env& env, const std::vector<ValuesSource>& sources,
                               const std::vector<std::uint64_t>& present, check::Findings& findings,
                               store::LateColumnSink& out) {
  std::vector<store::LateSource> late;
  late.reserve(sources.size());
  for (const auto& source : sources)
    late.push_back({source.path, [&env, path = source.path] { return env.open(path, {}); }, source.segments});
  const auto problem = [&](const std::string& path, const std::string& why) {
    findings.add({check::Level::warning,
                  "values of frames are not stored",
                  path,
                  {},
                  why,
                  "they are those that begin with a later frame; the frames are not affected"});
  };
  const auto copied = store::copy_late_values(
      late, [&](std::uint64_t frame) { return std::binary_search(present.begin(), present.end(), frame); }, problem,
      out);
  return copied.ok() ? Result<void>{} : Result<void>(copied.error());  // write_values() names what is damaged
}

}  // namespace penstock::recover
