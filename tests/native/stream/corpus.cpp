#include "vectors.hpp"

namespace penstock::stream::test {

const std::filesystem::path& corpus_folder() {
  static const std::filesystem::path folder = PENSTOCK_CORPUS;
  return folder;
}

}  // namespace penstock::stream::test
