#include "load_remote/http_files.hpp"

#include <algorithm>
#include <utility>

namespace penstock::load_remote {
namespace {

/// Such a request is answered by 206; 200 is the file from its beginning (RFC 9110, 14.2).
bool has_range(const HttpRequest& request) {
  const auto is_range = [](const std::string& header) { return header.rfind("Range:", 0) == 0; };
  return std::any_of(request.headers.begin(), request.headers.end(), is_range);
}

class HttpReader final : public load::StoredFile {
 public:
  HttpReader(HttpConnections& connections, RangeRequest request, std::string path)
      : connections_(connections),
        connection_(connections.take()),
        request_(std::move(request)),
        path_(std::move(path)) {}

  Result<void> write(Bytes, std::uint64_t) override { return only_reads(path_); }
  Result<std::size_t> read(MutableBytes into, std::uint64_t offset) override {
    if (into.empty()) return std::size_t{0};
    std::size_t count = 0;
    const auto request = request_(offset, into.size());
    PEN_ASSIGN(const auto answer, connection_->ask_for(request, into, count));
    if (answer.status == 416) return std::size_t{0};  // the file ends before
    PEN_TRY(require_success(answer, "read " + path_));
    if (offset > 0 && answer.status == 200 && has_range(request))
      return make_error(Errc::unsupported, "cannot read {} at {}: the server sends files from their beginning only",
                        path_, offset);
    return count;
  }
  Result<void> sync() override { return {}; }
  Result<void> close() override {
    connections_.give_back(std::move(connection_));
    return {};
  }

 private:
  HttpConnections& connections_;
  std::unique_ptr<HttpConnection> connection_;
  const RangeRequest request_;
  const std::string path_;
};

class HttpUpload final : public load::StoredFile {
 public:
  HttpUpload(HttpConnections& connections, std::unique_ptr<HttpConnection> connection,
             std::optional<std::uint64_t> size, std::string path)
      : connections_(connections), connection_(std::move(connection)), size_(size), path_(std::move(path)) {}

  Result<void> write(Bytes bytes, std::uint64_t offset) override {
    if (offset != written_)
      return make_error(Errc::unsupported,
                        "{}: this protocol writes a file from its beginning to its end; after {} "
                        "bytes it cannot write at {}",
                        path_, written_, offset);
    PEN_TRY(connection_->push(bytes));
    written_ += bytes.size();
    return {};
  }
  Result<std::size_t> read(MutableBytes, std::uint64_t) override { return only_writes(path_); }
  /// The protocol has nothing for it: what close() says counts.
  Result<void> sync() override { return {}; }
  Result<void> close() override {
    // An upload that is shorter than it was said to be would wait for the rest.
    if (size_ && written_ < *size_)
      return make_error(Errc::cancelled, "{}: only {} of {} bytes were written, so the server does not keep it", path_,
                        written_, *size_);
    PEN_ASSIGN(const auto answer, connection_->end_upload());
    PEN_TRY(require_success(answer, "write " + path_));
    connections_.give_back(std::move(connection_));
    return {};
  }

 private:
  HttpConnections& connections_;
  std::unique_ptr<HttpConnection> connection_;
  const std::optional<std::uint64_t> size_;
  const std::string path_;
  std::uint64_t written_ = 0;
};

}  // namespace

std::unique_ptr<load::StoredFile> make_http_reader(HttpConnections& connections, RangeRequest request,
                                                   std::string path) {
  return std::make_unique<HttpReader>(connections, std::move(request), std::move(path));
}

Result<std::unique_ptr<load::StoredFile>> make_http_upload(HttpConnections& connections, const HttpRequest& request,
                                                           std::optional<std::uint64_t> size, std::string path) {
  auto connection = connections.take();
  PEN_TRY(connection->begin_upload(request, size));
  return std::unique_ptr<load::StoredFile>(
      std::make_unique<HttpUpload>(connections, std::move(connection), size, std::move(path)));
}

std::string range_header(std::uint64_t offset, std::size_t size) {
  return fmt::format("Range: bytes={}-{}", offset, offset + size - 1);
}

Error only_reads(const std::string& path) { return make_error(Errc::unsupported, "{} is open for reading only", path); }
Error only_writes(const std::string& path) {
  return make_error(Errc::unsupported, "{} is open for writing only", path);
}

}  // namespace penstock::load_remote
