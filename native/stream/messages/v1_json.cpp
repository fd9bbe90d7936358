#include "stream/messages/v1_json.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace penstock::stream {
namespace {

constexpr auto words = std::to_array<std::pair<std::string_view, double>>({
    {"NaN", std::numeric_limits<double>::quiet_NaN()},
    {"Infinity", std::numeric_limits<double>::infinity()},
    {"-Infinity", -std::numeric_limits<double>::infinity()},
});

/// Returns the word at the beginning of `text`; an empty one if there is none.
std::string_view word_at(std::string_view text) {
  const auto* found =
      std::find_if(words.begin(), words.end(), [&](const auto& word) { return text.starts_with(word.first); });
  return found == words.end() ? std::string_view() : found->first;
}

/// Puts the words outside of texts in quotes.
std::string with_quoted_words(std::string_view text) {
  std::string quoted;
  bool in_text = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto word = in_text ? std::string_view() : word_at(text.substr(at));
    if (!word.empty()) {
      quoted.append("\"").append(word).append("\"");
      at += word.size() - 1;
      continue;
    }
    quoted += text[at];
    if (in_text && text[at] == '\\' && at + 1 < text.size())
      quoted += text[++at];
    else if (text[at] == '"')
      in_text = !in_text;
  }
  return quoted;
}

template <typename Number>
std::optional<Number> from_text(const std::string& text) {
  Number number{};
  const auto* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

}  // namespace

Result<Json> parse_v1_json(std::string_view text, std::string_view what) {
  auto json = parse_json(text, what);
  const bool has_words = std::any_of(words.begin(), words.end(),
                                     [&](const auto& word) { return text.find(word.first) != std::string_view::npos; });
  if (json.ok() || !has_words) return json;
  return parse_json(with_quoted_words(text), what);
}

std::optional<std::uint64_t> whole_of(const Json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (value.is_string()) return from_text<std::uint64_t>(value.get_ref<const std::string&>());
  return std::nullopt;
}

std::optional<double> number_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  const auto number = value.is_string() ? from_text<double>(value.get_ref<const std::string&>()) : std::nullopt;
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::optional<double> infinite_or_nan_of(const Json& value) {
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  const auto* found = std::find_if(words.begin(), words.end(), [&](const auto& word) { return text == word.first; });
  return found == words.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace penstock::stream
