/// A storage that is spoken to by its protocol, without a mount point. A new protocol is one file, and a line in
/// make_server().
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fields.hpp"
#include "base/result.hpp"
#include "load/backends/backend.hpp"

namespace penstock::load_remote {

/// What is known of a file before it is written.
struct Expected {
  std::uint64_t file_bytes = 0;  ///< 0: unknown
  std::uint64_t write_bytes = 0;
};

/// Paths are relative to the URL. Safe from several threads; a file is used by one thread.
class Server {
 public:
  virtual ~Server() = default;
  /// A new file.
  virtual Result<std::unique_ptr<load::StoredFile>> create(const std::string& path, const Expected& expected) = 0;
  /// For reading.
  virtual Result<std::unique_ptr<load::StoredFile>> open(const std::string& path) = 0;
  /// For writing beside others that do.
  virtual Result<std::unique_ptr<load::StoredFile>> join(const std::string& path) {
    return make_error(Errc::unsupported, "{}: this protocol does not write into a file from several threads", path);
  }
  /// Creates the folders above it, too, and accepts folders that exist. The empty path means the folder of the URL.
  virtual Result<void> make_folder(const std::string& path) = 0;
  /// Only an empty one. WebDAV would remove what is in it, so the URL's own is looked at before.
  virtual Result<void> remove_folder(const std::string& path) = 0;
  virtual Result<void> look_up(const std::string& path) = 0;
  virtual Result<void> rename(const std::string& from, const std::string& to) = 0;
  virtual Result<void> remove(const std::string& path) = 0;
  /// Library and version.
  virtual Json describe() const = 0;
};

/// `root`, `roots`.
Result<std::unique_ptr<Server>> make_xrootd_server(const std::string& url);
/// `nfs`.
Result<std::unique_ptr<Server>> make_nfs_server(const std::string& url);
/// `http`, `https`: WebDAV.
Result<std::unique_ptr<Server>> make_dav_server(const std::string& url);
/// `s3`, `s3s`.
Result<std::unique_ptr<Server>> make_s3_server(const std::string& url);
/// `hdfs`: through WebHDFS.
Result<std::unique_ptr<Server>> make_hdfs_server(const std::string& url);

}  // namespace penstock::load_remote
