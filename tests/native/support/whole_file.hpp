/// A file's bytes, read at once: iterators over a stream take a second for some megabytes under a sanitizer.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace penstock {

/// Empty if the file cannot be read.
inline std::string whole_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::error_code ignored;
  const auto size = std::filesystem::file_size(path, ignored);
  if (!stream.good() || ignored) return {};
  std::string bytes(size, '\0');
  stream.read(bytes.data(), static_cast<std::streamsize>(size));
  bytes.resize(static_cast<std::size_t>(stream.gcount()));
  return bytes;
}

}  // namespace penstock
