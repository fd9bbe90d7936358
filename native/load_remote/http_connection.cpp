#include "load_remote/http_connection.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <regex>
#include <utility>

namespace penstock::load_remote {
namespace {

constexpr long connect_ms = 10'000;
constexpr int poll_ms = 1000;
/// Of an answer that nobody asked for the bytes of: what an error says.
constexpr std::size_t body_bytes_max = 4096;
constexpr std::size_t shown_max = 300;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string bearer_token() {
  if (auto token = variable("BEARER_TOKEN"); !token.empty()) return token;
  std::string token;
  if (const auto path = variable("BEARER_TOKEN_FILE"); !path.empty()) std::ifstream(path) >> token;
  return token;
}

Errc kind_of(long status) {
  switch (status) {
    case 401:
    case 403: return Errc::permission;
    case 404: return Errc::not_found;
    case 409:
    case 412: return Errc::already_exists;
    case 413:
    case 507: return Errc::no_space;
    case 405:
    case 501: return Errc::unsupported;
    default: return Errc::io;
  }
}

/// Of HTML or XML, as most servers answer.
std::string without_tags(const std::string& markup) {
  static const std::regex tag("<[^>]*>"), spaces("\\s+");
  auto text = std::regex_replace(std::regex_replace(markup, tag, " "), spaces, " ");
  text.erase(0, text.find_first_not_of(' '));
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

/// One line of what a server said.
std::string shown(std::string body) {
  if (!body.empty() && body.front() == '<') body = without_tags(body);
  std::replace_if(
      body.begin(), body.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  if (body.size() > shown_max) body = body.substr(0, shown_max) + "…";
  return body.empty() ? "" : ": " + body;
}

void start_library() {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_ALL);
  (void)started;
}

}  // namespace

std::string http_client() { return std::string("libcurl ") + curl_version_info(CURLVERSION_NOW)->version; }

HttpAccess access_of_environment(const std::string& url) {
  if (url.rfind("https://", 0) != 0) return {};
  return {.sigv4 = "",
          .userpwd = "",
          .session = "",
          .bearer = bearer_token(),
          .proxy = variable("X509_USER_PROXY"),
          .ca_folder = variable("X509_CERT_DIR")};
}

Result<void> require_success(const HttpAnswer& answer, const std::string& what) {
  if (answer.status >= 200 && answer.status < 300) return {};
  const auto kind = kind_of(answer.status);
  return make_error(kind, "cannot {}: the server answered {}{}{}", what, answer.status, shown(answer.body),
                    kind == Errc::no_space ? " (no space left)" : "");
}

HttpConnection::HttpConnection(const HttpAccess& access)
    : access_(access), multi_(curl_multi_init()), easy_(curl_easy_init()) {}

HttpConnection::~HttpConnection() {
  give_up();
  curl_slist_free_all(headers_);
  curl_easy_cleanup(easy_);
  curl_multi_cleanup(multi_);
}

Result<void> HttpConnection::prepare(const HttpRequest& request) {
  if (easy_ == nullptr || multi_ == nullptr) return make_error(Errc::out_of_memory, "libcurl has no memory");
  give_up();
  curl_easy_reset(easy_);
  curl_slist_free_all(std::exchange(headers_, nullptr));
  for (const auto& header : request.headers) headers_ = curl_slist_append(headers_, header.c_str());
  if (!access_.session.empty())
    headers_ = curl_slist_append(headers_, ("x-amz-security-token: " + access_.session).c_str());
  url_ = request.url;
  method_ = request.method;
  answer_ = {};
  into_ = {};
  taken_ = 0;
  problem_[0] = '\0';
  curl_easy_setopt(easy_, CURLOPT_URL, url_.c_str());
  curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, method_.c_str());
  curl_easy_setopt(easy_, CURLOPT_NOBODY, method_ == "HEAD" ? 1L : 0L);
  curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, headers_);
  curl_easy_setopt(easy_, CURLOPT_FOLLOWLOCATION, request.follow ? 1L : 0L);
  curl_easy_setopt(easy_, CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS, connect_ms);
  curl_easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, problem_);
  curl_easy_setopt(easy_, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_OPTIONAL));
  curl_easy_setopt(easy_, CURLOPT_BUFFERSIZE, 512L << 10);
  curl_easy_setopt(easy_, CURLOPT_UPLOAD_BUFFERSIZE, 2L << 20);
  curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &HttpConnection::take);
  curl_easy_setopt(easy_, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(easy_, CURLOPT_HEADERFUNCTION, &HttpConnection::take_header);
  curl_easy_setopt(easy_, CURLOPT_HEADERDATA, this);
  if (!access_.sigv4.empty()) {
    curl_easy_setopt(easy_, CURLOPT_AWS_SIGV4, access_.sigv4.c_str());
    curl_easy_setopt(easy_, CURLOPT_USERPWD, access_.userpwd.c_str());
  } else if (!access_.bearer.empty()) {
    curl_easy_setopt(easy_, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(easy_, CURLOPT_XOAUTH2_BEARER, access_.bearer.c_str());
  }
  if (!access_.proxy.empty()) {
    curl_easy_setopt(easy_, CURLOPT_SSLCERT, access_.proxy.c_str());
    curl_easy_setopt(easy_, CURLOPT_SSLKEY, access_.proxy.c_str());
  }
  if (!access_.ca_folder.empty()) curl_easy_setopt(easy_, CURLOPT_CAPATH, access_.ca_folder.c_str());
  if (!request.body.empty()) {
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(easy_, CURLOPT_COPYPOSTFIELDS, request.body.c_str());
  }
  return {};
}

Result<void> HttpConnection::start() {
  code_.reset();
  if (const auto added = curl_multi_add_handle(multi_, easy_); added != CURLM_OK)
    return make_error(Errc::io, "{}: {}", what(), curl_multi_strerror(added));
  running_ = true;
  return {};
}

void HttpConnection::give_up() {
  if (running_) curl_multi_remove_handle(multi_, easy_);
  running_ = false;
}

Result<void> HttpConnection::drive(bool to_the_end) {
  while (running_ && (to_the_end || !upload_.left.empty())) {
    int active = 0;
    auto code = curl_multi_perform(multi_, &active);
    int left = 0;
    while (const auto* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg == CURLMSG_DONE) code_ = message->data.result;
    }
    if (code_) {
      give_up();
      break;
    }
    if (to_the_end || !upload_.left.empty()) code = curl_multi_poll(multi_, nullptr, 0, poll_ms, nullptr);
    if (code == CURLM_OK) continue;
    give_up();
    return make_error(Errc::io, "{}: {}", what(), curl_multi_strerror(code));
  }
  return {};
}

