/// How a series' frames are divided among files: the master, which has the series' name, and its members.
#pragma once

#include <string>

#include "frame/series.hpp"
#include "recorder/config/config.hpp"
#include "store/layout.hpp"

namespace penstock::recorder {

/// Makes `layout`, that of the file at `path`, the layout of a master where `files` says so.
void lay_out_members(store::FileLayout& layout, const FilesConfig& files, const std::string& path, unsigned ranks,
                     bool user_layout = false);

}  // namespace penstock::recorder
