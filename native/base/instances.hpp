/// What templates of libraries make, compiled once.
///
/// fmt and nlohmann/json are templates, and each source that logs or reads JSON compiled them anew: half of the time
/// of such a source. The sources get this header with the precompiled ones (CMakeLists.txt) and none includes it;
/// without it, each makes its own, and the linker keeps one.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>

extern template void fmt::detail::vformat_to<char>(buffer<char>&, basic_string_view<char>,
                                                   basic_format_args<buffer_context<char>>, locale_ref);
extern template class nlohmann::basic_json<>;
