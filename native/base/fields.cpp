#include "base/fields.hpp"

#include <cmath>

namespace penstock {
namespace {

/// No plan is nested as deep, and neither reading nor showing one may use up the stack.
constexpr int nesting_max = 64;

bool too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size() && depth <= nesting_max; ++i) {
    const char letter = text[i];
    if (in_string && letter == '\\') ++i;
    if (letter == '"') in_string = !in_string;
    if (in_string) continue;
    if (letter == '[' || letter == '{') ++depth;
    if (letter == ']' || letter == '}') --depth;
  }
  return depth > nesting_max;
}

}  // namespace

std::string excerpt(const Json& value) {
  constexpr std::size_t bytes_max = 80;
  auto text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > bytes_max) text = text.substr(0, bytes_max) + "…";
  return text;
}

Result<Json> parse_json(std::string_view text, std::string_view what) {
  if (too_deep(text)) return make_error(Errc::malformed, "{} is nested deeper than {} levels", what, nesting_max);
  try {
    return Json::parse(text);
  } catch (const Json::exception& problem) {
    return make_error(Errc::malformed, "{} is not valid JSON: {}", what, problem.what());
  }
}

Result<Fields> Fields::of(const Json& object, std::string path) {
  if (!object.is_object())
    return make_error(Errc::malformed, "{} is {}, expected an object", path.empty() ? "the document" : path,
                      excerpt(object));
  return Fields(object, std::move(path));
}

const Json* Fields::find(const std::string& name) {
  known_.insert(name);
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::string Fields::path_of(const std::string& name) const { return path_.empty() ? name : path_ + "." + name; }

Error Fields::wrong(const std::string& name, std::string_view expected) const {
  const auto found = object_->find(name);
  return make_error(Errc::invalid_argument, "{} is {}, expected {}", path_of(name),
                    found == object_->end() ? "absent" : excerpt(*found), expected);
}

Result<std::uint64_t> Fields::whole(const std::string& name, std::uint64_t otherwise, std::uint64_t least,
                                    std::uint64_t most) {
  const auto* found = find(name);
  if (found == nullptr) return otherwise;
  if (!found->is_number_unsigned()) return wrong(name, "a whole number of at least 0");
  const auto value = found->get<std::uint64_t>();
  if (value < least || value > most) return wrong(name, fmt::format("a whole number from {} to {}", least, most));
  return value;
}

Result<std::int64_t> Fields::integer(const std::string& name, std::int64_t otherwise, std::int64_t least,
                                     std::int64_t most) {
  const auto* found = find(name);
  if (found == nullptr) return otherwise;
  const auto expected = fmt::format("a whole number from {} to {}", least, most);
  if (!found->is_number_integer()) return wrong(name, expected);
  constexpr auto signed_max = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (found->is_number_unsigned() && found->get<std::uint64_t>() > signed_max) return wrong(name, expected);
  const auto value = found->get<std::int64_t>();
  if (value < least || value > most) return wrong(name, expected);
  return value;
}

Result<double> Fields::number(const std::string& name, double otherwise, double least, double most) {
  const auto* found = find(name);
  if (found == nullptr) return otherwise;
  const auto value = found->is_number() ? found->get<double>() : std::nan("");
  if (!(value >= least && value <= most)) return wrong(name, fmt::format("a number from {} to {}", least, most));
  return value;
}

Result<bool> Fields::flag(const std::string& name, bool otherwise) {
  const auto* found = find(name);
  if (found == nullptr) return otherwise;
  if (!found->is_boolean()) return wrong(name, "true or false");
  return found->get<bool>();
}

Result<std::string> Fields::text(const std::string& name, std::string otherwise) {
  const auto* found = find(name);
  if (found == nullptr) return otherwise;
  if (!found->is_string()) return wrong(name, "text");
  return found->get<std::string>();
}

Result<std::pair<double, double>> Fields::pair(const std::string& name, std::pair<double, double> otherwise,
                                               double least, double most) {
  const auto* found = find(name);
  if (found == nullptr) return otherwise;
  const auto expected = fmt::format("two numbers from {} to {}", least, most);
  if (!found->is_array() || found->size() != 2 || !(*found)[0].is_number() || !(*found)[1].is_number())
    return wrong(name, expected);
  const auto first = (*found)[0].get<double>();
  const auto second = (*found)[1].get<double>();
  if (!(first >= least && first <= most && second >= least && second <= most)) return wrong(name, expected);
  return std::pair(first, second);
}

Result<void> Fields::require(const std::string& name) {
  if (find(name) == nullptr) return make_error(Errc::invalid_argument, "{} is missing", path_of(name));
  return {};
}

Result<void> Fields::refuse_others() const {
  for (const auto& [name, value] : object_->items())
    if (!known_.contains(name)) return make_error(Errc::invalid_argument, "{} is an unknown field", path_of(name));
  return {};
}

}  // namespace penstock
