/// The messages of tests/corpus/stream.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "../support/whole_file.hpp"
#include "base/bytes.hpp"

namespace penstock::stream::test {

/// tests/corpus/stream of this checkout.
const std::filesystem::path& corpus_folder();

inline std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  EXPECT_TRUE(std::filesystem::exists(path)) << path;
  const auto text = whole_file(path);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline std::vector<std::byte> read_vector(const std::string& name) {
  return read_bytes(corpus_folder() / (name + ".cbor"));
}

/// Names without the suffix, of those that begin with `prefix`.
inline std::vector<std::string> vector_names(const std::string& prefix) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(corpus_folder()))
    if (entry.path().extension() == ".cbor" && entry.path().stem().string().starts_with(prefix))
      names.push_back(entry.path().stem().string());
  return names;
}

}  // namespace penstock::stream::test
