#include "recorder/service/line.hpp"

#include <algorithm>
#include <utility>

#include "recorder/tree/metadata.hpp"

namespace penstock::recorder {
namespace {

std::uint64_t table_bytes_of(const Series& series) {
  std::uint64_t bytes = 0;
  for (const auto* arrays : {&series.pixel_mask, &series.flatfield})
    for (const auto& array : *arrays) bytes += array.data.size();
  if (series.countrate_correction_table) bytes += series.countrate_correction_table->data.size();
  return bytes;
}

}  // namespace

Session Kept::session() const {
  if (const auto* frame = std::get_if<Frame>(&event)) return frame->session;
  const auto* session = std::get_if<Session>(&event);
  return session == nullptr ? nullptr : *session;
}

void Line::push(Kept kept) {
  if (const auto* end = std::get_if<SeriesEnd>(&kept.event)) {
    const auto is_the_same = [&](const Kept& other) { return std::get<SeriesEnd>(other.event) == *end; };
    if (std::none_of(ends_.begin(), ends_.end(), is_the_same)) ends_.push_back(std::move(kept));
    return;
  }
  if (const auto session = kept.session()) ++session->waiting;
  if (const auto* frame = std::get_if<Frame>(&kept.event))
    frames_.emplace(value(frame->number), std::move(kept));
  else if (const auto* lost = std::get_if<Lost>(&kept.event))
    frames_.emplace(value(lost->number), std::move(kept));
  else
    starts_.push_back(std::move(kept));
}

std::optional<Kept> Line::next() {
  if (starts_.empty() && !frames_.empty()) return std::move(frames_.extract(frames_.begin()).mapped());
  auto& first = starts_.empty() ? ends_ : starts_;
  if (first.empty()) return std::nullopt;
  auto next = std::move(first.front());
  first.pop_front();
  return next;
}

void Line::done(const Session& session) {
  if (session != nullptr) --session->waiting;
}

std::uint64_t bytes_of(const Series& series) {
  auto bytes = frame_overhead_bytes + series.user_data_cbor.size() + table_bytes_of(series);
  for (const auto& [name, item] : series.unknown) bytes += item.size();
  return bytes;
}

std::uint64_t bytes_of(const Frame& frame) {
  return frame.payload.size() + memory_bytes(frame.metadata) + frame_overhead_bytes;
}

std::uint64_t strip_tables(Series& series) {
  const auto bytes = table_bytes_of(series);
  series.pixel_mask.clear();
  series.flatfield.clear();
  series.countrate_correction_table.reset();
  return bytes;
}

std::uint64_t bare_bytes_of(const Series& series) {
  const auto tables = table_bytes_of(series);
  return tables == 0 ? 0 : bytes_of(series) - tables;
}

}  // namespace penstock::recorder
