/// From a frame to the image message that a sender sends; shared by the senders.
#pragma once

#include "stream/messages/message.hpp"

namespace penstock::stream {

/// Fills `image` for a frame of `series`, reusing its memory. The payload is not copied.
Result<void> fill_image(const Frame& frame, const Series& series, ImageMessage& image);

}  // namespace penstock::stream
