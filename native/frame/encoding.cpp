#include "frame/encoding.hpp"

namespace penstock {

std::string_view name(Encoding encoding) {
  switch (encoding) {
    case Encoding::none: return "none";
    case Encoding::bitshuffle_lz4: return "bslz4";
    case Encoding::bitshuffle_zstd: return "bszstd";
    case Encoding::lz4: return "lz4";
    case Encoding::zstd: return "zstd";
    case Encoding::deflate: return "deflate";
  }
  return "unknown";
}

std::optional<Encoding> encoding_of(std::string_view text) {
  for (const auto encoding : {Encoding::none, Encoding::bitshuffle_lz4, Encoding::bitshuffle_zstd, Encoding::lz4,
                              Encoding::zstd, Encoding::deflate})
    if (name(encoding) == text) return encoding;
  return std::nullopt;
}

}  // namespace penstock