std::string HttpConnection::what() const { return method_ + " " + url_.substr(0, url_.find('?')); }

Result<HttpAnswer> HttpConnection::ended() {
  if (!code_ || *code_ != CURLE_OK) {
    if (taken_ > 0 && taken_ == into_.size())
      return make_error(Errc::mismatch, "{}: the server sent more than the {} bytes that were requested", what(),
                        taken_);
    const char* said = problem_[0] != '\0' ? problem_ : code_ ? curl_easy_strerror(*code_) : "it did not end";
    return make_error(Errc::disconnected, "{}: {}", what(), said);
  }
  curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &answer_.status);
  return std::move(answer_);
}

Result<HttpAnswer> HttpConnection::ask(const HttpRequest& request) {
  PEN_TRY(prepare(request));
  PEN_TRY(start());
  PEN_TRY(drive(true));
  return ended();
}

Result<HttpAnswer> HttpConnection::ask_for(const HttpRequest& request, MutableBytes into, std::size_t& count) {
  PEN_TRY(prepare(request));
  into_ = into;
  PEN_TRY(start());
  PEN_TRY(drive(true));
  count = taken_;
  return ended();
}

Result<void> HttpConnection::begin_upload(const HttpRequest& request, std::optional<std::uint64_t> size) {
  PEN_TRY(prepare(request));
  upload_ = {};
  curl_easy_setopt(easy_, CURLOPT_UPLOAD, 1L);
  curl_easy_setopt(easy_, CURLOPT_READFUNCTION, &HttpConnection::give);
  curl_easy_setopt(easy_, CURLOPT_READDATA, this);
  curl_easy_setopt(easy_, CURLOPT_SEEKFUNCTION, &HttpConnection::rewind);
  curl_easy_setopt(easy_, CURLOPT_SEEKDATA, this);
  curl_easy_setopt(easy_, CURLOPT_INFILESIZE_LARGE, size ? static_cast<curl_off_t>(*size) : curl_off_t{-1});
  return start();
}

