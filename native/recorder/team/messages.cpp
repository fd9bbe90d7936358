#include "recorder/team/messages.hpp"

#include <algorithm>

#include "stream/messages/message.hpp"

namespace penstock::recorder {
namespace {

using nlohmann::json;

/// A field of a message between ranks; `malformed` where it is not there or of another type.
template <typename T>
Result<T> field(const json& object, const char* name) {
  try {
    return object.at(name).get<T>();
  } catch (const json::exception& error) {
    return make_error(Errc::malformed, "a message between ranks: {}", error.what());
  }
}

}  // namespace

json to_json(const std::vector<MetaColumn>& columns) {
  json list = json::array();
  for (const auto& column : columns) list.push_back({column.name, name(column.type), column.text_bytes, column.shape});
  return list;
}

Result<std::vector<MetaColumn>> columns_from(const json& list) {
  std::vector<MetaColumn> columns;
  for (const auto& entry : list) {
    if (!entry.is_array() || entry.size() != 4 || !entry[0].is_string() || !entry[1].is_string() ||
        !entry[2].is_number_unsigned() || !entry[3].is_array() ||
        !std::all_of(entry[3].begin(), entry[3].end(), [](const auto& extent) { return extent.is_number_unsigned(); }))
      return make_error(Errc::malformed, "a column of a message between ranks is {}", entry.dump());
    const auto type = element_type_of(entry[1].get<std::string>());
    if (!type) return make_error(Errc::malformed, "a column of a message between ranks is {}", entry.dump());
    columns.push_back(
        {entry[0].get<std::string>(), *type, entry[2].get<std::size_t>(), entry[3].get<std::vector<std::uint64_t>>()});
  }
  return columns;
}

json to_json(const Terms& terms) {
  return {{"encoding", name(terms.encoding)},
          {"filter_values", terms.filter_values},
          {"columns", to_json(terms.columns)},
          {"file", terms.file},
          {"base", terms.base},
          {"id", store::format::to_hex(terms.shared.id)},
          {"description_address", terms.shared.description_address},
          {"last_sequence", terms.shared.last_sequence}};
}

Result<Terms> terms_from(const json& answer_of_lead) {
  Terms terms;
  PEN_ASSIGN(const auto encoding, field<std::string>(answer_of_lead, "encoding"));
  const auto known = encoding_of(encoding);
  if (!known) return make_error(Errc::malformed, "a message between ranks has the encoding {}", encoding);
  terms.encoding = *known;
  PEN_ASSIGN(terms.filter_values, field<std::vector<std::vector<unsigned>>>(answer_of_lead, "filter_values"));
  PEN_ASSIGN(const auto columns, field<json>(answer_of_lead, "columns"));
  PEN_ASSIGN(terms.columns, columns_from(columns));
  PEN_ASSIGN(terms.file, field<std::uint64_t>(answer_of_lead, "file"));
  PEN_ASSIGN(terms.base, field<std::uint64_t>(answer_of_lead, "base"));
  PEN_ASSIGN(const auto id, field<std::string>(answer_of_lead, "id"));
  PEN_ASSIGN(terms.shared.id, store::format::file_id_of(id));
  PEN_ASSIGN(terms.shared.description_address, field<std::uint64_t>(answer_of_lead, "description_address"));
  PEN_ASSIGN(terms.shared.last_sequence, field<std::uint64_t>(answer_of_lead, "last_sequence"));
  return terms;
}

std::string series_in(const json& message) { return message.value("series_unique_id", std::string()); }

json notice(const char* what, const std::string& series_unique_id) {
  return {{"tell", what}, {"series_unique_id", series_unique_id}};
}

json start_to_json(const Series& series, bool answered) {
  const auto start = stream::encode_start(series);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(start.data());
  return {{"ask", "begin"},
          {"start", json::binary(std::vector<std::uint8_t>(bytes, bytes + start.size()))},
          {"resumed", series.resumed},
          {"source", series.source},
          {"session", answered}};
}

Result<Series> start_from(const json& message, const Config& config) {
  if (!message.contains("start") || !message["start"].is_binary())
    return make_error(Errc::malformed, "a message between ranks has no start message");
  stream::MessageLimits limits;
  limits.frame_bytes_max = config.frame_bytes_max;
  limits.table_bytes_max = config.tables_bytes;
  const auto& bytes = message["start"].get_binary();
  PEN_ASSIGN(auto parsed, stream::parse_message(std::as_bytes(std::span(bytes)), limits));
  if (!std::holds_alternative<Series>(parsed))
    return make_error(Errc::malformed, "a message between ranks has no start message");
  auto series = std::get<Series>(std::move(parsed));
  series.resumed = message.value("resumed", false);
  series.source = message.value("source", std::string());
  series.remarks.clear();  // they were told where it came
  return series;
}

json to_json(const SeriesEnd& end) {
  auto message = notice("end", end.unique_id);
  message["by_all"] = end.by_all;
  message["answered"] = end.answered;
  if (end.element) message["element"] = *end.element;
  if (!end.source.empty()) message["source"] = end.source;
  if (end.by_start) message["by_start"] = true;
  return message;
}

SeriesEnd end_from(const json& message) {
  SeriesEnd end;
  end.unique_id = series_in(message);
  end.by_all = message.value("by_all", true);
  end.answered = message.value("answered", false);
  if (const auto element = message.find("element"); element != message.end() && element->is_number_unsigned())
    end.element = element->get<std::uint32_t>();
  end.source = message.value("source", std::string());
  end.by_start = message.value("by_start", false);
  return end;
}

}  // namespace penstock::recorder
