/// From parsed messages to the sink's frames; shared by the sources.
#pragma once

#include <memory>
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

/// Tells the sink of an image that is lost, if the message gets as far as to say which.
enum class Fate { damaged, dropped };
void account(Bytes message, Fate fate, const MessageLimits& limits, FrameSink& sink);

}  // namespace penstock::stream
