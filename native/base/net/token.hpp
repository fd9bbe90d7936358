/// Secrets that a peer has to know.
#pragma once

#include <string_view>

namespace penstock {

/// True if equal; takes as long for every `offered` of one length.
bool same_token(std::string_view expected, std::string_view offered);

}  // namespace penstock
