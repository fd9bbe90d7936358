#include "load_mpi/mpiio_backend.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "load/backends/own_folder.hpp"
#include "load/backends/page_cache.hpp"

namespace penstock::load_mpi {
namespace {

using load::LoadPlan;
using load::MpiioPlan;
using load::StreamPlan;

/// A call takes a count of type int.
constexpr std::size_t call_bytes_max = std::size_t{1} << 30;

Errc kind_of(int code) {
  int kind = MPI_ERR_IO;
  MPI_Error_class(code, &kind);
  switch (kind) {
    case MPI_ERR_FILE_EXISTS: return Errc::already_exists;
    case MPI_ERR_NO_SUCH_FILE: return Errc::not_found;
    case MPI_ERR_ACCESS: return Errc::permission;
    case MPI_ERR_NO_SPACE:
    case MPI_ERR_QUOTA: return Errc::no_space;
    default: return Errc::io;
  }
}

Result<void> check(int code, std::string_view what, const std::string& path) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return make_error(kind_of(code), "MPI-IO cannot {} {}: {}", what, path,
                    std::string_view(text, static_cast<std::size_t>(length)));
}

/// Hints as MPI has them.
class Info {
 public:
  explicit Info(const std::map<std::string, std::string>& hints) {
    MPI_Info_create(&info_);
    for (const auto& [name, value] : hints) MPI_Info_set(info_, name.c_str(), value.c_str());
  }
  /// Those that are in effect for a file.
  explicit Info(MPI_File file) { MPI_File_get_info(file, &info_); }
  ~Info() {
    if (info_ != MPI_INFO_NULL) MPI_Info_free(&info_);
  }
  Info(const Info&) = delete;
  Info& operator=(const Info&) = delete;

  MPI_Info get() const { return info_; }

  std::map<std::string, std::string> values() const {
    std::map<std::string, std::string> found;
    int keys = 0;
    if (info_ == MPI_INFO_NULL || MPI_Info_get_nkeys(info_, &keys) != MPI_SUCCESS) return found;
    for (int i = 0; i < keys; ++i) {
      char name[MPI_MAX_INFO_KEY + 1] = {};
      int length = 0, there = 0;
      MPI_Info_get_nthkey(info_, i, name);
      MPI_Info_get_valuelen(info_, name, &length, &there);
      std::string value(static_cast<std::size_t>(length) + 1, '\0');
      MPI_Info_get(info_, name, length, value.data(), &there);
      found[name] = value.c_str();
    }
    return found;
  }

 private:
  MPI_Info info_ = MPI_INFO_NULL;
};

/// A rank's bytes in a file that ranks share: its blocks lie `ranks` blocks apart.
struct Place {
  std::uint64_t writer = 0;
  std::uint64_t ranks = 1;
  std::uint64_t block_bytes = 0;  ///< 0: the file is the rank's own

  std::uint64_t of(std::uint64_t offset) const {
    if (block_bytes == 0) return offset;
    return (offset / block_bytes * ranks + writer) * block_bytes + offset % block_bytes;
  }
};

class MpiioFile final : public load::StoredFile {
 public:
  MpiioFile(MPI_File file, std::string path, Place place, bool collective)
      : file_(file), path_(std::move(path)), place_(place), collective_(collective) {}
  /// A file of all ranks is closed by all of them together, or never.
  ~MpiioFile() override {
    if (file_ != MPI_FILE_NULL && place_.block_bytes == 0) MPI_File_close(&file_);
  }

  Result<void> write(Bytes bytes, std::uint64_t offset) override {
    for (std::size_t at = 0; at < bytes.size(); at += call_bytes_max) {
      const auto piece = bytes.subspan(at, std::min(call_bytes_max, bytes.size() - at));
      const auto place = static_cast<MPI_Offset>(place_.of(offset + at));
      const int size = static_cast<int>(piece.size());
      const auto call = collective_ ? MPI_File_write_at_all : MPI_File_write_at;
      MPI_Status status;
      PEN_TRY(check(call(file_, place, piece.data(), size, MPI_BYTE, &status), "write", path_));
      int written = 0;
      MPI_Get_count(&status, MPI_BYTE, &written);
      if (written != size)
        return make_error(Errc::no_space, "MPI-IO wrote {} of {} bytes at {} of {}: no space, a quota, or a limit",
                          written, size, place, path_);
    }
    return {};
  }

  Result<std::size_t> read(MutableBytes into, std::uint64_t offset) override {
    std::size_t all = 0;
    while (all < into.size()) {
      const auto piece = into.subspan(all, std::min(call_bytes_max, into.size() - all));
      const auto place = static_cast<MPI_Offset>(place_.of(offset + all));
      const auto call = collective_ ? MPI_File_read_at_all : MPI_File_read_at;
      MPI_Status status;
      PEN_TRY(
          check(call(file_, place, piece.data(), static_cast<int>(piece.size()), MPI_BYTE, &status), "read", path_));
      int got = 0;
      MPI_Get_count(&status, MPI_BYTE, &got);
      all += static_cast<std::size_t>(std::max(got, 0));
      if (static_cast<std::size_t>(got) != piece.size()) break;
    }
    return all;
  }

