/// Defects of the copy of native/series that make_defects.py writes.
#pragma once

#include <string>
#include <vector>

namespace penstock::series {

extern unsigned defect;  ///< the one that is on, from 1; 0: none
extern const std::vector<std::string> defects;

}  // namespace penstock::series
