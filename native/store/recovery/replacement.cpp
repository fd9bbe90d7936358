#include "store/recovery/replacement.hpp"

#include <filesystem>

#include "store/recovery/find_description.hpp"

namespace penstock::store {
namespace {

constexpr std::string_view suffix = ".new";

/// A replacement has its final name before its first frame comes: what has frames, or was closed, as the first file of
/// a series in several files without frames, is somebody's recording.
bool is_recording(File& file) {
  auto scanner = SegmentScanner::create(file, {});
  if (!scanner.ok()) return true;
  while (true) {
    const auto segment = scanner->next();
    if (!segment.ok()) return true;
    if (!*segment) return false;
    const auto kind = (*segment)->kind;
    if (kind == format::SegmentKind::chunks || kind == format::SegmentKind::seal) return true;
  }
}

}  // namespace

std::string replacement_path(const std::string& path) {
  const std::filesystem::path replaced(path);
  return (replaced.parent_path() / fmt::format(".{}{}", replaced.filename().string(), suffix)).string();
}

std::optional<std::string> path_of_replacement(const std::string& hidden) {
  const std::filesystem::path path(hidden);
  const auto name = path.filename().string();
  if (!name.starts_with('.') || !name.ends_with(suffix) || name.size() <= 1 + suffix.size()) return std::nullopt;
  return (path.parent_path() / name.substr(1, name.size() - 1 - suffix.size())).string();
}

Result<std::shared_ptr<File>> make_replacement(Env& env, const std::string& path) {
  const auto beside = replacement_path(path);
  // Of two recorders that want the same name one fails in any case.
  (void)remove_left_replacement(env, path, WithoutLocks::remove);
  auto made = env.open(beside, {.mode = OpenOptions::Mode::create_new});
  if (!made.ok() && made.error().code() == Errc::already_exists)
    return make_error(Errc::already_exists,
                      "{} exists already, in which {} is to be made: another recorder makes that file at this moment, "
                      "or the first one is not Penstock's; choose another name or move it away",
                      beside, path);
  if (!made.ok()) return made;
  if (auto locked = (*made)->lock(true); !locked.ok()) {
    (void)env.remove(beside);
    return std::move(locked).error();
  }
  return made;
}

bool remove_left_replacement(Env& env, const std::string& path, WithoutLocks without_locks) {
  const auto left = replacement_path(path);
  const auto file = env.open(left, {.mode = OpenOptions::Mode::update});
  if (!file.ok() || !(*file)->lock(true).ok()) return false;
  if (!(*file)->locks() && without_locks == WithoutLocks::keep) return false;
  const auto begun = is_only_begun(**file);
  const bool is_own = (begun.ok() && *begun) || (find_description(**file, {}).ok() && !is_recording(**file));
  return is_own && (*file)->still_named() && env.remove(left).ok();
}

}  // namespace penstock::store
