/// From parsed messages to the sink's frames; shared by the sources.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frame/sink.hpp"
#include "stream/message.hpp"

namespace penstock::stream {

/// A frame for each channel of the image, received now; `owner` keeps the payloads alive. `channels`
/// are those of the series, null where it is not known: the sink knows best what to say to a frame
/// before its start. `readable` is memory of the owner's that a payload may lie in: what lies behind
/// a payload there may be read.
Result<std::vector<Frame>> frames_of(ImageMessage image, const std::vector<std::string>* channels,
                                     const std::shared_ptr<const void>& owner, Bytes readable = {});

/// Tells the sink of an image that is lost, if the message gets as far as to say which. `element_of` tells of which
/// element of the detector the frames of a series are here.
enum class Fate { damaged, dropped };
using ElementOf = std::function<std::optional<std::uint32_t>(const std::string& series_unique_id)>;
void account(Bytes message, Fate fate, const MessageLimits& limits, FrameSink& sink, const ElementOf& element_of = {});

}  // namespace penstock::stream
