#include "recorder/file_name.hpp"

#include <fmt/chrono.h>

#include <cctype>
#include <ctime>

namespace penstock::recorder {
namespace {

constexpr std::size_t name_length_max = 200;

Result<std::string> tame(std::string_view field, const std::string& value) {
  if (value.find('/') != std::string::npos || value.find('\0') != std::string::npos)
    return make_error(Errc::refused, "{} is \"{}\": a value with a path separator cannot name a file", field, value);
  std::string tamed = value;
  for (auto& c : tamed)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_' && c != '.' && c != '+') c = '_';
  return tamed;
}

Result<std::string> fill_in(std::string_view placeholder, const Series& series, std::int64_t now_ns) {
  if (placeholder == "series_unique_id") return tame("series_unique_id", series.unique_id);
  if (placeholder == "series_id") return fmt::format("{}", series.id);
  if (placeholder == "date") {
    const auto seconds = static_cast<std::time_t>(now_ns / 1'000'000'000);
    return fmt::format("{:%Y%m%d-%H%M%S}", fmt::gmtime(seconds));
  }
  return make_error(Errc::invalid_argument,
                    "file_name has \"{{{}}}\"; known are {{series_unique_id}}, {{series_id}} and {{date}}",
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
      return make_error(Errc::invalid_argument, "file_name \"{}\" has an open brace without its end", name_template);
    PEN_ASSIGN(const auto filled,
               fill_in(std::string_view(name_template).substr(open + 1, close - open - 1), series, now_ns));
    name += filled;
    at = close + 1;
  }
  if (name.find('/') != std::string::npos)
    return make_error(Errc::invalid_argument, "file_name \"{}\" has a path separator; choose the folder with `folder`",
                      name_template);
  if (name.empty() || name.front() == '.')
    return make_error(Errc::refused, "the file name \"{}\" (from series_unique_id \"{}\") would be empty or hidden",
                      name, series.unique_id);
  if (name.size() > name_length_max)
    return make_error(Errc::refused, "the file name would have {} characters; at most {} are allowed", name.size(),
                      name_length_max);
  return folder + "/" + name;
}

}  // namespace penstock::recorder
