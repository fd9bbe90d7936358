#include "store/recovery/value_runs.hpp"

#include <algorithm>
#include <tuple>

namespace penstock::store {
namespace {

constexpr std::size_t batch_bytes = 16 << 20;
constexpr std::size_t batch_values = 256 << 10;
constexpr std::size_t run_bytes_max = 8 << 20;

}  // namespace

void ValueRuns::add(std::uint64_t frame, std::uint16_t column, Bytes value) {
  values_.push_back({frame, bytes_.size(), column, static_cast<std::uint16_t>(value.size())});
  bytes_.insert(bytes_.end(), value.begin(), value.end());
}

bool ValueRuns::is_full() const { return bytes_.size() >= batch_bytes || values_.size() >= batch_values; }

Result<void> ValueRuns::write(const RowBytes& row_bytes, const Put& put) {
  std::stable_sort(values_.begin(), values_.end(), [](const Value& a, const Value& b) {
    return std::tie(a.column, a.frame) < std::tie(b.column, b.frame);
  });
  for (std::size_t first = 0; first < values_.size();) {
    const auto& [frame, at, column, bytes] = values_[first];
    const auto next = gather_run(first, row_bytes(column));
    PEN_TRY(put(column, frame, run_));
    first = next;
  }
  values_.clear();
  bytes_.clear();
  return {};
}

/// From `first` on the values of consecutive frames in one column. Returns the position behind them.
std::size_t ValueRuns::gather_run(std::size_t first, std::size_t row_bytes) {
  const auto column = values_[first].column;
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
  return at;
}

}  // namespace penstock::store
