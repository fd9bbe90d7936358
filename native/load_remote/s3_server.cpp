/// `s3://`: a store of objects that knows signatures of version 4. A file that is written in several transfers is an
/// upload of several parts, as other clients make it.

#include <cctype>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "load_remote/http_files.hpp"
#include "load_remote/server.hpp"

namespace penstock::load_remote {
namespace {

/// What the protocol allows (Amazon S3 User Guide, multipart upload limits).
constexpr std::uint64_t part_bytes_min = 5 << 20;
constexpr std::uint64_t parts_max = 10'000;
/// Of a list of uploads: bytes of one answer, and answers.
constexpr std::size_t page_bytes_max = 1 << 20;
constexpr unsigned pages_max = 1000;
constexpr const char* no_hash = "x-amz-content-sha256: UNSIGNED-PAYLOAD";
constexpr const char* no_type = "Content-Type: application/octet-stream";

std::string variable(const char* name, const std::string& otherwise = "") {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

/// The text of an element; empty where there is none.
std::string element(const std::string& xml, const std::string& name) {
  const auto begin = xml.find("<" + name + ">");
  if (begin == std::string::npos) return "";
  const auto from = begin + name.size() + 2;
  const auto end = xml.find("</" + name + ">", from);
  return end == std::string::npos ? "" : xml.substr(from, end - from);
}

std::string percent_encoded(const std::string& text) {
  std::string encoded;
  for (const unsigned char each : text) {
    if (std::isalnum(each) != 0 || each == '-' || each == '.' || each == '_' || each == '~')
      encoded += static_cast<char>(each);
    else
      encoded += fmt::format("%{:02X}", each);
  }
  return encoded;
}

/// An upload of several parts. Each write is one of them, at whatever place.
class PartsFile final : public load::StoredFile {
 public:
  PartsFile(HttpConnections& connections, std::string url, const std::string& id, std::uint64_t part_bytes)
      : connections_(connections),
        connection_(connections.take()),
        url_(std::move(url)),
        id_(percent_encoded(id)),
        part_bytes_(part_bytes) {}
  /// What is not complete takes space on the server until it is removed.
  ~PartsFile() override {
    if (!closed_) (void)connection_->ask({"DELETE", url_ + "?uploadId=" + id_, {no_hash}, "", false});
  }

  Result<void> write(Bytes bytes, std::uint64_t offset) override {
    const auto number = offset / part_bytes_ + 1;
    const auto url = fmt::format("{}?partNumber={}&uploadId={}", url_, number, id_);
    PEN_TRY(connection_->begin_upload({"PUT", url, {no_hash, no_type}, "", false}, bytes.size()));
    PEN_TRY(connection_->push(bytes));
    PEN_ASSIGN(auto answer, connection_->end_upload());
    PEN_TRY(require_success(answer, fmt::format("write part {} of {}", number, url_)));
    tags_[number] = answer.headers["etag"];
    return {};
  }
  Result<std::size_t> read(MutableBytes, std::uint64_t) override { return only_writes(url_); }
  Result<void> sync() override { return {}; }
  Result<void> close() override {
    std::string parts;
    for (const auto& [number, tag] : tags_)
      parts += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", number, tag);
    const auto body = "<CompleteMultipartUpload>" + parts + "</CompleteMultipartUpload>";
    PEN_ASSIGN(const auto answer,
               connection_->ask({"POST", url_ + "?uploadId=" + id_, {no_hash, "Content-Type: text/xml"}, body, false}));
    PEN_TRY(require_success(answer, "complete " + url_));
    // The status is sent before the work is done; an error follows in the body.
    if (const auto said = element(answer.body, "Code"); !said.empty())
      return make_error(Errc::io, "cannot complete {}: {}: {}", url_, said, element(answer.body, "Message"));
    closed_ = true;
    connections_.give_back(std::move(connection_));
    return {};
  }

 private:
  HttpConnections& connections_;
  std::unique_ptr<HttpConnection> connection_;
  const std::string url_;
  const std::string id_;
  const std::uint64_t part_bytes_;
  std::map<std::uint64_t, std::string> tags_;
  bool closed_ = false;
};

class S3Server final : public Server {
 public:
  /// `bucket_url`: with the bucket in its path. `prefix` of all keys.
  S3Server(std::string bucket_url, std::string prefix, HttpAccess access)
      : bucket_url_(std::move(bucket_url)), prefix_(std::move(prefix)), connections_(std::move(access)) {}

  Result<std::unique_ptr<load::StoredFile>> create(const std::string& path, const Expected& expected) override {
    const auto url = url_of(path);
    if (expected.file_bytes == expected.write_bytes)
      return make_http_upload(connections_, {"PUT", url, {no_hash, no_type}, "", false}, expected.file_bytes, url);
    const auto parts = expected.file_bytes / std::max<std::uint64_t>(1, expected.write_bytes);
    if (expected.write_bytes < part_bytes_min || parts > parts_max)
      return make_error(Errc::unsupported,
                        "{}: an object in several parts has at most {} of at least {} bytes each, and this one would "
                        "have parts of {} bytes; use a transfer size of 8 MiB or more, or objects of one transfer",
                        path, parts_max, part_bytes_min, expected.write_bytes);
    PEN_ASSIGN(const auto answer, connections_.ask({"POST", url + "?uploads=", {no_hash, no_type}, "", false}));
    PEN_TRY(require_success(answer, "begin " + url));
    const auto id = element(answer.body, "UploadId");
    if (id.empty()) return make_error(Errc::malformed, "{}: an upload without UploadId", url);
    return std::unique_ptr<load::StoredFile>(std::make_unique<PartsFile>(connections_, url, id, expected.write_bytes));
  }
  Result<std::unique_ptr<load::StoredFile>> open(const std::string& path) override {
    const auto url = url_of(path);
    return make_http_reader(
        connections_,
        [url](std::uint64_t offset, std::size_t size) {
          return HttpRequest{"GET", url, {no_hash, range_header(offset, size)}, "", false};
        },
        url);
  }
  /// There are no folders: a key has slashes in it, and needs nothing before it.
  Result<void> make_folder(const std::string&) override { return {}; }
  /// What is left of that of the URL: uploads that a client did not complete. Their parts take space.
  Result<void> remove_folder(const std::string& path) override {
    for (unsigned page = 0; path.empty() && page < pages_max; ++page) {
      PEN_ASSIGN(const auto uploads, incomplete_uploads());
      if (uploads.empty()) break;
      for (const auto& [key, id] : uploads) PEN_TRY(forget(key, id));
    }
    return {};
  }
  Result<void> look_up(const std::string& path) override { return call("HEAD", path); }
  Result<void> rename(const std::string& from, const std::string&) override {
    return make_error(Errc::unsupported, "{}: this protocol does not rename", from);
  }
  Result<void> remove(const std::string& path) override { return call("DELETE", path); }
  Json describe() const override { return {{"client", http_client()}}; }

 private:
  using Uploads = std::vector<std::pair<std::string, std::string>>;

  /// Keys and upload IDs below the prefix. Empty from a server that does not list them.
  Result<Uploads> incomplete_uploads() {
    const auto url = fmt::format("{}?max-uploads=100&prefix={}&uploads=", bucket_url_, percent_encoded(prefix_));
    std::string page(page_bytes_max, '\0');
    std::size_t size = 0;
    const auto into = std::as_writable_bytes(std::span(page));
    auto connection = connections_.take();
    PEN_ASSIGN(const auto answer, connection->ask_for({"GET", url, {no_hash}, "", false}, into, size));
    connections_.give_back(std::move(connection));
    const auto listed = require_success(answer, "list incomplete uploads in " + bucket_url_);
    if (!listed.ok()) return listed.error().code() == Errc::unsupported ? Result<Uploads>(Uploads()) : listed.error();
    page.resize(size);
    Uploads uploads;
    for (auto at = page.find("<Upload>"); at != std::string::npos; at = page.find("<Upload>", at + 1)) {
      const auto one = page.substr(at, page.find("</Upload>", at) - at);
      if (auto key = element(one, "Key"); !prefix_.empty() && key.rfind(prefix_, 0) == 0)
        uploads.emplace_back(std::move(key), element(one, "UploadId"));
    }
    return uploads;
  }
  Result<void> forget(const std::string& key, const std::string& id) {
    const auto url = bucket_url_ + "/" + key;
    PEN_ASSIGN(const auto answer,
               connections_.ask({"DELETE", url + "?uploadId=" + percent_encoded(id), {no_hash}, "", false}));
    return answer.status == 404 ? Result<void>() : require_success(answer, "abort the upload of " + url);
  }

  std::string url_of(const std::string& path) const { return bucket_url_ + "/" + prefix_ + path; }
  Result<void> call(const char* method, const std::string& path) {
    PEN_ASSIGN(const auto answer, connections_.ask({method, url_of(path), {no_hash}, "", false}));
    return require_success(answer, std::string(method) + " " + url_of(path));
  }

  const std::string bucket_url_;
  const std::string prefix_;
  HttpConnections connections_;
};

}  // namespace

/// `s3://HOST:PORT/BUCKET/PREFIX` (`s3s` with TLS), or `s3://BUCKET/PREFIX` of the endpoint that AWS_ENDPOINT_URL
/// names.
Result<std::unique_ptr<Server>> make_s3_server(const std::string& url) {
  const auto scheme_end = url.find("://");
  auto rest = url.substr(scheme_end + 3);
  const bool has_port = rest.substr(0, rest.find('/')).find(':') != std::string::npos;
  const bool tls = url.substr(0, scheme_end) == "s3s";
  std::string endpoint = tls ? "https://" : "http://";
  if (has_port || tls) {
    const auto path_at = std::min(rest.find('/'), rest.size());
    endpoint += rest.substr(0, path_at);
    rest = rest.substr(std::min(path_at + 1, rest.size()));
  } else {
    endpoint = variable("AWS_ENDPOINT_URL");
    while (!endpoint.empty() && endpoint.back() == '/') endpoint.pop_back();
  }
  const auto bucket = rest.substr(0, rest.find('/'));
  auto prefix = rest.size() > bucket.size() ? rest.substr(bucket.size() + 1) : "";
  while (!prefix.empty() && prefix.back() == '/') prefix.pop_back();
  if (endpoint.empty() || bucket.empty())
    return make_error(Errc::invalid_argument,
                      "backend.url {}: must be s3://HOST:PORT/BUCKET/PREFIX (s3s:// with TLS), or s3://BUCKET/PREFIX "
                      "with the endpoint in AWS_ENDPOINT_URL",
                      url);
  const auto key = variable("AWS_ACCESS_KEY_ID"), secret = variable("AWS_SECRET_ACCESS_KEY");
  if (key.empty() || secret.empty())
    return make_error(Errc::permission, "{}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", url);
  const auto region = variable("AWS_REGION", variable("AWS_DEFAULT_REGION", "us-east-1"));
  HttpAccess access;
  access.sigv4 = "aws:amz:" + region + ":s3";
  access.userpwd = key + ":" + secret;
  access.session = variable("AWS_SESSION_TOKEN");
  return std::unique_ptr<Server>(
      std::make_unique<S3Server>(endpoint + "/" + bucket, prefix.empty() ? "" : prefix + "/", std::move(access)));
}

}  // namespace penstock::load_remote
