#include "base/net/token.hpp"

namespace penstock {

bool same_token(std::string_view expected, std::string_view offered) {
  // Every byte offered is looked at, whatever the one before was.
  unsigned difference = expected.size() == offered.size() ? 0 : 1;
  for (std::size_t i = 0; i < offered.size(); ++i) {
    const char other = expected.empty() ? '\0' : expected[i % expected.size()];
    difference |= static_cast<unsigned char>(offered[i] ^ other);
  }
  return difference == 0;
}

}  // namespace penstock
