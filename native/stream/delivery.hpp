/// From parsed messages to the sink's frames; shared by the sources.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frame/sink.hpp"
#include "stream/messages/message.hpp"

namespace penstock::stream {

/// The frames of an image message: one for each channel that the series declared.
struct Delivery {
  std::vector<Frame> frames;
  /// Names channels that the series did not declare: they are left out.
  std::optional<Error> remark = {};
};
/// Received now; `owner` keeps the payloads alive. `channels` are those of the series, null where it is not known: the
/// sink knows best what to say to a frame before its start. An error if no channel is one of them. `readable` is memory
/// of the owner's that a payload may lie in: what lies behind a payload there may be read.
Result<Delivery> frames_of(ImageMessage image, const std::vector<std::string>* channels,
                           const std::shared_ptr<const void>& owner, Bytes readable = {});

/// Reports a lost image to the sink if the message has its number. `element_of` returns of which
/// element of the detector the frames of a series are here.
enum class Fate { damaged, dropped };
using ElementOf = std::function<std::optional<std::uint32_t>(const std::string& series_unique_id)>;
void tell_lost(const std::string& series_unique_id, FrameNumber number, Fate fate, FrameSink& sink,
               std::optional<std::uint32_t> element);
void account(Bytes message, Fate fate, const MessageLimits& limits, FrameSink& sink, const ElementOf& element_of = {});

}  // namespace penstock::stream
