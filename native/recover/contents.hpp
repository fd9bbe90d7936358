/// What a recorder that resumes a file needs to know of it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "base/bytes.hpp"
#include "recover/recover.hpp"

namespace penstock::recover {

/// Consecutive numbers as one run; `frames` rise, and none comes twice.
std::vector<Contents::Run> runs_of(const std::vector<std::uint64_t>& frames);

/// The counts by `states`, one a frame, of the frames that are not in `whole` (rising).
Contents contents_of(const std::vector<std::uint64_t>& whole, Bytes states);

/// The runs as lists [first, last].
nlohmann::json to_json(const Contents& contents);

}  // namespace penstock::recover
