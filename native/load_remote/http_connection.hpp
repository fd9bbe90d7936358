/// One HTTP connection of libcurl, and the requests that go through it one after another.
#pragma once

#include <curl/curl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace penstock::load_remote {

struct HttpRequest {
  std::string method;
  std::string url;
  std::vector<std::string> headers;  ///< "Name: value"
  std::string body;                  ///< sent at once; uploads use push()
  bool follow = false;               ///< goes where the answer says, as WebHDFS and dCache do for data
};

struct HttpAnswer {
  long status = 0;
  std::string body;                            ///< its first bytes, where they do not go elsewhere
  std::map<std::string, std::string> headers;  ///< names in lower case
};

/// The library and its version.
std::string http_client();

/// How requests are signed or authorised.
struct HttpAccess {
  std::string sigv4;      ///< as CURLOPT_AWS_SIGV4; empty: not signed
  std::string userpwd;    ///< of the signature
  std::string session;    ///< token of temporary keys; empty: none
  std::string bearer;     ///< token; empty: none
  std::string proxy;      ///< file of an X.509 proxy certificate; empty: none
  std::string ca_folder;  ///< of certification authorities; empty: those of the system
};
/// BEARER_TOKEN or BEARER_TOKEN_FILE, X509_USER_PROXY and X509_CERT_DIR, as the grid's clients have them. Without TLS
/// none: others would read the token. Passwords come from ~/.netrc.
HttpAccess access_of_environment(const std::string& url);

/// An error unless the status is one of success; it has what the server said.
Result<void> require_success(const HttpAnswer& answer, const std::string& what);

/// One thread uses it at a time. The connection stays open from request to request, to each server.
class HttpConnection {
 public:
  explicit HttpConnection(const HttpAccess& access);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  Result<HttpAnswer> ask(const HttpRequest& request);
  /// What the answer has goes to `into`, as much as fits; how many bytes that were is in `count`.
  Result<HttpAnswer> ask_for(const HttpRequest& request, MutableBytes into, std::size_t& count);

  /// An upload: begin, push pieces, end. `size` of all pieces, or nullopt where that is unknown.
  Result<void> begin_upload(const HttpRequest& request, std::optional<std::uint64_t> size);
  /// Returns when the bytes are handed over. They stay valid until then.
  Result<void> push(Bytes bytes);
  Result<HttpAnswer> end_upload();

 private:
  static std::size_t give(char* to, std::size_t size, std::size_t count, void* self);
  static int rewind(void* self, curl_off_t offset, int origin);
  static std::size_t take(const char* from, std::size_t size, std::size_t count, void* self);
  static std::size_t take_header(const char* from, std::size_t size, std::size_t count, void* self);

  Result<void> prepare(const HttpRequest& request);
  Result<void> start();
  /// Until the transfer has ended, or what was pushed is handed over.
  Result<void> drive(bool to_the_end);
  Result<HttpAnswer> ended();
  void give_up();
  /// For errors. What follows "?" is left out: servers put tokens into the URLs to which they send a client.
  std::string what() const;

  const HttpAccess access_;
  CURLM* multi_;
  CURL* easy_;
  curl_slist* headers_ = nullptr;
  char problem_[CURL_ERROR_SIZE] = {};
  std::string url_;
  std::string method_;
  bool running_ = false;
  std::optional<CURLcode> code_;

  struct Upload {
    Bytes left;               ///< what is handed over next
    std::uint64_t given = 0;  ///< bytes before that
    bool complete = false;    ///< nothing more comes
    bool paused = false;
  };
  Upload upload_;

  HttpAnswer answer_;
  MutableBytes into_;
  std::size_t taken_ = 0;
};

/// Connections that are not in use. Safe from several threads.
class HttpConnections {
 public:
  explicit HttpConnections(HttpAccess access);
  std::unique_ptr<HttpConnection> take();
  void give_back(std::unique_ptr<HttpConnection> connection);
  /// One request, on a connection of the idle ones.
  Result<HttpAnswer> ask(const HttpRequest& request);

 private:
  const HttpAccess access_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<HttpConnection>> idle_;  // guarded by mutex_
};

}  // namespace penstock::load_remote
