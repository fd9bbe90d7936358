#include "load_remote/remote_backend.hpp"

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "load_remote/server.hpp"

namespace penstock::load_remote {
namespace {

using load::FramesPlan;
using load::LoadPlan;
using load::RemotePlan;
using load::RemovePlan;
using load::StreamPlan;
using load::Sync;

using MakeServer = Result<std::unique_ptr<Server>> (*)(const std::string& url);
constexpr std::pair<std::string_view, MakeServer> protocols[] = {
    {"root", make_xrootd_server}, {"roots", make_xrootd_server}, {"nfs", make_nfs_server},
    {"http", make_dav_server},    {"https", make_dav_server},    {"s3", make_s3_server},
    {"s3s", make_s3_server},      {"hdfs", make_hdfs_server},    {"webhdfs", make_hdfs_server}};

/// What follows "#" is not sent, nor is it a path behind "?": requests for files would mean the folder before it, which
/// WebDAV removes with everything in it.
Result<void> require_path_only(const std::string& url, std::string_view scheme) {
  const auto end = url.find_first_of(scheme == "nfs" ? "#" : "?#");
  if (end == std::string::npos) return {};
  return make_error(Errc::invalid_argument, "backend.url {}: must not be followed by \"{}\"", url.substr(0, end),
                    url[end]);
}

Result<std::unique_ptr<Server>> make_server(const std::string& url) {
  const auto scheme = url.substr(0, url.find("://"));
  PEN_TRY(require_path_only(url, scheme));
  for (const auto& [name, make] : protocols)
    if (scheme == name) return make(url);
  return make_error(Errc::invalid_argument,
                    "backend.url {}: must start with root://, roots://, nfs://, http://, https://, s3://, s3s://, "
                    "hdfs:// or webhdfs://",
                    url);
}

Expected expected_of(const LoadPlan& plan) {
  if (const auto* stream = std::get_if<StreamPlan>(&plan.workload))
    return {stream->shared ? 0 : stream->thread_bytes, stream->transfer_bytes};
  if (const auto* frames = std::get_if<FramesPlan>(&plan.workload))
    return {frames->layout == load::Layout::file_a_frame ? frames->frame_bytes : 0, frames->frame_bytes};
  return {};
}

/// The folder is made by whoever needs it first: a server that is not reached is an error of a call, not of the plan.
class Folder {
 public:
  explicit Folder(std::unique_ptr<Server> server) : server_(std::move(server)) {}

  Server& server() { return *server_; }
  Result<void> make() {
    const std::scoped_lock lock(mutex_);
    if (made_) return {};
    PEN_TRY(server_->make_folder(""));
    made_ = true;
    return {};
  }

 private:
  const std::unique_ptr<Server> server_;
  std::mutex mutex_;
  bool made_ = false;  // guarded by mutex_
};

class RemoteNames final : public load::Names {
 public:
  explicit RemoteNames(std::shared_ptr<Folder> folder) : folder_(std::move(folder)) {}
  Result<void> make_folder(const char* path) override { return server().make_folder(path); }
  Result<void> remove_folder(const char* path) override { return server().remove_folder(path); }
  Result<void> look_up(const char* path) override { return server().look_up(path); }
  Result<void> create(const char* path, Bytes bytes, bool sync, bool& made) override {
    made = true;  // perhaps: a server that fails does not say
    PEN_ASSIGN(const auto file, server().create(path, {bytes.size(), bytes.size()}));
    if (!bytes.empty()) PEN_TRY(file->write(bytes, 0));
    if (sync) PEN_TRY(file->sync());
    return file->close();
  }
  Result<std::size_t> read(const char* path, MutableBytes into) override {
    PEN_ASSIGN(const auto file, server().open(path));
    PEN_ASSIGN(const auto size, file->read(into, 0));
    PEN_TRY(file->close());
    return size;
  }
  Result<void> rename(const char* from, const char* to) override { return server().rename(from, to); }
  Result<void> remove(const char* path) override { return server().remove(path); }

 private:
  Server& server() { return folder_->server(); }

  const std::shared_ptr<Folder> folder_;
};

class RemoteBackend final : public load::Backend {
 public:
  RemoteBackend(const LoadPlan& plan, std::unique_ptr<Server> server)
      : remote_(std::get<RemotePlan>(plan.backend)),
        expected_(expected_of(plan)),
        removes_(std::holds_alternative<RemovePlan>(plan.workload)),
        folder_(std::make_shared<Folder>(std::move(server))) {}

  void start(std::int64_t) override {}
  std::uint64_t alignment() const override { return 1; }
  Result<std::unique_ptr<load::StoredFile>> create(const std::string& name, bool& made) override {
    made = true;  // perhaps: a server that fails does not say
    PEN_TRY(folder_->make());
    return folder_->server().create(name, expected_);
  }
  Result<std::unique_ptr<load::StoredFile>> open(const std::string& name) override {
    return folder_->server().open(name);
  }
  Result<std::unique_ptr<load::StoredFile>> join(const std::string& name) override {
    return folder_->server().join(name);
  }
  /// These clients keep nothing of what they have written.
  std::optional<std::uint64_t> cached_bytes(const std::string&) override { return 0; }
  Result<std::unique_ptr<load::Names>> names() override {
    if (!removes_) PEN_TRY(folder_->make());
    return std::unique_ptr<load::Names>(std::make_unique<RemoteNames>(folder_));
  }
  Sync sync() const override { return remote_.sync; }
  Json describe() const override {
    auto found = folder_->server().describe();
    found["direct"] = false;
    return found;
  }

 private:
  const RemotePlan remote_;
  const Expected expected_;
  const bool removes_;
  const std::shared_ptr<Folder> folder_;
};

}  // namespace

Result<std::shared_ptr<load::Backend>> make_remote_backend(const LoadPlan& plan) {
  PEN_ASSIGN(auto server, make_server(std::get<RemotePlan>(plan.backend).url));
  return std::shared_ptr<load::Backend>(std::make_shared<RemoteBackend>(plan, std::move(server)));
}

}  // namespace penstock::load_remote
