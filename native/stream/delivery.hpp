/// From parsed messages to the sink's frames; shared by the sources.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frame/frame.hpp"
#include "stream/message.hpp"

namespace penstock::stream {

/// A frame for each channel of the image, received now; `owner` keeps the payloads alive. `channels`
/// are those of the series, null where it is not known: the sink knows best what to say to a frame
/// before its start.
Result<std::vector<Frame>> frames_of(ImageMessage image, const std::vector<std::string>* channels,
                                     const std::shared_ptr<const void>& owner);

}  // namespace penstock::stream
