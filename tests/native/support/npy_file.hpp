/// A .npy file as text: NumPy's header with any dictionary.
#pragma once

#include <string>

namespace penstock::testing {

inline std::string npy(const std::string& dictionary, int version = 1) {
  std::string text("\x93NUMPY", 6);
  text += static_cast<char>(version);
  text += '\0';
  for (int byte = 0; byte < (version == 1 ? 2 : 4); ++byte)
    text += static_cast<char>(dictionary.size() >> (8 * byte) & 0xFF);
  return text + dictionary;
}

}  // namespace penstock::testing