  Result<void> sync() override { return check(MPI_File_sync(file_), "sync", path_); }
  Result<void> close() override { return check(MPI_File_close(&file_), "close", path_); }

 private:
  MPI_File file_;
  const std::string path_;
  const Place place_;
  const bool collective_;
};

class MpiioBackend final : public load::Backend {
 public:
  MpiioBackend(const LoadPlan& plan, const load::Team& team)
      : plan_(plan),
        mpiio_(std::get<MpiioPlan>(plan.backend)),
        rank_(team.rank()),
        ranks_(team.ranks()),
        folder_(mpiio_.folder) {}

  void start(std::int64_t) override {}
  std::uint64_t alignment() const override { return 1; }
  Result<std::unique_ptr<load::StoredFile>> create(const std::string& name, bool& made) override {
    auto file = opened(name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, "make");
    // MPI creates and opens a file in one call: after another error than this one it may exist.
    made = (rank_ == 0 || !mpiio_.shared) && (file.ok() || file.error().code() != Errc::already_exists);
    return file;
  }
  Result<std::unique_ptr<load::StoredFile>> open(const std::string& name) override {
    return opened(name, MPI_MODE_RDONLY, "open");
  }
  /// Each rank tells its part of what is there of a shared file.
  std::optional<std::uint64_t> cached_bytes(const std::string& name) override {
    const auto cached = load::cached_bytes_after_forgetting(folder_, file_of(name));
    return cached && mpiio_.shared ? std::optional(*cached / ranks_) : cached;
  }
  load::Sync sync() const override { return mpiio_.sync; }

  bool agree_to_end(bool end) override { return mpiio_.collective ? any(end) : end; }
  bool agrees_with_others() const override { return mpiio_.collective; }

  Json describe() const override {
    const char* component = std::getenv("OMPI_MCA_io");
    std::lock_guard lock(mutex_);
    return {{"direct", false},
            {"hints", hints_ ? Json(*hints_) : Json()},
            {"mpi_io", component != nullptr ? Json(component) : Json()}};
  }

 private:
  std::string file_of(const std::string& name) const { return mpiio_.shared ? load::file_name(plan_, 0) : name; }

  static bool any(bool mine) {
    int one = mine ? 1 : 0, all = 0;
    MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
    return all != 0;
  }

  /// Ranks that share a file do its calls together, or none of them.
  Result<void> agreed(Result<void> mine) const {
    if (!mpiio_.shared || !any(!mine.ok()) || !mine.ok()) return mine;
    return make_error(Errc::cancelled, "another rank could not open {}", folder_.path_of(load::file_name(plan_, 0)));
  }

  /// Some of these libraries make a file and open it again by its name; each rank does, of a shared one.
  Result<void> check_own(const std::string& name, bool is_new) {
    const auto found = folder_.require_own(file_of(name), is_new);
    const std::uint64_t mine = found.ok() ? *found : 0;
    std::uint64_t first = mine;
    if (mpiio_.shared) MPI_Bcast(&first, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (!found.ok()) return found.error();
    if (mine == first || mine == 0 || first == 0) return {};
    return load::another_file(folder_.path_of(file_of(name)));
  }

  /// Where the bytes of the rank lie that wrote the file of this name.
  Place place_of(const std::string& name) const {
    if (!mpiio_.shared) return {};
    std::uint64_t writer = 0;
    while (writer + 1 < ranks_ && load::file_name(plan_, writer) != name) ++writer;
    const auto all = std::get<StreamPlan>(plan_.workload).thread_bytes;
    return {writer, ranks_, mpiio_.block_bytes > 0 ? mpiio_.block_bytes : all};
  }

  Result<std::unique_ptr<load::StoredFile>> opened(const std::string& name, int mode, const char* what) {
    const auto path = folder_.path_of(file_of(name));
    const auto way = folder_.way_to(file_of(name));
    PEN_TRY(agreed(way.ok() ? Result<void>() : Result<void>(way.error())));
    const Info hints(mpiio_.hints);
    MPI_File file = MPI_FILE_NULL;
    const auto who = mpiio_.shared ? MPI_COMM_WORLD : MPI_COMM_SELF;
    PEN_TRY(agreed(check(MPI_File_open(who, way->c_str(), mode, hints.get(), &file), what, path)));
    auto stored = std::make_unique<MpiioFile>(file, path, place_of(name), mpiio_.collective);
    PEN_TRY(agreed(check_own(name, (mode & MPI_MODE_CREATE) != 0)));
    std::lock_guard lock(mutex_);
    if (!hints_) hints_ = Info(file).values();
    return std::unique_ptr<load::StoredFile>(std::move(stored));
  }

  const LoadPlan plan_;
  const MpiioPlan mpiio_;
  const unsigned rank_;
  const unsigned ranks_;
  load::OwnFolder folder_;
  mutable std::mutex mutex_;
  std::optional<std::map<std::string, std::string>> hints_;  // of the first file; guarded by mutex_
};

}  // namespace

Result<std::shared_ptr<load::Backend>> make_mpiio_backend(const LoadPlan& plan, const load::Team& team) {
  return std::shared_ptr<load::Backend>(std::make_shared<MpiioBackend>(plan, team));
}

}  // namespace penstock::load_mpi
