/// `root://`, through the client library of XRootD. It authenticates as the user's other XRootD programs do, by its
/// environment (X509_USER_PROXY, BEARER_TOKEN, KRB5CCNAME, XRD_*).

#include <XProtocol/XProtocol.hh>
#include <XrdCl/XrdClDefaultEnv.hh>
#include <XrdCl/XrdClFile.hh>
#include <XrdCl/XrdClFileSystem.hh>
#include <XrdVersion.hh>
#include <algorithm>
#include <cctype>
#include <vector>

#include "load_remote/server.hpp"

namespace penstock::load_remote {
namespace {

using XrdCl::Access;
using XrdCl::OpenFlags;

constexpr std::uint64_t call_bytes_max = std::uint64_t{1} << 30;
const auto folder_mode = Access::UR | Access::UW | Access::UX | Access::GR | Access::GX;
const auto file_mode = Access::UR | Access::UW | Access::GR;

Errc kind_of(const XrdCl::XRootDStatus& status) {
  switch (status.errNo) {
    case kXR_NotFound: return Errc::not_found;
    case kXR_ItExists: return Errc::already_exists;
    case kXR_NotAuthorized: return Errc::permission;
    case kXR_NoSpace:
    case kXR_overQuota: return Errc::no_space;
    case kXR_Unsupported: return Errc::unsupported;
    default: return Errc::io;
  }
}

Result<void> done(const XrdCl::XRootDStatus& status, const char* what, const std::string& path) {
  if (status.IsOK()) return {};
  auto said = status.ToStr();
  const auto is_control = [](unsigned char each) { return std::iscntrl(each) != 0; };
  while (!said.empty() && is_control(said.back())) said.pop_back();
  const auto kind = kind_of(status);
  const char* room = kind == Errc::no_space ? " (no space left)" : "";
  return make_error(kind, "cannot {} {}: {}{}", what, path, said, room);
}

class XrootdFile final : public load::StoredFile {
 public:
  XrootdFile(std::unique_ptr<XrdCl::File> file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  Result<void> write(Bytes bytes, std::uint64_t offset) override {
    for (std::size_t at = 0; at < bytes.size(); at += call_bytes_max) {
      const auto size = static_cast<std::uint32_t>(std::min<std::size_t>(call_bytes_max, bytes.size() - at));
      PEN_TRY(done(file_->Write(offset + at, size, bytes.data() + at), "write to", path_));
    }
    return {};
  }
  Result<std::size_t> read(MutableBytes into, std::uint64_t offset) override {
    std::size_t at = 0;
    while (at < into.size()) {
      const auto size = static_cast<std::uint32_t>(std::min<std::size_t>(call_bytes_max, into.size() - at));
      std::uint32_t count = 0;
      PEN_TRY(done(file_->Read(offset + at, size, into.data() + at, count), "read", path_));
      if (count == 0) break;
      at += count;
    }
    return at;
  }
  Result<void> sync() override { return done(file_->Sync(), "sync", path_); }
  Result<void> close() override { return done(file_->Close(), "close", path_); }

 private:
  const std::unique_ptr<XrdCl::File> file_;
  const std::string path_;
};

class XrootdServer final : public Server {
 public:
  explicit XrootdServer(const XrdCl::URL& url)
      : host_(url.GetHostId()), scheme_(url.GetProtocol()), folder_(url.GetPath()), calls_(url) {
    while (folder_.size() > 1 && folder_.back() == '/') folder_.pop_back();
  }

  Result<std::unique_ptr<load::StoredFile>> create(const std::string& path, const Expected&) override {
    return opened(path, OpenFlags::New | OpenFlags::Write, file_mode, "create");
  }
  Result<std::unique_ptr<load::StoredFile>> open(const std::string& path) override {
    return opened(path, OpenFlags::Read, Access::None, "open");
  }
  Result<void> make_folder(const std::string& path) override {
    // A redirector reports one that is there, though a path was asked for.
    const auto made =
        done(calls_.MkDir(path_of(path), XrdCl::MkDirFlags::MakePath, folder_mode), "create directory", url_of(path));
    return made.ok() || made.error().code() == Errc::already_exists ? Result<void>() : made;
  }
  Result<void> remove_folder(const std::string& path) override {
    const auto servers = path.empty() ? servers_behind() : std::vector<std::string>();
    if (servers.empty()) return done(calls_.RmDir(path_of(path)), "remove directory", url_of(path));
    for (const auto& server : servers) {
      auto removed = done(XrdCl::FileSystem(server).RmDir(folder_), "remove directory", server + "/" + folder_);
      if (!removed.ok() && removed.error().code() != Errc::not_found) return removed;
    }
    return {};
  }
  Result<void> look_up(const std::string& path) override {
    XrdCl::StatInfo* found = nullptr;
    const auto status = calls_.Stat(path_of(path), found);
    delete found;
    return done(status, "look up", url_of(path));
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    return done(calls_.Mv(path_of(from), path_of(to)), "rename", url_of(from));
  }
  Result<void> remove(const std::string& path) override {
    return done(calls_.Rm(path_of(path)), "remove", url_of(path));
  }
  Json describe() const override { return {{"client", std::string("XrdCl ") + XrdVERSION}}; }

 private:
  /// Those of a redirector, of which each may have the directory, while a call through it reaches one. Empty: there is
  /// no redirector.
  std::vector<std::string> servers_behind() {
    XrdCl::LocationInfo* found = nullptr;
    const auto located = calls_.DeepLocate("*" + folder_, OpenFlags::None, found);
    const std::unique_ptr<XrdCl::LocationInfo> listed(found);
    std::vector<std::string> servers;
    if (!located.IsOK() || !listed || listed->GetSize() < 2) return servers;
    for (auto server = listed->Begin(); server != listed->End(); ++server) servers.push_back(server->GetAddress());
    return servers;
  }

  std::string path_of(const std::string& path) const { return path.empty() ? folder_ : folder_ + "/" + path; }

  std::string url_of(const std::string& path) const { return scheme_ + "://" + host_ + "/" + path_of(path); }

  Result<std::unique_ptr<load::StoredFile>> opened(const std::string& path, OpenFlags::Flags flags, Access::Mode mode,
                                                   const char* what) {
    auto file = std::make_unique<XrdCl::File>(false);
    // A server that fails while a file is open is what is measured: nothing is repeated behind the workload's back.
    file->SetProperty("ReadRecovery", "false");
    file->SetProperty("WriteRecovery", "false");
    const auto url = url_of(path);
    PEN_TRY(done(file->Open(url, flags, mode), what, url));
    return std::unique_ptr<load::StoredFile>(std::make_unique<XrootdFile>(std::move(file), url));
  }

  const std::string host_;
  const std::string scheme_;
  std::string folder_;
  XrdCl::FileSystem calls_;
};

}  // namespace

Result<std::unique_ptr<Server>> make_xrootd_server(const std::string& url) {
  // Unless the user says otherwise: a server that is not there is an error after seconds, not after half an hour.
  auto* environment = XrdCl::DefaultEnv::GetEnv();
  environment->PutInt("ConnectionWindow", 10);
  environment->PutInt("ConnectionRetry", 1);
  environment->PutInt("StreamErrorWindow", 10);
  const XrdCl::URL parsed(url);
  if (!parsed.IsValid() || parsed.GetPath().empty())
    return make_error(Errc::invalid_argument, "backend.url {}: must be root://HOST[:PORT]//PATH", url);
  return std::unique_ptr<Server>(std::make_unique<XrootdServer>(parsed));
}

}  // namespace penstock::load_remote
