/// `nfs://`, through libnfs: NFS without the kernel's client, and without its page cache. Options of the URL
/// (?version=3&uid=0&gid=0) are those of libnfs.

#include <fcntl.h>
#include <nfsc/libnfs.h>
#include <sys/stat.h>

#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

#include "load_remote/server.hpp"

namespace penstock::load_remote {
namespace {

constexpr int timeout_ms = 600'000;
constexpr int file_mode = 0640;

struct DestroyContext {
  void operator()(nfs_context* context) const { nfs_destroy_context(context); }
};
using Context = std::unique_ptr<nfs_context, DestroyContext>;

/// `code`: what a call of libnfs returned.
Result<void> done(int code, nfs_context* context, const char* what, const std::string& path) {
  if (code >= 0) return {};
  const char* said = nfs_get_error(context);
  return errno_error(-code, fmt::format("{} {} ({})", what, path, said == nullptr ? "" : said));
}

/// Mounted contexts. A context is one connection; one thread uses it at a time.
class Contexts {
 public:
  explicit Contexts(std::string url) : url_(std::move(url)) {}

  Result<Context> take() {
    {
      const std::scoped_lock lock(mutex_);
      if (!idle_.empty()) {
        auto context = std::move(idle_.back());
        idle_.pop_back();
        return context;
      }
    }
    return mounted();
  }
  void give_back(Context context) {
    const std::scoped_lock lock(mutex_);
    idle_.push_back(std::move(context));
  }

 private:
  Result<Context> mounted() const {
    Context context(nfs_init_context());
    if (!context) return make_error(Errc::out_of_memory, "libnfs has no memory for a connection");
    auto* parts = nfs_parse_url_dir(context.get(), url_.c_str());
    if (parts == nullptr)
      return make_error(Errc::invalid_argument, "backend.url {}: {}", url_, nfs_get_error(context.get()));
    nfs_set_timeout(context.get(), timeout_ms);
    nfs_set_autoreconnect(context.get(), 0);
    nfs_set_dircache(context.get(), 0);
    const int code = nfs_mount(context.get(), parts->server, parts->path);
    nfs_destroy_url(parts);
    if (code < 0) return make_error(Errc::disconnected, "cannot mount {}: {}", url_, nfs_get_error(context.get()));
    return context;
  }

  const std::string url_;
  std::mutex mutex_;
  std::vector<Context> idle_;  // guarded by mutex_
};

class NfsFile final : public load::StoredFile {
 public:
  NfsFile(Contexts& contexts, Context context, nfsfh* file, std::string path)
      : contexts_(contexts), context_(std::move(context)), file_(file), path_(std::move(path)) {}
  ~NfsFile() override {
    if (file_ != nullptr) nfs_close(context_.get(), file_);
  }

  Result<void> write(Bytes bytes, std::uint64_t offset) override {
    for (std::size_t at = 0; at < bytes.size();) {
      const int count = nfs_pwrite(context_.get(), file_, offset + at, bytes.size() - at, bytes.data() + at);
      PEN_TRY(done(count, context_.get(), "write to", path_));
      if (count == 0) return make_error(Errc::io, "{}: nothing was written at {}", path_, offset + at);
      at += static_cast<std::size_t>(count);
    }
    return {};
  }
  Result<std::size_t> read(MutableBytes into, std::uint64_t offset) override {
    std::size_t at = 0;
    while (at < into.size()) {
      const int count = nfs_pread(context_.get(), file_, offset + at, into.size() - at, into.data() + at);
      PEN_TRY(done(count, context_.get(), "read", path_));
      if (count == 0) break;
      at += static_cast<std::size_t>(count);
    }
    return at;
  }
  Result<void> sync() override { return done(nfs_fsync(context_.get(), file_), context_.get(), "sync", path_); }
  Result<void> close() override {
    PEN_TRY(done(nfs_close(context_.get(), std::exchange(file_, nullptr)), context_.get(), "close", path_));
    contexts_.give_back(std::move(context_));
    return {};
  }

 private:
  Contexts& contexts_;
  Context context_;
  nfsfh* file_;
  const std::string path_;
};

class NfsServer final : public Server {
 public:
  /// The parent of the plan's folder is mounted, and is there.
  NfsServer(std::string parent, std::string folder) : contexts_(std::move(parent)), folder_(std::move(folder)) {}

  Result<std::unique_ptr<load::StoredFile>> create(const std::string& path, const Expected&) override {
    return opened(path, O_RDWR | O_CREAT | O_EXCL, "create");
  }
  Result<std::unique_ptr<load::StoredFile>> open(const std::string& path) override {
    return opened(path, O_RDONLY, "open");
  }
  Result<std::unique_ptr<load::StoredFile>> join(const std::string& path) override {
    return opened(path, O_RDWR, "open");
  }
  Result<void> make_folder(const std::string& path) override {
    const auto made = call("create directory", path, [](auto* nfs, const char* at) { return nfs_mkdir(nfs, at); });
    return made.ok() || made.error().code() == Errc::already_exists ? Result<void>() : made;
  }
  Result<void> remove_folder(const std::string& path) override {
    return call("remove directory", path, [](auto* nfs, const char* at) { return nfs_rmdir(nfs, at); });
  }
  Result<void> look_up(const std::string& path) override {
    return call("look up", path, [](auto* nfs, const char* at) {
      nfs_stat_64 found{};
      return nfs_stat64(nfs, at, &found);
    });
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    const auto target = path_of(to);
    return call("rename", from, [&target](auto* nfs, const char* at) { return nfs_rename(nfs, at, target.c_str()); });
  }
  Result<void> remove(const std::string& path) override {
    return call("remove", path, [](auto* nfs, const char* at) { return nfs_unlink(nfs, at); });
  }
  Json describe() const override { return {{"client", "libnfs"}}; }

 private:
  std::string path_of(const std::string& path) const { return path.empty() ? folder_ : folder_ + "/" + path; }

  template <typename Call>
  Result<void> call(const char* what, const std::string& path, Call make) {
    PEN_ASSIGN(auto context, contexts_.take());
    const auto at = path_of(path);
    auto answer = done(make(context.get(), at.c_str()), context.get(), what, at);
    contexts_.give_back(std::move(context));
    return answer;
  }

  Result<std::unique_ptr<load::StoredFile>> opened(const std::string& path, int flags, const char* what) {
    PEN_ASSIGN(auto context, contexts_.take());
    nfsfh* file = nullptr;
    const auto at = path_of(path);
    PEN_TRY(done(nfs_open2(context.get(), at.c_str(), flags, file_mode, &file), context.get(), what, at));
    return std::unique_ptr<load::StoredFile>(std::make_unique<NfsFile>(contexts_, std::move(context), file, at));
  }

  Contexts contexts_;
  const std::string folder_;
};

}  // namespace

Result<std::unique_ptr<Server>> make_nfs_server(const std::string& url) {
  const auto options_at = std::min(url.find('?'), url.size());
  auto path = url.substr(0, options_at);
  while (path.back() == '/') path.pop_back();
  const auto name_at = path.rfind('/');
  if (name_at == std::string::npos || name_at < std::string_view("nfs://h").size())
    return make_error(Errc::invalid_argument, "backend.url {}: must be nfs://HOST/EXPORT/PATH", url);
  return std::unique_ptr<Server>(
      std::make_unique<NfsServer>(path.substr(0, name_at) + url.substr(options_at), path.substr(name_at)));
}

}  // namespace penstock::load_remote
