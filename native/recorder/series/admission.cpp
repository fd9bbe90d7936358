#include "recorder/series/admission.hpp"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/crc32c.hpp"
#include "base/time/clock.hpp"

namespace penstock::recorder {
namespace {

/// An open-ended series may leave this many numbers out; more is taken for a wrong number.
constexpr std::uint64_t gap_frames_max = 1'000'000;
/// A damaged frame counts this far beyond the last one of a series with an open end.
constexpr std::uint64_t damage_reach = 1024;
/// A payload up to here has just come through the cache, where a checksum costs little.
constexpr std::size_t cached_bytes_max = 4 << 20;

/// What such numbers take in memory is bounded.
Error far_from_others(FrameNumber number) {
  return make_error(
      Errc::too_large,
      "image_id is {}, which is more than {} away from all others, too often: count frames up from 0, or skip fewer",
      value(number), FrameEntries::block_frames);
}

}  // namespace

Result<void> Admission::check(const Frame& frame) const {
  const auto& series = spec_.series();
  const auto number = value(frame.number);
  if (series.frames > 0 && number >= series.frames)
    return make_error(Errc::malformed, "image_id is {}; the series has {} frames", number, series.frames);
  if (number >= spec_.frames_max())
    return make_error(Errc::too_large, "image_id: {} exceeds the maximum of {} frames", number, spec_.frames_max());
  if (series.frames == 0 && number > account_.ledger.end() + gap_frames_max)
    return make_error(Errc::malformed,
                      "image_id is {}; the highest so far is below {}, and at most {} frames may be skipped", number,
                      account_.ledger.end(), gap_frames_max);
  if (frame.channel >= series.channels.size())
    return make_error(Errc::malformed, "channel is {}; the series has {}", frame.channel, series.channels.size());
  PEN_TRY(check_element(frame));
  if (!(frame.spec == series.frame))
    return make_error(Errc::mismatch, "image {} has shape [{}] of {}; the series has [{}] of {}", number,
                      fmt::join(frame.spec.shape, ", "), name(frame.spec.type), fmt::join(series.frame.shape, ", "),
                      name(series.frame.type));
  const auto sent_bytes = frame.form.sent_bytes(spec_.part_bytes());
  if (frame.encoding == Encoding::none && frame.payload.size() != sent_bytes)
    return make_error(Errc::mismatch, "image {} has {} bytes; its shape and type need {}", number, frame.payload.size(),
                      sent_bytes);
  return {};
}

Result<void> Admission::check_element(const Frame& frame) const {
  if (spec_.has_elements() && !frame.element)
    return make_error(Errc::malformed,
                      "image {} belongs to no element: its stream sent no start message that names one",
                      value(frame.number));
  if (frame.element.value_or(0) >= spec_.elements())
    return make_error(Errc::malformed, "image {} belongs to element {}; the series has {} elements",
                      value(frame.number), *frame.element, spec_.elements());
  return {};
}

/// Returns the payload's checksum, where it is known. What comes encoded has to claim the right size.
Result<std::optional<std::uint32_t>> Admission::check_payload(const Frame& frame) {
  auto crc = frame.payload_crc;
  if (frame.encoding == Encoding::none) return crc;
  // First the pass over all bytes, which the processor foresees, then the walk from block to block.
  if (!crc && frame.payload.size() <= cached_bytes_max) crc = crc32c(frame.payload);
  auto framing = check_framing(frame.encoding, frame.payload, frame.form.element_bytes(frame.spec.type),
                               frame.form.sent_bytes(spec_.part_bytes()));
  if (framing.ok()) return crc;
  account_.ledger.damaged(frame.number, spec_.part_of(frame));
  return std::move(framing).error().with_context(fmt::format("image {}", value(frame.number)));
}

Result<std::optional<Task>> Admission::admit(Frame frame, ValuesRoom room) {
  const auto number = frame.number;
  if (!account_.in_flight.begin_task()) {
    if (has(frame)) return std::optional<Task>();
    return make_error(Errc::out_of_order, "image {} arrived after the series was closed", value(number));
  }
  auto task = admit_now(std::move(frame), std::move(room));
  if (!task.ok() || !*task) account_.in_flight.end_task();
  return task;
}

bool Admission::has(const Frame& frame) const {
  return frame.channel < spec_.series().channels.size() && frame.element.value_or(0) < spec_.elements() &&
         account_.ledger.has({frame.number, spec_.part_of(frame)});
}

Result<std::optional<Task>> Admission::admit_now(Frame frame, ValuesRoom room) {
  auto& ledger = account_.ledger;
  auto& counters = account_.counters;
  const auto& [opener, tree, assembler, settlement, watch] = parts_;
  if (watch.is_removed())
    return make_error(Errc::not_found, "image {}: {}", value(frame.number), account_.failures.first());
  if (!can_be(frame.number)) learn_end();
  if (auto checked = check(frame); !checked.ok()) {
    if (checked.error().code() == Errc::mismatch) damage(frame.number, frame.element);
    return std::move(checked).error();
  }
  PEN_ASSIGN(const auto crc, check_payload(frame));
  tree.complete(frame);
  if (!opener.is_fitted()) {
    tree.note_series_date(frame.series_date);
    // A frame that is expanded before it is stored does not decide how the file is encoded.
    auto fitted = opener.fit(frame.form.plain() ? frame.encoding : Encoding::none, meta_columns(frame.metadata));
    if (!fitted.ok() && may_pass(fitted.error().code())) return lose(frame, fitted.error().code());
    PEN_TRY(fitted);
  }
  const auto part = spec_.part_of(frame);
  const auto admission = ledger.receive(frame.number, part, frame.session, frame.more);
  if (admission == Ledger::Admission::no_room) return far_from_others(frame.number);
  if (admission == Ledger::Admission::duplicate) {
    settlement.notify_sessions();
    return assembler.due_for(frame.session, frame.waited);
  }
  const auto location = location_of(frame);
  if (!location.ok()) {
    ledger.give_up({frame.number, part}, FrameState::damaged);
    settlement.notify_sessions();
    return location.error();
  }
  Blocks::Joined joined;
  if (assembler) {
    PEN_ASSIGN(joined, assembler.join(frame));
  }
  counters.raw_bytes += spec_.part_bytes();
  counters.meter.raw_bytes += spec_.part_bytes();
  ++counters.meter.frames_received;
  counters.last_activity_ns = monotonic_ns();
  counters.note_received(frame.received_ns);
  shorten_text(frame.metadata);
  const auto slot = settlement.put({.number = value(frame.number),
                                    .part = part,
                                    .exposure_start_ns = frame.exposure_start_ns,
                                    .exposure_stop_ns = frame.exposure_stop_ns,
                                    .exposure_real_ns = frame.exposure_real_ns,
                                    .received_ns = frame.received_ns,
                                    .admitted_ns = monotonic_ns(),
                                    .place = static_cast<std::int64_t>(*location),
                                    .metadata = std::move(frame.metadata),
                                    .room = std::move(room)});
  account_.in_flight.admitted();
  return std::optional<Task>(
      Task{std::move(frame), slot, *location, crc, std::move(joined.block), std::move(joined.due)});
}

/// Where the frame lies in its dataset, which no other frame may claim.
Result<std::uint64_t> Admission::location_of(const Frame& frame) {
  PEN_ASSIGN(const auto location, spec_.scan().place_of(frame));
  if (location >= spec_.frames_max())
    return make_error(Errc::too_large, "image {} belongs to point {}, which exceeds the maximum of {}",
                      value(frame.number), location, spec_.frames_max());
  if (spec_.scan().order == ScanConfig::Order::given) PEN_TRY(places_.claim(location, frame.number));
  return location;
}

bool Admission::can_be(FrameNumber number) const {
  const auto announced = spec_.series().frames;
  return value(number) < (announced > 0 ? announced : account_.ledger.end() + gap_frames_max);
}

/// A number that seems far ahead may not be: the frames between went to other ranks.
void Admission::learn_end() { account_.ledger.raise_end(role_.end_elsewhere(spec_.series().unique_id)); }

/// There is no file that could take it; it may come again.
std::optional<Task> Admission::lose(const Frame& frame, Errc why) {
  const Ledger::Item item{frame.number, spec_.part_of(frame)};
  if (account_.ledger.receive(frame.number, item.part, frame.session, frame.more) == Ledger::Admission::take)
    account_.ledger.lost(std::span(&item, 1));
  const auto now_ns = monotonic_ns();
  parts_.watch.note_lost(now_ns, why);
  account_.counters.last_activity_ns = now_ns;
  return std::nullopt;
}

void Admission::drop(FrameNumber number) {
  if (can_be(number)) account_.ledger.dropped(number);
}

void Admission::damage(FrameNumber number, std::optional<std::uint32_t> element) {
  // A number far off, which nothing confirms, does not lengthen a series.
  const auto announced = spec_.series().frames;
  const auto end = announced > 0 ? announced : account_.ledger.end() + damage_reach;
  if (value(number) >= end) return;
  account_.ledger.damaged(
      number, element && *element < spec_.elements() ? std::optional(spec_.part_of(0, *element)) : std::nullopt);
}

}  // namespace penstock::recorder
