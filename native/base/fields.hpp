/// Reads a message's JSON object field by field; every error names the field, by its path, and the value. Jobs, whose
/// fields are also written and described, are read through base/archive.hpp.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.hpp"

namespace penstock {

using Json = nlohmann::json;

/// Parses text; an error names the position at which it is not JSON.
Result<Json> parse_json(std::string_view text, std::string_view what);

/// Enough of a value to recognise it by.
std::string excerpt(const Json& value);

/// A view of one object; `object` outlives it. A field that is absent or null takes its default.
class Fields {
 public:
  static Result<Fields> of(const Json& object, std::string path);

  /// The field's value, or null where it is absent or null. Marks it as known.
  const Json* find(const std::string& name);
  Error wrong(const std::string& name, std::string_view expected) const;
  std::string path_of(const std::string& name) const;

  Result<std::uint64_t> whole(const std::string& name, std::uint64_t otherwise, std::uint64_t least = 0,
                              std::uint64_t most = std::numeric_limits<std::uint64_t>::max());
  Result<std::int64_t> integer(const std::string& name, std::int64_t otherwise, std::int64_t least, std::int64_t most);
  Result<double> number(const std::string& name, double otherwise, double least, double most);
  Result<bool> flag(const std::string& name, bool otherwise);
  Result<std::string> text(const std::string& name, std::string otherwise);
  /// Two numbers.
  Result<std::pair<double, double>> pair(const std::string& name, std::pair<double, double> otherwise, double least,
                                         double most);
  /// An error where a required field is absent or null.
  Result<void> require(const std::string& name);
  /// An error that names the first field that nobody asked for.
  Result<void> refuse_others() const;

 private:
  Fields(const Json& object, std::string path) : object_(&object), path_(std::move(path)) {}

  const Json* object_;
  std::string path_;
  std::set<std::string> known_;
};

}  // namespace penstock
