/// `hdfs://` and `webhdfs://`, through WebHDFS: the name node's HTTP interface says which data node takes a file or has
/// a block, and the data goes there.

#include <algorithm>
#include <cstdlib>

#include "load_remote/http_files.hpp"
#include "load_remote/server.hpp"

namespace penstock::load_remote {
namespace {

/// Of the name node's HTTP interface, unless it is said: `hdfs://` names the port of another one.
constexpr const char* http_port = "9870";

/// Where a port begins in HOST:PORT or [ADDRESS]:PORT; its size without one.
std::size_t port_at(const std::string& host) {
  const auto at = host.find(':', host.front() == '[' ? std::min(host.find(']'), host.size()) : 0);
  return std::min(at, host.size());
}

class HdfsServer final : public Server {
 public:
  /// `url`: of the folder below `/webhdfs/v1`.
  HdfsServer(std::string url, std::string folder, const std::string& user)
      : url_(std::move(url)),
        folder_(std::move(folder)),
        user_(user.empty() ? "" : "&user.name=" + user),
        connections_({}) {}

  Result<std::unique_ptr<load::StoredFile>> create(const std::string& path, const Expected&) override {
    PEN_ASSIGN(const auto where, connections_.ask({"PUT", of(path, "CREATE&overwrite=false"), {}, "", false}));
    if (where.status != 307) {
      PEN_TRY(require_success(where, "create " + path));
      return make_error(Errc::io, "cannot create {}: the name node names no data node", path);
    }
    const auto found = where.headers.find("location");
    if (found == where.headers.end()) return make_error(Errc::malformed, "{}: an answer without Location", path);
    return make_http_upload(connections_, {"PUT", found->second, {"Expect:"}, "", false}, std::nullopt, path);
  }
  Result<std::unique_ptr<load::StoredFile>> open(const std::string& path) override {
    const auto url = of(path, "OPEN");
    return make_http_reader(
        connections_,
        [url](std::uint64_t offset, std::size_t size) {
          return HttpRequest{"GET", url + fmt::format("&offset={}&length={}", offset, size), {}, "", true};
        },
        path);
  }
  Result<void> make_folder(const std::string& path) override { return call("PUT", path, "MKDIRS"); }
  Result<void> remove_folder(const std::string& path) override { return call("DELETE", path, "DELETE"); }
  Result<void> look_up(const std::string& path) override { return call("GET", path, "GETFILESTATUS"); }
  Result<void> rename(const std::string& from, const std::string& to) override {
    return call("PUT", from, "RENAME&destination=" + path_of(to));
  }
  Result<void> remove(const std::string& path) override { return call("DELETE", path, "DELETE"); }
  Json describe() const override { return {{"client", "WebHDFS, " + http_client()}}; }

 private:
  std::string path_of(const std::string& path) const { return path.empty() ? folder_ : folder_ + "/" + path; }
  std::string of(const std::string& path, const std::string& operation) const {
    return url_ + path_of(path) + "?op=" + operation + user_;
  }
  Result<void> call(const char* method, const std::string& path, const std::string& operation) {
    PEN_ASSIGN(const auto answer, connections_.ask({method, of(path, operation), {}, "", true}));
    PEN_TRY(require_success(answer, operation.substr(0, operation.find('&')) + " " + path_of(path)));
    if (answer.body.find("\"boolean\":false") == std::string::npos) return {};
    // It says no more about the reason. What cannot be deleted is not there.
    return make_error(operation == "DELETE" ? Errc::not_found : Errc::io, "cannot {} {}: the name node says no",
                      operation.substr(0, operation.find('&')), path_of(path));
  }

  const std::string url_;
  const std::string folder_;
  const std::string user_;
  HttpConnections connections_;
};

}  // namespace

/// `hdfs://HOST[:PORT]/PATH`, or `webhdfs://HOST:PORT/PATH` with the port of the HTTP interface.
Result<std::unique_ptr<Server>> make_hdfs_server(const std::string& url) {
  const auto scheme_end = url.find("://");
  auto rest = url.substr(scheme_end + 3);
  while (!rest.empty() && rest.back() == '/') rest.pop_back();
  const auto path_at = rest.find('/');
  if (path_at == std::string::npos || path_at == 0)
    return make_error(Errc::invalid_argument, "backend.url {}: must be hdfs://HOST[:PORT]/PATH", url);
  auto host = rest.substr(0, path_at);
  if (url.substr(0, scheme_end) == "hdfs") host = host.substr(0, port_at(host)) + ":" + http_port;
  const char* user = std::getenv("HADOOP_USER_NAME");
  return std::unique_ptr<Server>(std::make_unique<HdfsServer>("http://" + host + "/webhdfs/v1", rest.substr(path_at),
                                                              user == nullptr ? "" : user));
}

}  // namespace penstock::load_remote
