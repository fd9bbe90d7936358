/// The name of a series' file.
#pragma once

#include <string>

#include "base/result.hpp"
#include "frame/series.hpp"

namespace penstock::recorder {

/// The path for `series`: `folder` and the template with {series_unique_id}, {series_id} and {date}
/// (YYYYMMDD-HHMMSS, UTC, of `now_ns`) filled in. What comes from the network never leaves the folder: path separators
/// and characters that are awkward in file names become underscores, one is put before a dot or dash at the beginning,
/// and what is longer than 200 bytes is cut. A name that is changed so gets a checksum of the series' name, which keeps
/// it apart from others. `refused` where nothing is left.
Result<std::string> file_path(const std::string& folder, const std::string& name_template, const Series& series,
                              std::int64_t now_ns);

}  // namespace penstock::recorder
