/// The field of a job that names an encoding.
#pragma once

#include <string>

#include "base/archive.hpp"
#include "frame/encoding.hpp"

namespace penstock {

inline void encoding_field(Archive& archive, Encoding& encoding) {
  static constexpr std::string_view names[] = {"none", "bslz4", "bszstd", "lz4", "zstd", "deflate"};
  std::string text(name(encoding));
  archive.one_of("encoding", text, names);
  encoding = encoding_of(text).value_or(encoding);
}

}  // namespace penstock
