/// Datasets whose chunks lie far apart: each chunk is found, in time that its neighbours' distance does not set.

#include "check/structures/index_process.hpp"
#include "check_fixture.hpp"

namespace penstock::check::testing {
namespace {

class SparseIndex : public CheckTest {
 protected:
  /// A dataset of chunks of four numbers in a row, of which those at `offsets` are written.
  void write(const std::vector<hsize_t>& shape, const std::vector<hsize_t>& most,
             const std::vector<std::vector<hsize_t>>& offsets) const {
    const hid_t file = H5Fcreate(path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, newest());
    const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), most.data());
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    std::vector<hsize_t> chunk(shape.size(), 1);
    chunk.back() = 4;
    H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data());
    const hid_t dataset = H5Dcreate2(file, "data", H5T_NATIVE_UINT8, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    const std::uint8_t pixels[4] = {1, 2, 3, 4};
    for (const auto& offset : offsets)
      EXPECT_GE(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, offset.data(), sizeof pixels, pixels), 0);
    H5Dclose(dataset);
    H5Pclose(creation);
    H5Sclose(space);
    H5Fclose(file);
  }

  std::vector<std::uint64_t> numbers(bool blocks = false) const {
    // Where the time follows from the distance, HDF5 is silent for minutes.
    IndexProcessOptions options;
    options.stall = std::chrono::seconds(20);
    options.read.index_blocks = blocks;
    const auto tree = read_tree_in_process(posix_env(), path(), options);
    EXPECT_TRUE(tree.ok());
    EXPECT_EQ(tree->failure, "");
    for (const auto& part : tree->unreadable) ADD_FAILURE() << part.why;
    std::vector<std::uint64_t> numbers;
    for (const auto& chunk : tree->find("/data")->chunks) numbers.push_back(chunk.number);
    return numbers;
  }

 private:
  static hid_t newest() {
    static const hid_t access = [] {
      const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
      H5Pset_libver_bounds(list, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
      return list;
    }();
    return access;
  }
};

constexpr hsize_t million = 1'000'000;

TEST_F(SparseIndex, OfADatasetThatGrows) {
  const std::vector<std::uint64_t> frames = {0, 1, 70'000, million, million + 1, 2 * million};
  std::vector<std::vector<hsize_t>> offsets;
  for (const auto frame : frames) offsets.push_back({frame, 0});
  write({4000 * million, 4}, {H5S_UNLIMITED, 4}, offsets);
  EXPECT_EQ(numbers(), frames);
  EXPECT_EQ(numbers(true), frames);
}

TEST_F(SparseIndex, OfTilesWithAGapBetween) {
  write({2 * million, 2, 4 * 300}, {H5S_UNLIMITED, 2, 4 * 300},
        {{0, 0, 0}, {0, 1, 4 * 299}, {50'000, 1, 8}, {50'001, 1, 4 * 299}});
  const std::uint64_t row = 300, frame = 2 * row;
  EXPECT_EQ(numbers(),
            (std::vector<std::uint64_t>{0, row + 299, 50'000 * frame + row + 2, 50'001 * frame + row + 299}));
}

TEST_F(SparseIndex, OfADatasetThatGrowsAlongItsSecondDimension) {
  write({3, 200'000, 4}, {3, H5S_UNLIMITED, 4}, {{0, 199'999, 0}, {1, 0, 0}, {2, 100'000, 0}});
  EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{199'999, 200'000, 500'000}));
  EXPECT_EQ(numbers(true), (std::vector<std::uint64_t>{199'999, 200'000, 500'000}));
}

TEST_F(SparseIndex, OfADatasetOfFixedSizeThatIsAlmostEmpty) {
  write({8 * million, 4}, {8 * million, 4}, {{7, 0}, {7'999'999, 0}});
  EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{7, 7'999'999}));
  EXPECT_EQ(numbers(true), (std::vector<std::uint64_t>{7, 7'999'999}));
}

}  // namespace
}  // namespace penstock::check::testing
