/// Reads JSON as control units of detectors and their users' programs send it, which not all JSON parsers accept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/fields.hpp"

namespace penstock::stream {

/// Parses text as parse_json() does, but reads NaN, Infinity and -Infinity, which Python's encoder writes, as text, so
/// that they affect only their own field.
Result<Json> parse_v1_json(std::string_view text, std::string_view what);

/// Returns a whole number from 0, also if it is text in decimal digits; nullopt for any other value.
std::optional<std::uint64_t> whole_of(const Json& value);

/// Returns a finite number, also if it is text; nullopt for any other value.
std::optional<double> number_of(const Json& value);

/// Returns the number for the texts NaN, Infinity and -Infinity; nullopt for any other value.
std::optional<double> infinite_or_nan_of(const Json& value);

}  // namespace penstock::stream
