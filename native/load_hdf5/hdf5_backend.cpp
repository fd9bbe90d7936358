#include "load_hdf5/hdf5_backend.hpp"

#include <hdf5.h>

#include <array>
#include <mutex>
#include <string>

#include "load/backends/own_folder.hpp"
#include "load/backends/page_cache.hpp"
#include "store/hdf5/handles.hpp"

namespace penstock::load_hdf5 {
namespace {

using load::Hdf5Plan;
using load::LoadPlan;
using load::StreamPlan;
using load::Sync;
using store::hdf5::done;
using store::hdf5::Handle;
using store::hdf5::LibraryLock;
using store::hdf5::owned;

constexpr const char* dataset_name = "data";

#ifdef H5_HAVE_PARALLEL
constexpr bool is_parallel = true;
herr_t share(hid_t access) { return H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL); }
herr_t call_together(hid_t transfer) { return H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE); }
bool any(bool mine) {
  int one = mine ? 1 : 0, all = 0;
  MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
  return all != 0;
}
std::uint64_t of_the_first_rank(std::uint64_t mine) {
  MPI_Bcast(&mine, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  return mine;
}
#else
constexpr bool is_parallel = false;
herr_t share(hid_t) { return -1; }
herr_t call_together(hid_t) { return -1; }
bool any(bool mine) { return mine; }
std::uint64_t of_the_first_rank(std::uint64_t mine) { return mine; }
#endif

/// What an open file consists of. Whoever gives it up does not hold the library.
struct Parts {
  Parts() = default;
  Parts(Parts&&) = default;
  ~Parts() {
    if (!file) return;
    const LibraryLock lock;
    (void)close();
  }
  /// With the library held; false where HDF5 reports an error.
  bool close() {
    const bool closed_dataset = dataset.close();
    space.close();
    transfer.close();
    return file.close() && closed_dataset;
  }

  Handle file;
  Handle dataset;
  Handle space;
  Handle transfer;
};

class Hdf5File final : public load::StoredFile {
 public:
  /// `raw` is the same file beside HDF5, to force it to storage; null where nobody asks for that.
  Hdf5File(Parts parts, std::string path, std::uint64_t row, std::shared_ptr<File> raw)
      : parts_(std::move(parts)), path_(std::move(path)), row_(row), raw_(std::move(raw)) {}
  Result<void> write(Bytes bytes, std::uint64_t offset) override {
    const LibraryLock lock;
    PEN_ASSIGN(const auto memory, select(bytes.size(), offset));
    return done(H5Dwrite(parts_.dataset.get(), H5T_NATIVE_UINT8, memory.get(), parts_.space.get(),
                         parts_.transfer.get(), bytes.data()),
                "write " + path_);
  }

  Result<std::size_t> read(MutableBytes into, std::uint64_t offset) override {
    const LibraryLock lock;
    PEN_ASSIGN(const auto memory, select(into.size(), offset));
    PEN_TRY(done(H5Dread(parts_.dataset.get(), H5T_NATIVE_UINT8, memory.get(), parts_.space.get(),
                         parts_.transfer.get(), into.data()),
                 "read " + path_));
    return into.size();
  }

  Result<void> sync() override {
    {
      const LibraryLock lock;
      PEN_TRY(done(H5Fflush(parts_.file.get(), H5F_SCOPE_LOCAL), "flush " + path_));
    }
    return raw_ ? raw_->sync() : Result<void>();
  }

  /// HDF5 writes on while it closes.
  Result<void> close() override {
    {
      const LibraryLock lock;
      if (!parts_.close()) return store::hdf5::library_error("close " + path_);
    }
    return raw_ ? raw_->sync() : Result<void>();
  }

 private:
  /// Chooses the bytes in the file; what they are in memory.
  Result<Handle> select(std::uint64_t bytes, std::uint64_t offset) {
    const std::array<hsize_t, 2> start = {row_, offset}, count = {1, bytes};
    PEN_TRY(done(H5Sselect_hyperslab(parts_.space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
                 "choose the bytes"));
    return owned(H5Screate_simple(2, count.data(), nullptr), H5Sclose, "describe the bytes");
  }

  Parts parts_;
  const std::string path_;
  const std::uint64_t row_;
  const std::shared_ptr<File> raw_;
};

std::string version_of_library() {
  unsigned major = 0, minor = 0, release = 0;
  const LibraryLock lock;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

class Hdf5Backend final : public load::Backend {
 public:
  Hdf5Backend(const LoadPlan& plan, const load::Team& team, Env& env)
      : plan_(plan),
        hdf5_(std::get<Hdf5Plan>(plan.backend)),
        rank_(team.rank()),
        ranks_(team.ranks()),
        files_(hdf5_.folder, env),
        version_(version_of_library()) {}

  void start(std::int64_t) override {}
  std::uint64_t alignment() const override { return 1; }

  Result<std::unique_ptr<load::StoredFile>> create(const std::string& name, bool& made) override {
    const auto path = path_of(name);
    PEN_ASSIGN(const auto way, way_to(name));
    auto created = make_file(name);
    made = created.ok() && *created != nullptr;
    // It stays open until all have it open, so that its number is of no other file.
    PEN_ASSIGN([[maybe_unused]] const auto held, agreed(std::move(created), name));
    PEN_TRY(agreed(check_own(name), name));
    Parts parts;
    {
      const LibraryLock lock;
      PEN_ASSIGN(const auto access, file_access());
      auto file = owned(H5Fcreate(way.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose, "make " + path);
      PEN_ASSIGN(parts.file, agreed(std::move(file), name));
      PEN_ASSIGN(const auto creation, dataset_creation());
      const std::array<hsize_t, 2> size = {rows(), std::get<StreamPlan>(plan_.workload).thread_bytes};
      PEN_ASSIGN(const auto space, owned(H5Screate_simple(2, size.data(), nullptr), H5Sclose, "describe the dataset"));
      PEN_ASSIGN(parts.dataset, owned(H5Dcreate2(parts.file.get(), dataset_name, H5T_STD_U8LE, space.get(), H5P_DEFAULT,
                                                 creation.get(), H5P_DEFAULT),
                                      H5Dclose, "make the dataset in " + path));
    }
    return opened(std::move(parts), name, sync() != Sync::none);
  }

  Result<std::unique_ptr<load::StoredFile>> open(const std::string& name) override {
    const auto path = path_of(name);
    PEN_ASSIGN(const auto way, way_to(name));
    Parts parts;
    {
      const LibraryLock lock;
      PEN_ASSIGN(const auto access, file_access());
      PEN_ASSIGN(parts.file,
                 agreed(owned(H5Fopen(way.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose, "open " + path), name));
      PEN_ASSIGN(parts.dataset,
                 owned(H5Dopen2(parts.file.get(), dataset_name, H5P_DEFAULT), H5Dclose, "open the dataset in " + path));
    }
    return opened(std::move(parts), name, false);
  }

  /// Each rank tells its part of what is there of a shared file.
  std::optional<std::uint64_t> cached_bytes(const std::string& name) override {
    const auto cached = load::cached_bytes_after_forgetting(files_.folder(), file_of(name));
    return cached && hdf5_.shared ? std::optional(*cached / ranks_) : cached;
  }
  Sync sync() const override { return hdf5_.sync; }
  bool agree_to_end(bool end) override { return hdf5_.collective ? any(end) : end; }
  bool agrees_with_others() const override { return hdf5_.collective; }
  Json describe() const override { return {{"direct", false}, {"hdf5", version_}}; }

 private:
  std::string file_of(const std::string& name) const { return hdf5_.shared ? load::file_name(plan_, 0) : name; }
  std::string path_of(const std::string& name) { return files_.folder().path_of(file_of(name)); }

  /// Ranks that share a file do its calls together, or none of them.
  template <typename What>
  Result<What> agreed(Result<What> mine, const std::string& name) {
    const bool ends = hdf5_.shared ? any(!mine.ok()) : !mine.ok();
    if (!mine.ok()) return files_.folder().told(mine.error());
    if (ends) return make_error(Errc::cancelled, "another rank could not open {}", path_of(name));
    return mine;
  }

  /// HDF5 writes while it opens a file, and opens it by its name: what it opens is new and empty. The first rank makes
  /// a shared one; null for the others.
  Result<std::shared_ptr<File>> make_file(const std::string& name) {
    if (hdf5_.shared && rank_ > 0) return std::shared_ptr<File>();
    return files_.open(path_of(name), {OpenOptions::Mode::create_new, false});
  }

  /// The file is empty; of a shared one each rank finds the same.
  Result<void> check_own(const std::string& name) {
    const auto found = files_.folder().require_own(file_of(name), true);
    const auto mine = found.ok() ? *found : 0;
    const auto first = hdf5_.shared ? of_the_first_rank(mine) : mine;
    if (!found.ok()) return found.error();
    if (mine == first || mine == 0 || first == 0) return {};
    return load::another_file(path_of(name));
  }

  Result<std::string> way_to(const std::string& name) { return agreed(files_.folder().way_to(file_of(name)), name); }

  std::uint64_t rows() const { return hdf5_.shared ? ranks_ : 1; }

  /// That of the rank which writes the file of this name.
  std::uint64_t row_of(const std::string& name) const {
    std::uint64_t row = 0;
    while (row + 1 < rows() && load::file_name(plan_, row) != name) ++row;
    return row;
  }

  Result<Handle> file_access() const {
    PEN_ASSIGN(auto access, owned(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "make a list of properties"));
    if (hdf5_.shared) PEN_TRY(done(share(access.get()), "share a file"));
    return access;
  }

  /// Nothing is filled in before it is written, which would be written twice then.
  Result<Handle> dataset_creation() const {
    PEN_ASSIGN(auto creation, owned(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "make a list of properties"));
    PEN_TRY(done(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), "fill nothing in"));
    if (hdf5_.chunk_bytes == 0) return creation;
    const std::array<hsize_t, 2> chunk = {1, hdf5_.chunk_bytes};
    PEN_TRY(done(H5Pset_chunk(creation.get(), 2, chunk.data()), "use chunks"));
    if (hdf5_.deflate > 0) PEN_TRY(done(H5Pset_deflate(creation.get(), hdf5_.deflate), "use deflate"));
    return creation;
  }

  Result<std::unique_ptr<load::StoredFile>> opened(Parts parts, const std::string& name, bool synced) {
    std::shared_ptr<File> raw;
    if (synced) {
      PEN_ASSIGN(raw, files_.open(path_of(name), {OpenOptions::Mode::read, false}));
    }
    const LibraryLock lock;
    PEN_ASSIGN(parts.space, owned(H5Dget_space(parts.dataset.get()), H5Sclose, "describe the dataset"));
    PEN_ASSIGN(parts.transfer, owned(H5Pcreate(H5P_DATASET_XFER), H5Pclose, "make a list of properties"));
    if (hdf5_.collective) PEN_TRY(done(call_together(parts.transfer.get()), "call together"));
    return std::unique_ptr<load::StoredFile>(
        std::make_unique<Hdf5File>(std::move(parts), path_of(name), row_of(name), std::move(raw)));
  }

  const LoadPlan plan_;
  const Hdf5Plan hdf5_;
  const unsigned rank_;
  const unsigned ranks_;
  load::OwnFiles files_;
  /// Read at the start: where a thread hangs in HDF5, nobody else gets the library.
  const std::string version_;
};

}  // namespace

Result<std::shared_ptr<load::Backend>> make_hdf5_backend(const LoadPlan& plan, const load::Team& team, Env& env) {
  if (std::get<Hdf5Plan>(plan.backend).shared && !is_parallel)
    return make_error(Errc::unsupported, "this HDF5 is not parallel: a shared file needs ranks of Open MPI");
  return std::shared_ptr<load::Backend>(std::make_shared<Hdf5Backend>(plan, team, env));
}

}  // namespace penstock::load_hdf5
