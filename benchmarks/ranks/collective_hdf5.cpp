// Peer: parallel HDF5. All ranks write their frames of one chunked, filtered dataset in collective calls, the only
// way that it has for filtered data. Prints one JSON document on rank 0's stdout.
#include <hdf5.h>
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

namespace {

struct Options {
  std::string path;
  std::string raw;
  std::size_t element_bytes = 2;
  hsize_t frame_elements = 0;
  hsize_t frames = 0;
  hsize_t together = 8;  // frames of each rank in one collective call
  std::string filter = "deflate";
  bool gate = false;
};

void require(herr_t status, const char* what) {
  if (status >= 0) return;
  std::cerr << "HDF5 cannot " << what << '\n';
  MPI_Abort(MPI_COMM_WORLD, 1);
}
hid_t require_id(hid_t id, const char* what) {
  require(id < 0 ? -1 : 0, what);
  return id;
}

hid_t make_dataset(hid_t file, const Options& options) {
  const hsize_t shape[] = {options.frames, options.frame_elements};
  const hsize_t chunk[] = {1, options.frame_elements};
  const auto space = H5Screate_simple(2, shape, nullptr);
  const auto creation = H5Pcreate(H5P_DATASET_CREATE);
  require(H5Pset_chunk(creation, 2, chunk), "set the chunk");
  require(H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER), "set the fill time");
  if (options.filter == "deflate") require(H5Pset_deflate(creation, 1), "set deflate");
  if (options.filter == "bslz4") {
    const unsigned values[] = {0, 2};
    require(H5Pset_filter(creation, 32008, H5Z_FLAG_MANDATORY, 2, values), "find the bitshuffle plug-in");
  }
  const auto type = options.element_bytes == 2 ? H5T_NATIVE_UINT16 : H5T_NATIVE_INT32;
  const auto dataset =
      require_id(H5Dcreate2(file, "data", type, space, H5P_DEFAULT, creation, H5P_DEFAULT), "create the dataset");
  H5Pclose(creation);
  H5Sclose(space);
  return dataset;
}

void write_frames(hid_t dataset, const Options& options, const std::vector<char>& raw, int rank, int ranks) {
  const auto transfer = H5Pcreate(H5P_DATASET_XFER);
  require(H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE), "ask for collective calls");
  const auto type = options.element_bytes == 2 ? H5T_NATIVE_UINT16 : H5T_NATIVE_INT32;
  const auto frame_bytes = options.frame_elements * options.element_bytes;
  const auto images = raw.size() / frame_bytes;
  const auto file_space = H5Dget_space(dataset);
  std::vector<char> batch(options.together * frame_bytes);
  hsize_t image = 0;
  // Each rank has a run of neighbours in each call.
  for (hsize_t first = 0; first < options.frames; first += options.together * static_cast<hsize_t>(ranks)) {
    const auto mine = std::min(first + options.together * static_cast<hsize_t>(rank), options.frames);
    const hsize_t start[] = {mine, 0};
    const hsize_t count[] = {std::min(options.together, options.frames - mine), options.frame_elements};
    const auto memory_space = H5Screate_simple(2, count, nullptr);
    if (count[0] > 0) {
      require(H5Sselect_hyperslab(file_space, H5S_SELECT_SET, start, nullptr, count, nullptr), "select frames");
    } else {
      H5Sselect_none(file_space);
      H5Sselect_none(memory_space);
    }
    for (hsize_t i = 0; i < count[0]; ++i, ++image)
      std::copy_n(raw.data() + image % images * frame_bytes, frame_bytes, batch.data() + i * frame_bytes);
    require(H5Dwrite(dataset, type, memory_space, file_space, transfer, batch.data()), "write frames");
    H5Sclose(memory_space);
  }
  H5Sclose(file_space);
  H5Pclose(transfer);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  Options options;
  CLI::App app("Writes frames with parallel HDF5's collective calls and prints how long it took");
  app.add_option("--path", options.path)->required();
  app.add_option("--raw", options.raw)->required();
  app.add_option("--element-bytes", options.element_bytes);
  app.add_option("--frame-elements", options.frame_elements)->required();
  app.add_option("--frames", options.frames)->required();
  app.add_option("--together", options.together);
  app.add_option("--encoding", options.filter);
  app.add_flag("--gate", options.gate);
  CLI11_PARSE(app, argc, argv);

  std::ifstream input(options.raw, std::ios::binary);
  const std::vector<char> raw((std::istreambuf_iterator<char>(input)), {});
  if (options.gate && rank == 0) {
    std::cout << "ready" << std::endl;
    std::string line;
    std::getline(std::cin, line);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const auto started = std::chrono::steady_clock::now();
  const auto access = H5Pcreate(H5P_FILE_ACCESS);
  require(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL), "use MPI-IO");
  require(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110), "set the file's version");
  const auto file = require_id(H5Fcreate(options.path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), "create the file");
  const auto dataset = make_dataset(file, options);
  write_frames(dataset, options, raw, rank, ranks);
  H5Dclose(dataset);
  require(H5Fflush(file, H5F_SCOPE_GLOBAL), "flush the file");  // with MPI-IO that is a sync
  H5Fclose(file);
  H5Pclose(access);
  MPI_Barrier(MPI_COMM_WORLD);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  if (rank == 0)
    std::cout << nlohmann::json{{"seconds", took.count()},
                                {"raw_bytes", options.frames * options.frame_elements * options.element_bytes}}
                     .dump()
              << '\n';
  MPI_Finalize();
  return 0;
}
