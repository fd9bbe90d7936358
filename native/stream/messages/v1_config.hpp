/// The detector's configuration in a Stream V1 header.
#pragma once

#include "base/fields.hpp"
#include "stream/messages/v1_message.hpp"

namespace penstock::stream {

/// Enters what is known of `config` (an object) into the series. Everything else, and what has not the type that it
/// should have, is kept as it came.
void read_v1_config(const Json& config, const MessageLimits& limits, V1Header& header);

}  // namespace penstock::stream
