#include "recorder/config/file_name.hpp"

#include <fmt/chrono.h>

#include <cctype>
#include <ctime>
#include <utility>

#include "base/crc32c.hpp"

namespace penstock::recorder {
namespace {

constexpr std::size_t name_length_max = 200;
constexpr std::size_t suffix_length_max = 16;

std::string checksum_of(const std::string& unique_id) { return fmt::format("-{:08x}", crc32c(as_bytes(unique_id))); }

bool starts_badly(const std::string& name) { return name.starts_with('.') || name.starts_with('-'); }

/// Replaces what a file name cannot have, or had better not, path separators among it, by underscores. Then a checksum
/// keeps the name apart from others that become alike.
std::string tame(const std::string& unique_id) {
  auto name = unique_id;
  for (auto& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_' && c != '.' && c != '+') c = '_';
  return name == unique_id && !starts_badly(name) ? name : name + checksum_of(unique_id);
}

/// A name that begins with a dot is hidden, and one that begins with a dash an option of whatever program it is given
/// to.
std::string unmistakable(const std::string& name) { return starts_badly(name) ? "_" + name : name; }

/// Cut before its suffix, with a number in place of the rest, which tells it from others that begin alike.
std::string shortened(const std::string& name, const std::string& unique_id) {
  if (name.size() <= name_length_max) return name;
  const auto dot = name.rfind('.');
  const bool has_suffix = dot != std::string::npos && name.size() - dot <= suffix_length_max;
  const auto suffix = has_suffix ? name.substr(dot) : std::string();
  const auto tail = checksum_of(unique_id) + suffix;
  return name.substr(0, name_length_max - tail.size()) + tail;
}

Result<std::string> fill_in(std::string_view placeholder, const Series& series, std::int64_t now_ns) {
  if (placeholder == "series_unique_id") return tame(series.unique_id);
  if (placeholder == "series_id") return fmt::format("{}", series.id);
  if (placeholder == "date") {
    const auto seconds = static_cast<std::time_t>(now_ns / 1'000'000'000);
    return fmt::format("{:%Y%m%d-%H%M%S}", fmt::gmtime(seconds));
  }
  return make_error(
      Errc::invalid_argument,
      "file_name has the unknown placeholder \"{{{}}}\"; use {{series_unique_id}}, {{series_id}} and {{date}}",
      placeholder);
}

}  // namespace

Result<std::string> file_path(const std::string& folder, const std::string& name_template, const Series& series,
                              std::int64_t now_ns) {
  std::string name;
  for (std::size_t at = 0; at < name_template.size();) {
    const auto open = name_template.find('{', at);
    name += name_template.substr(at, open - at);
    if (open == std::string::npos) break;
    const auto close = name_template.find('}', open);
    if (close == std::string::npos)
      return make_error(Errc::invalid_argument, "file_name \"{}\" has an unclosed brace", name_template);
    PEN_ASSIGN(const auto filled,
               fill_in(std::string_view(name_template).substr(open + 1, close - open - 1), series, now_ns));
    name += filled;
    at = close + 1;
  }
  if (name.find('/') != std::string::npos)
    return make_error(Errc::invalid_argument, "file_name \"{}\" has a path separator; choose the folder with `folder`",
                      name_template);
  if (name.empty())
    return make_error(Errc::refused, "the file name (from series_unique_id \"{}\") would be empty", series.unique_id);
  return folder + "/" + shortened(unmistakable(name), series.unique_id);
}

}  // namespace penstock::recorder
