/// Sends one series to several receivers, as a detector with several links does: the start and the end
/// go to all of them, each frame to the one whose turn its number is, or each element to its own.
#pragma once

#include <memory>
#include <vector>

#include "stream/sender.hpp"

namespace penstock::stream {

/// At least one sender. What one of them reports counts for the series.
std::unique_ptr<FrameSender> make_spread_sender(std::vector<std::unique_ptr<FrameSender>> senders);

/// Whether start messages say which element their stream is of. Where they do not, the recorder's configuration has to.
enum class ElementTold { in_start, nowhere };

/// A sender for each element of `grid`. The series that begin() gets is the whole frame's; frames are those of
/// elements, and name theirs.
std::unique_ptr<FrameSender> make_element_sender(std::vector<std::unique_ptr<FrameSender>> senders, ElementPlace grid,
                                                 ElementTold told = ElementTold::in_start);

}  // namespace penstock::stream
