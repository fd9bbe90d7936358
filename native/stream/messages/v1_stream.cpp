#include "stream/messages/v1_stream.hpp"

#include <fmt/chrono.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "base/time/clock.hpp"

namespace penstock::stream {
namespace {

using namespace std::chrono_literals;

/// A message's parts, counted against the pool as long as a frame points into one.
struct HeldParts {
  std::shared_ptr<const void> reservation;  // given back after the parts are freed
  std::vector<ZmqMessage> parts;
};

std::string unique_id_of(std::uint64_t number) {
  const auto now = realtime_ns();
  const auto second = static_cast<std::time_t>(now / 1'000'000'000);
  return fmt::format("series-{}-{:%Y%m%d-%H%M%S}-{:06}", number, fmt::gmtime(second), now % 1'000'000'000 / 1000);
}

/// Masks and flat fields that do not fit the images say nothing about them.
void drop_misfits(Series& series, FrameSink& sink, std::string_view address) {
  const auto misfit = [&](const NamedArray& array, std::string_view field) {
    if (array.spec.shape == series.frame.shape) return false;
    sink.note(address, make_error(Errc::mismatch, "{}: shape [{}], but the images have [{}] (rows first)", field,
                                  fmt::join(array.spec.shape, ", "), fmt::join(series.frame.shape, ", ")));
    return true;
  };
  std::erase_if(series.pixel_mask, [&](const auto& array) { return misfit(array, "pixelmask"); });
  std::erase_if(series.flatfield, [&](const auto& array) { return misfit(array, "flatfield"); });
}

}  // namespace

void V1Stream::take(std::vector<ZmqMessage> parts, FrameSink& sink, std::string_view address) {
  address_ = address;
  std::vector<Bytes> views;
  views.reserve(parts.size());
  for (auto& part : parts) views.push_back(part.bytes());
  std::vector<std::size_t> counts;
  for (std::span<const Bytes> left = views; !left.empty(); left = left.subspan(counts.back()))
    counts.push_back(v1_message_parts(left));
  auto next = std::make_move_iterator(parts.begin());
  for (const auto count : counts) {
    take_one({next, next + static_cast<std::ptrdiff_t>(count)}, sink);
    next += static_cast<std::ptrdiff_t>(count);
  }
}

void V1Stream::take_one(std::vector<ZmqMessage> parts, FrameSink& sink) {
  std::vector<Bytes> views;
  views.reserve(parts.size());
  for (auto& part : parts) views.push_back(part.bytes());
  const auto named = name_of_v1_image(views);
  if (auto delivered = deliver(parts, views, sink); !delivered.ok()) {
    if (named && current_ && current_->number == named->first) note_damage(named->second, sink);
    sink.reject(address_, delivered.error());
  }
}

/// The sink can be notified only once it knows the series, which may be with a later image.
void V1Stream::note_damage(std::uint64_t number, FrameSink& sink) {
  constexpr std::size_t kept_max = 4096;
  if (!current_->waiting)
    sink.damage(current_->unique_id, FrameNumber{number}, {});
  else if (current_->damaged.size() < kept_max)
    current_->damaged.push_back(number);
}

Result<void> V1Stream::deliver(std::vector<ZmqMessage>& parts, std::span<const Bytes> views, FrameSink& sink) {
  auto message = parse_v1(views, limits_);
  if (!message.ok()) return std::move(message).error();
  if (auto* image = std::get_if<V1Image>(&*message)) {
    const auto pixels = views[image->pixel_part];
    return take_image(std::move(*image), parts, pixels, sink);
  }
  if (auto* header = std::get_if<V1Header>(&*message)) return take_header(std::move(*header), sink);
  return take_end(std::get<V1End>(*message), sink);
}

Result<void> V1Stream::take_header(V1Header header, FrameSink& sink) {
  for (const auto& remark : header.remarks) sink.note(address_, remark);
  if (current_ && current_->waiting)
    sink.reject(address_,
                make_error(Errc::out_of_order, "series {} started, but none of its images arrived before series {}",
                           current_->number, header.series.id));
  auto& series = header.series;
  series.unique_id = unique_id_of(series.id);
  series.source = source_;
  current_ = Current{series.id, series.unique_id, std::nullopt, false};
  current_->waiting = std::move(series);
  ended_.reset();
  return {};
}

Result<void> V1Stream::begin(Series series, FrameSink& sink) {
  drop_misfits(series, sink, address_);
  current_->waiting.reset();
  auto begun = sink.begin(std::move(series), nullptr);
  current_->refused = !begun.ok();
  if (begun.ok())
    for (const auto number : std::exchange(current_->damaged, {}))
      sink.damage(current_->unique_id, FrameNumber{number}, {});
  return begun;
}

/// Makes the image's series the current one, and begins it with its first image.
Result<void> V1Stream::begin_for(const V1Image& image, FrameSink& sink) {
  if (current_ && current_->number != image.series)
    return make_error(Errc::out_of_order, "image {} belongs to series {}, but the last header was that of series {}",
                      image.frame, image.series, current_->number);
  if (!current_) {
    if (ended_ == image.series)
      return make_error(Errc::out_of_order, "image {} belongs to series {}, which has ended", image.frame,
                        image.series);
    sink.note(
        address_,
        make_error(
            Errc::out_of_order,
            "image {} belongs to series {}, whose header did not arrive: the series is recorded without its metadata",
            image.frame, image.series));
    Series series;
    series.id = image.series;
    series.unique_id = unique_id_of(series.id);
    series.source = source_;
    series.channels = {"threshold_1"};
    current_ = Current{series.id, series.unique_id, std::nullopt, false};
    current_->waiting = std::move(series);
  }
  if (!current_->waiting) return {};
  auto series = std::move(*current_->waiting);
  series.frame = image.spec;
  return begin(std::move(series), sink);
}

/// Sees to the memory of an image's pixels. False where there is no room and the frame is dropped.
Result<bool> V1Stream::hold(const V1Image& image, std::vector<ZmqMessage>& parts, Bytes pixels, FrameSink& sink,
                            Frame& frame) {
  const bool waits = sink.holds_back();
  const auto drop = [&] { sink.drop(current_->unique_id, FrameNumber{image.frame}); };
  const auto wait_for = [&](auto acquire) -> Result<bool> {
    for (;;) {
      auto got = acquire(waits ? 100ms : 0ms);
      if (got.ok()) return true;
      const bool hopeless = got.error().code() != Errc::timed_out;
      if (!waits || hopeless) drop();
      if (hopeless || stopping_) return std::move(got).error();
      if (!waits) return false;
    }
  };
  if (!image.is_bare_block) {
    auto held = std::make_shared<HeldParts>();
    std::size_t bytes = 0;
    for (auto& part : parts) bytes += part.bytes().size();
    PEN_ASSIGN(const bool there, wait_for([&](auto wait) -> Result<void> {
                 PEN_ASSIGN(held->reservation, sink.pool().reserve(bytes, wait));
                 return {};
               }));
    if (!there) return false;
    held->parts = std::move(parts);
    // A small message lies within its handle, which has moved.
    frame.payload = held->parts[image.pixel_part].bytes();
    frame.owner = std::move(held);
    return true;
  }
  // HDF5's filter wants a framing in front of the block, and there is no room in front of a part.
  BufferRef buffer;
  PEN_ASSIGN(const bool there, wait_for([&](auto wait) -> Result<void> {
               PEN_ASSIGN(buffer, sink.pool().acquire(lz4_framing_bytes + pixels.size(), wait));
               return {};
             }));
  if (!there) return false;
  PEN_ASSIGN(const auto raw_bytes, image.spec.bytes(limits_.frame_bytes_max));
  write_lz4_framing(raw_bytes, pixels.size(), buffer->bytes());
  std::memcpy(buffer->bytes().data() + lz4_framing_bytes, pixels.data(), pixels.size());
  frame.payload = buffer->bytes();
  frame.capacity = buffer->capacity();
  frame.owner = std::move(buffer);
  return true;
}

Result<void> V1Stream::take_image(V1Image image, std::vector<ZmqMessage>& parts, Bytes pixels, FrameSink& sink) {
  for (const auto& remark : image.remarks)
    sink.note(address_, remark.with_context(fmt::format("image {} of series {}", image.frame, image.series)));
  PEN_TRY(begin_for(image, sink));
  if (current_->refused)
    return make_error(Errc::refused, "image {} belongs to series {}, which is not recorded", image.frame, image.series);
  Frame frame;
  PEN_ASSIGN(const bool held, hold(image, parts, pixels, sink, frame));
  if (!held) return {};
  frame.series_unique_id = current_->unique_id;
  frame.number = FrameNumber{image.frame};
  frame.spec = std::move(image.spec);
  frame.encoding = image.encoding;
  frame.form = image.form;
  frame.exposure_start_ns = image.start_ns;
  frame.exposure_stop_ns = image.stop_ns;
  frame.exposure_real_ns = image.real_ns;
  frame.received_ns = realtime_ns();
  frame.metadata = std::move(image.metadata);
  // The sink has noted what became of the frame, so that nobody need count it as damaged.
  if (auto taken = sink.put(std::move(frame)); !taken.ok()) sink.reject(address_, taken.error());
  return {};
}

Result<void> V1Stream::take_end(const V1End& end, FrameSink& sink) {
  if (!current_ || current_->number != end.series)
    return make_error(Errc::out_of_order, "series {} ends but did not start", end.series);
  const auto ending = *std::exchange(current_, std::nullopt);
  ended_ = end.series;
  if (ending.refused) return {};
  if (ending.waiting) {
    if (ending.waiting->frame.shape.empty())
      return make_error(Errc::out_of_order,
                        "series {} ends without images, and its header has no shape: no file is created", end.series);
    auto series = *ending.waiting;
    drop_misfits(series, sink, address_);
    PEN_TRY(sink.begin(std::move(series), nullptr));
    for (const auto number : ending.damaged) sink.damage(ending.unique_id, FrameNumber{number}, {});
  }
  return sink.end({end.series, ending.unique_id, true, std::nullopt, source_});
}

}  // namespace penstock::stream
