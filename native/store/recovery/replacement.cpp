#include "store/recovery/replacement.hpp"

#include <filesystem>

#include "store/recovery/find_description.hpp"

namespace penstock::store {

std::string replacement_path(const std::string& path) {
  const std::filesystem::path replaced(path);
  return (replaced.parent_path() / ("." + replaced.filename().string() + ".new")).string();
}

void remove_left_replacement(Env& env, const std::string& path) {
  const auto left = replacement_path(path);
  const auto file = env.open(left, {.mode = OpenOptions::Mode::update});
  if (!file.ok() || !(*file)->lock(true).ok()) return;
  const auto begun = is_only_begun(**file);
  const bool is_own = (begun.ok() && *begun) || find_description(**file, {}).ok();
  if (is_own && (*file)->still_named()) (void)env.remove(left);
}

}  // namespace penstock::store
