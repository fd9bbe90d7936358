/// Files with several transfers under way, through io_uring (docs/explanation/decisions/0027-queue-depth.md).
#pragma once

#include <memory>

#include "load/backends/backend.hpp"

namespace penstock::load {

/// `depth` from 1 on. An error where this machine, or the container, does not allow io_uring.
Result<std::unique_ptr<StoredFile>> make_queued_file(std::shared_ptr<File> file, unsigned depth);

}  // namespace penstock::load
