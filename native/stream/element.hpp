/// Which of a detector's elements a stream is of, from its start message's user_data (docs/reference/stream-v2.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "frame/series.hpp"

namespace penstock::stream {

/// Of the object penstock.element in `user_data_json`, as element_from() takes it. Nothing where there is none, also
/// where user_data is something else. `malformed` names the field and the value.
Result<std::optional<ElementPlace>> element_in(const std::optional<std::string>& user_data_json);

/// Of {"grid": [rows, columns], "number": n}, and where elements do not touch "gap": [rows, columns], pixels between
/// neighbours from 0 to gap_pixels_max, or {"rows": …, "columns": …}, each a number or a list of one for each pair of
/// neighbours. `where` names the object in errors.
Result<ElementPlace> element_from(const nlohmann::json& object, const std::string& where);

/// As people write it: [rows, columns], with lists where gaps are not alike.
std::string gap_text(const ElementPlace& place);

/// `user_data_json` with the element in it; other values stay.
std::string with_element(const std::optional<std::string>& user_data_json, const ElementPlace& element);

}  // namespace penstock::stream
