#include "store/recovery/replacement.hpp"

#include <filesystem>

#include "store/recovery/find_description.hpp"

namespace penstock::store {
namespace {

/// A replacement has its final name before its first frame comes: what has frames is somebody's recording.
bool has_frames(File& file) {
  auto scanner = SegmentScanner::create(file, {});
  if (!scanner.ok()) return true;
  while (true) {
    const auto segment = scanner->next();
    if (!segment.ok()) return true;
    if (!*segment) return false;
    if ((*segment)->kind == format::SegmentKind::chunks) return true;
  }
}

}  // namespace

std::string replacement_path(const std::string& path) {
  const std::filesystem::path replaced(path);
  return (replaced.parent_path() / ("." + replaced.filename().string() + ".new")).string();
}

void remove_left_replacement(Env& env, const std::string& path) {
  const auto left = replacement_path(path);
  const auto file = env.open(left, {.mode = OpenOptions::Mode::update});
  if (!file.ok() || !(*file)->lock(true).ok() || !(*file)->locks()) return;
  const auto begun = is_only_begun(**file);
  const bool is_own = (begun.ok() && *begun) || (find_description(**file, {}).ok() && !has_frames(**file));
  if (is_own && (*file)->still_named()) (void)env.remove(left);
}

}  // namespace penstock::store
