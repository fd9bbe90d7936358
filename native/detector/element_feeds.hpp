/// Feeds for a detector whose elements send streams of their own.
#pragma once

#include <memory>
#include <vector>

#include "detector/feed.hpp"
#include "frame/series.hpp"

namespace penstock::detector {

/// One feed for each element of `grid`, of whole images cut into equal parts: `invalid_argument` where they do not
/// come out equal. The first element's frames have the stamp of the whole ones. Whole images are kept only while the
/// feeds are made.
Result<std::vector<std::unique_ptr<Feed>>> simulated_elements(const Simulation& simulation, const ElementPlace& grid,
                                                              const FeedOptions& options);
Result<std::vector<std::unique_ptr<Feed>>> replayed_elements(const NpyImages& images, const ElementPlace& grid,
                                                             const FeedOptions& options);

}  // namespace penstock::detector
