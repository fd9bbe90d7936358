/// Our reader of HDF5's extensible arrays beside HDF5 itself: on arrays of every shape, and on damaged ones.

#include "store/hdf5/reading/extensible_array.hpp"

#include "../support/rounds.hpp"
#include "check/structures/index_process.hpp"
#include "check_fixture.hpp"

namespace penstock::check::testing {
namespace {

using store::IndexedChunk;

struct Shape {
  const char* name;
  bool filtered;
  std::uint64_t frames;
  std::uint64_t tiles;
  double share;  ///< of the chunks that are written
};

class ExtensibleArray : public CheckTest, public ::testing::WithParamInterface<Shape> {
 protected:
  void write(std::mt19937_64& random) {
    const auto& shape = GetParam();
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS), creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    const hid_t file = H5Fcreate(path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
    const hsize_t now[] = {shape.frames, 4 * shape.tiles}, most[] = {H5S_UNLIMITED, 4 * shape.tiles};
    const hsize_t chunk[] = {1, 4};
    const hid_t space = H5Screate_simple(2, now, most);
    H5Pset_chunk(creation, 2, chunk);
    if (shape.filtered) H5Pset_deflate(creation, 1);
    const hid_t dataset = H5Dcreate2(file, "data", H5T_NATIVE_UINT8, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    const std::vector<std::byte> bytes(64);
    std::uniform_real_distribution<double> dice(0, 1);
    for (std::uint64_t frame = 0; frame < shape.frames; ++frame)
      for (std::uint64_t tile = 0; tile < shape.tiles; ++tile) {
        if (dice(random) > shape.share) continue;
        const hsize_t offset[] = {frame, 4 * tile};
        const auto size = shape.filtered ? 1 + random() % bytes.size() : 4;
        const auto mask = shape.filtered ? static_cast<std::uint32_t>(random() % 2) : 0;
        ASSERT_GE(H5Dwrite_chunk(dataset, H5P_DEFAULT, mask, offset, size, bytes.data()), 0);
      }
    H5O_info_t object;
    H5Oget_info2(dataset, &object, H5O_INFO_BASIC);
    header_ = object.addr;
    H5Dclose(dataset);
    H5Sclose(space);
    H5Fclose(file);
    H5Pclose(creation);
    H5Pclose(access);
  }

  store::DatasetInfo info() const {
    store::DatasetInfo info;
    info.element_bytes = 1;
    info.shape = {GetParam().frames, 4 * GetParam().tiles};
    info.chunk_shape = {1, 4};
    return info;
  }

  std::optional<std::vector<IndexedChunk>> ours() const {
    const auto file = posix_env().open(path(), {}).value();
    return store::hdf5::read_extensible_array(*file, file->size().value(), header_, info(), 1'000'000);
  }

  std::vector<IndexedChunk> as_hdf5_finds_them() const {
    const auto tree = read_tree_in_process(posix_env(), path(), {});
    EXPECT_TRUE(tree.ok() && tree->failure.empty());
    return tree->find("/data")->chunks;
  }

  std::uint64_t header_ = 0;
};

TEST_P(ExtensibleArray, TellsWhatHdf5Finds) {
  std::mt19937_64 random(3);
  write(random);
  const auto found = ours();
  ASSERT_TRUE(found.has_value()) << "it is not read at all";
  EXPECT_EQ(*found, as_hdf5_finds_them());
}

TEST_P(ExtensibleArray, DamagedItComesToAnEnd) {
  std::mt19937_64 random(4);
  write(random);
  const auto whole = bytes_of(path());
  const auto whole_chunks = ours();
  ASSERT_TRUE(whole_chunks.has_value());
  for (int round = 0; round < penstock::testing::rounds(200, 8); ++round) {
    auto bytes = whole;
    for (int i = 0; i < 8; ++i) {
      const auto near =
          random() % 2 == 0 ? random() % std::min<std::size_t>(bytes.size(), 4096) : random() % bytes.size();
      bytes[near] = static_cast<char>(random());
    }
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    write_bytes(path(), bytes);
    const auto found = ours();
    EXPECT_LE(found ? found->size() : 0, bytes.size());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ExtensibleArray,
    ::testing::Values(Shape{"empty", false, 100, 1, 0.0}, Shape{"one", false, 1, 1, 1.0},
                      Shape{"index_block", true, 4, 1, 1.0}, Shape{"direct_blocks", false, 120, 1, 0.7},
                      Shape{"super_blocks", true, 20'000, 1, 0.9}, Shape{"pages", false, 150'000, 1, 1.0},
                      Shape{"sparse_pages", true, 400'000, 1, 0.002}, Shape{"tiles", true, 700, 60, 0.5}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace penstock::check::testing