Result<void> HttpConnection::push(Bytes bytes) {
  upload_.left = bytes;
  if (std::exchange(upload_.paused, false)) curl_easy_pause(easy_, CURLPAUSE_CONT);
  PEN_TRY(drive(false));
  if (running_) return {};
  // The server answered before it had everything, which is an error.
  PEN_ASSIGN(const auto answer, ended());
  PEN_TRY(require_success(answer, what()));
  return make_error(Errc::io, "{}: the server answered {} before it had all bytes", what(), answer.status);
}

Result<HttpAnswer> HttpConnection::end_upload() {
  upload_.complete = true;
  if (std::exchange(upload_.paused, false)) curl_easy_pause(easy_, CURLPAUSE_CONT);
  PEN_TRY(drive(true));
  return ended();
}

std::size_t HttpConnection::give(char* to, std::size_t size, std::size_t count, void* self) {
  auto& own = *static_cast<HttpConnection*>(self);
  const auto bytes = std::min(size * count, own.upload_.left.size());
  if (bytes == 0) {
    own.upload_.paused = !own.upload_.complete;
    return own.upload_.complete ? 0 : CURL_READFUNC_PAUSE;
  }
  std::memcpy(to, own.upload_.left.data(), bytes);
  own.upload_.left = own.upload_.left.subspan(bytes);
  own.upload_.given += bytes;
  return bytes;
}

/// A redirection starts the upload again. Bytes that are gone by then may not be there any more.
int HttpConnection::rewind(void* self, curl_off_t offset, int origin) {
  const auto& own = *static_cast<HttpConnection*>(self);
  const bool is_there = origin == SEEK_SET && offset == 0 && own.upload_.given == 0;
  return is_there ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_CANTSEEK;
}

std::size_t HttpConnection::take(const char* from, std::size_t size, std::size_t count, void* self) {
  auto& own = *static_cast<HttpConnection*>(self);
  const auto bytes = size * count;
  long status = 0;
  curl_easy_getinfo(own.easy_, CURLINFO_RESPONSE_CODE, &status);
  if (own.into_.empty() || status >= 300) {
    own.answer_.body.append(from, std::min(bytes, body_bytes_max - std::min(body_bytes_max, own.answer_.body.size())));
    return bytes;
  }
  const auto fits = std::min(bytes, own.into_.size() - own.taken_);
  std::memcpy(own.into_.data() + own.taken_, from, fits);
  own.taken_ += fits;
  return fits;  // fewer: a server that sends more than it was asked for ends the request
}

std::size_t HttpConnection::take_header(const char* from, std::size_t size, std::size_t count, void* self) {
  auto& own = *static_cast<HttpConnection*>(self);
  const std::string_view line(from, size * count);
  const auto colon = line.find(':');
  if (line.substr(0, 5) == "HTTP/") {
    own.answer_.headers.clear();  // of the next answer
    own.answer_.body.clear();
  }
  if (colon == std::string_view::npos) return size * count;
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  auto value = line.substr(colon + 1);
  while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
  while (!value.empty() && (value.back() == '\r' || value.back() == '\n')) value.remove_suffix(1);
  own.answer_.headers[name] = std::string(value);
  return size * count;
}

HttpConnections::HttpConnections(HttpAccess access) : access_(std::move(access)) { start_library(); }

std::unique_ptr<HttpConnection> HttpConnections::take() {
  const std::scoped_lock lock(mutex_);
  if (idle_.empty()) return std::make_unique<HttpConnection>(access_);
  auto connection = std::move(idle_.back());
  idle_.pop_back();
  return connection;
}

void HttpConnections::give_back(std::unique_ptr<HttpConnection> connection) {
  const std::scoped_lock lock(mutex_);
  idle_.push_back(std::move(connection));
}

Result<HttpAnswer> HttpConnections::ask(const HttpRequest& request) {
  auto connection = take();
  auto answer = connection->ask(request);
  if (answer.ok()) give_back(std::move(connection));
  return answer;
}

}  // namespace penstock::load_remote
