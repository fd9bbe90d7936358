/// `http://`, `https://`: WebDAV, as Apache, dCache, XRootD and EOS offer it.

#include <iterator>
#include <regex>

#include "load_remote/http_files.hpp"
#include "load_remote/server.hpp"

namespace penstock::load_remote {
namespace {

constexpr const char* only_kind =
    R"(<?xml version="1.0"?><propfind xmlns="DAV:"><prop><resourcetype/></prop></propfind>)";

/// The directory itself and what is in it (RFC 4918, 9.1), as far as the text goes.
std::size_t responses_in(const std::string& multistatus) {
  static const std::regex response("<([A-Za-z0-9_.-]+:)?response[ >]");
  return static_cast<std::size_t>(
      std::distance(std::sregex_iterator(multistatus.begin(), multistatus.end(), response), std::sregex_iterator()));
}

class DavServer final : public Server {
 public:
  explicit DavServer(std::string url) : url_(std::move(url)), connections_(access_of_environment(url_)) {}

  /// If-None-Match keeps a file that is there; servers that do not know it overwrite, and the names here are unique. A
  /// server that sends the upload elsewhere says so before it has the bytes, which cannot be sent again.
  Result<std::unique_ptr<load::StoredFile>> create(const std::string& path, const Expected& expected) override {
    const auto size = expected.file_bytes > 0 ? std::optional(expected.file_bytes) : std::nullopt;
    const std::vector<std::string> headers = {"If-None-Match: *", "Expect: 100-continue"};
    return make_http_upload(connections_, {"PUT", url_of(path), headers, "", true}, size, url_of(path));
  }
  Result<std::unique_ptr<load::StoredFile>> open(const std::string& path) override {
    const auto url = url_of(path);
    return make_http_reader(
        connections_,
        [url](std::uint64_t offset, std::size_t size) {
          return HttpRequest{"GET", url, {range_header(offset, size)}, "", true};
        },
        url);
  }
  Result<void> make_folder(const std::string& path) override {
    PEN_ASSIGN(const auto answer, connections_.ask({"MKCOL", url_of(path) + "/", {}, "", false}));
    // There already (RFC 4918, 9.3.1).
    return answer.status == 405 ? Result<void>() : require_success(answer, "create directory " + url_of(path));
  }
  Result<void> remove_folder(const std::string& path) override {
    // Below it everything is the run's, and what is measured is one request.
    if (path.empty()) PEN_TRY(require_empty());
    return call("DELETE", path, "/", {});
  }
  Result<void> look_up(const std::string& path) override { return call("HEAD", path, "", {}); }
  Result<void> rename(const std::string& from, const std::string& to) override {
    return call("MOVE", from, "", {"Destination: " + url_of(to), "Overwrite: F"});
  }
  Result<void> remove(const std::string& path) override { return call("DELETE", path, "", {}); }
  Json describe() const override { return {{"client", http_client()}}; }

 private:
  /// Of the URL's own directory: with something in it that a user put there, it stays.
  Result<void> require_empty() {
    const HttpRequest request{"PROPFIND", url_ + "/", {"Depth: 1", "Content-Type: application/xml"}, only_kind, false};
    PEN_ASSIGN(const auto answer, connections_.ask(request));
    PEN_TRY(require_success(answer, "list " + url_));
    if (responses_in(answer.body) == 1) return {};
    return make_error(Errc::io, "{} has more in it than the run created", url_);
  }

  std::string url_of(const std::string& path) const { return path.empty() ? url_ : url_ + "/" + path; }

  Result<void> call(const char* method, const std::string& path, const char* end, std::vector<std::string> headers) {
    PEN_ASSIGN(const auto answer, connections_.ask({method, url_of(path) + end, std::move(headers), "", true}));
    return require_success(answer, std::string(method) + " " + url_of(path));
  }

  const std::string url_;
  HttpConnections connections_;
};

}  // namespace

Result<std::unique_ptr<Server>> make_dav_server(const std::string& url) {
  auto folder = url;
  while (folder.back() == '/') folder.pop_back();
  if (folder.find('/', folder.find("://") + 3) == std::string::npos)
    return make_error(Errc::invalid_argument, "backend.url {}: must be http://HOST[:PORT]/PATH", url);
  return std::unique_ptr<Server>(std::make_unique<DavServer>(folder));
}

}  // namespace penstock::load_remote
