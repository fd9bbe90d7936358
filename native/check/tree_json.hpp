/// What the reader says, as JSON: for the way between two processes.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/result.hpp"
#include "store/hdf5/reading/reader.hpp"

namespace penstock::check {

nlohmann::json to_json(const store::Value& value);
nlohmann::json to_json(const std::vector<store::Attribute>& attributes);
nlohmann::json to_json(const store::DatasetInfo& info);

/// The reverse; `malformed` where the JSON is anything else.
Result<store::Value> value_of(const nlohmann::json& json);
Result<std::vector<store::Attribute>> attributes_of(const nlohmann::json& json);
Result<store::DatasetInfo> dataset_of(const nlohmann::json& json);

}  // namespace penstock::check
