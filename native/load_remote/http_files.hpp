/// Files that go through an HTTP server: read in ranges, and written from their beginning to their end in one upload.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "load/backends/backend.hpp"
#include "load_remote/http_connection.hpp"

namespace penstock::load_remote {

/// Asks for a part of a file, from `offset` on, of `size` bytes.
using RangeRequest = std::function<HttpRequest(std::uint64_t offset, std::size_t size)>;

/// Reads: each read is a request.
std::unique_ptr<load::StoredFile> make_http_reader(HttpConnections& connections, RangeRequest request,
                                                   std::string path);

/// Writes one upload, which ends when the file is closed: only then the server says that it has it. `size` nullopt:
/// unknown.
Result<std::unique_ptr<load::StoredFile>> make_http_upload(HttpConnections& connections, const HttpRequest& request,
                                                           std::optional<std::uint64_t> size, std::string path);

/// What HTTP has for a part of a file.
std::string range_header(std::uint64_t offset, std::size_t size);
Error only_reads(const std::string& path);
Error only_writes(const std::string& path);

}  // namespace penstock::load_remote
