/// Sends one series to several receivers, as a detector with several links does: the start and the end
/// go to all of them, each frame to the one whose turn its number is.
#pragma once

#include <memory>
#include <vector>

#include "stream/sender.hpp"

namespace penstock::stream {

/// At least one sender. What one of them reports counts for the series.
std::unique_ptr<FrameSender> make_spread_sender(std::vector<std::unique_ptr<FrameSender>> senders);

}  // namespace penstock::stream
