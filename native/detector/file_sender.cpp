#include "detector/file_sender.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <vector>

#include "detector/images/image_file.hpp"
#include "detector/images/nexus_file.hpp"

namespace penstock::detector {
namespace {

std::string_view suffix_of(FileFormat format) {
  switch (format) {
    case FileFormat::cbf: return "cbf";
    case FileFormat::tiff: return "tif";
    case FileFormat::hdf5: return "h5";
  }
  return "";
}

/// Gives a finished file its name, unless a file of that name is there.
Result<void> rename_new(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
  if (errno != EINVAL && errno != ENOSYS) return errno_error(errno, fmt::format("rename {} to {}", from, to));
  // A file system without that call: a second name fails as well where the name is taken.
  if (::link(from.c_str(), to.c_str()) != 0) return errno_error(errno, fmt::format("rename {} to {}", from, to));
  ::unlink(from.c_str());
  return {};
}

bool exists(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

class FileSender : public stream::FrameSender {
 public:
  FileSender(Env& env, const ToFiles& to) : env_(&env), to_(to) {}

  Result<void> begin(const Series& series) override {
    series_ = series;
    return {};
  }

  Result<void> put(const Frame& frame) override {
    if (cancelled_) return make_error(Errc::cancelled, "stopped");
    const auto name = fmt::format("{}_{:06}", to_.prefix, value(frame.number));
    const auto path = fmt::format("{}/{}.{}", to_.folder, name, suffix_of(to_.format));
    if (exists(path)) return make_error(Errc::already_exists, "{} exists already", path);
    if (!to_.rename) return write(frame, name, path);
    const auto unfinished = fmt::format("{}/.{}.partial", to_.folder, name);
    PEN_TRY(write(frame, name, unfinished));
    if (auto renamed = rename_new(unfinished, path); !renamed) {
      ::unlink(unfinished.c_str());  // ours: it was made with its name free
      return renamed;
    }
    ++receipt_.safe_below;
    return {};
  }

  Result<void> flush() override { return {}; }
  Result<void> end() override { return {}; }
  Result<stream::Receipt> finish(std::chrono::nanoseconds) override {
    receipt_.confirmed = true;
    return receipt_;
  }
  stream::Receipt receipt() const override { return receipt_; }
  void cancel() override { cancelled_ = true; }
  std::string address() const override { return to_.folder; }

 private:
  Result<void> write(const Frame& frame, const std::string& name, const std::string& path) {
    switch (to_.format) {
      case FileFormat::cbf: PEN_TRY(encode_cbf(series_, frame, name, bytes_)); break;
      case FileFormat::tiff: PEN_TRY(encode_tiff(series_, frame, bytes_)); break;
      case FileFormat::hdf5: return write_nexus_file(*env_, series_, frame, path);
    }
    PEN_ASSIGN(const auto file, env_->open(path, {OpenOptions::Mode::create_new, false}));
    if (auto written = write_at(*file, bytes_, 0); !written) {
      ::unlink(path.c_str());  // half a file is worse than none
      return written;
    }
    return {};
  }

  Env* env_;
  const ToFiles to_;
  std::atomic<bool> cancelled_{false};
  Series series_;
  stream::Receipt receipt_;
  std::vector<std::byte> bytes_;
};

}  // namespace

Result<std::unique_ptr<stream::FrameSender>> open_file_sender(Env& env, const ToFiles& to) {
  struct stat status {};
  if (::stat(to.folder.c_str(), &status) != 0) return errno_error(errno, fmt::format("to.folder {}", to.folder));
  if (!S_ISDIR(status.st_mode)) return make_error(Errc::invalid_argument, "to.folder is {}, not a folder", to.folder);
  return std::unique_ptr<stream::FrameSender>(std::make_unique<FileSender>(env, to));
}

}  // namespace penstock::detector
