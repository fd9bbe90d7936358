#include "base/archive.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/fields.hpp"

namespace penstock {
namespace {

using nlohmann::json;

constexpr std::string_view hidden = "(hidden)";

/// Letters that have to be changed, added or taken away, to make one of the other.
std::size_t distance(std::string_view one, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < one.size(); ++i) {
    auto diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < other.size(); ++j) {
      const auto changed = diagonal + (one[i] == other[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

/// "did you mean …?" of the name that is close to `given`; empty where none is.
std::string guess(std::string_view given, std::span<const std::string_view> names) {
  constexpr std::size_t letters_max = 64;
  if (given.size() > letters_max) return {};
  std::size_t best = 1 + std::min<std::size_t>(2, given.size() / 3);
  std::string_view meant;
  for (const auto name : names)
    if (const auto letters = distance(given, name); letters < best) best = letters, meant = name;
  return meant.empty() ? std::string() : fmt::format("did you mean \"{}\"?", meant);
}

std::string joined(std::span<const std::string_view> names) {
  std::string text;
  for (const auto name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

std::string path_of(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
}

/// What a name ends with: units stand last in names.
std::string_view unit_of(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> units[] = {
      {"_bytes", "bytes"},  {"_bytes_max", "bytes"}, {"_ms", "ms"},         {"_s", "s"}, {"seconds", "s"},
      {"seconds_max", "s"}, {"_hz", "Hz"},           {"_frames", "frames"}, {"_m", "m"}, {"_ev", "eV"},
  };
  for (const auto& [end, unit] : units)
    if (name.ends_with(end)) return unit;
  return {};
}

template <typename Number>
void describe_number(json& out, std::string_view type, Number value, Between<Number> limits) {
  out["type"] = type;
  out["default"] = value;
  if (limits.least != std::numeric_limits<Number>::lowest()) out["minimum"] = limits.least;
  if (std::is_unsigned_v<Number>) out["minimum"] = limits.least;
  if (limits.most != std::numeric_limits<Number>::max()) out["maximum"] = limits.most;
}

/// Reads a number of the right type within its limits.
template <typename Number>
void read_number(const detail::Slot& slot, Number& value, Number given, Between<Number> limits) {
  if (given < limits.least)
    slot.refuse(ProblemCode::below_minimum, fmt::format("{}", limits.least),
                fmt::format("is below the minimum of {}", limits.least));
  else if (given > limits.most)
    slot.refuse(ProblemCode::above_maximum, fmt::format("{}", limits.most),
                fmt::format("exceeds the maximum of {}", limits.most));
  else
    value = given;
}

}  // namespace

std::string_view name(ProblemCode code) {
  switch (code) {
    case ProblemCode::unknown_field: return "unknown_field";
    case ProblemCode::missing_field: return "missing_field";
    case ProblemCode::wrong_type: return "wrong_type";
    case ProblemCode::below_minimum: return "below_minimum";
    case ProblemCode::above_maximum: return "above_maximum";
    case ProblemCode::unknown_name: return "unknown_name";
    case ProblemCode::not_allowed: return "not_allowed";
  }
  return "unknown";
}

Error error_of(const std::vector<Problem>& problems) {
  std::string text;
  for (const auto& problem : problems) text += (text.empty() ? "" : "\n") + problem.text;
  return Error(Errc::invalid_argument, std::move(text));
}

namespace detail {

void start_list(json& out) { out = json::array(); }

void Slot::refuse(ProblemCode code, std::string limit, std::string_view sentence, std::string remedy) const {
  auto value = secret || in == nullptr ? std::string() : excerpt(*in);
  auto text =
      fmt::format("{}: {}{}{}", path.empty() ? "the document" : path, value, value.empty() ? "" : " ", sentence);
  if (!remedy.empty()) text += "; " + remedy;
  problems->push_back({code, path, std::move(value), std::move(limit), std::move(remedy), std::move(text)});
}

void Slot::forget_default() { (*out)["default"] = nullptr; }

void Slot::whole(std::uint64_t& value, Between<std::uint64_t> limits) {
  if (mode == Mode::write) *out = value;
  if (mode == Mode::describe) describe_number(*out, "whole number", value, limits);
  if (mode != Mode::read) return;
  if (!in->is_number_integer()) return refuse(ProblemCode::wrong_type, "", "is not a whole number");
  if (!in->is_number_unsigned() && in->get<std::int64_t>() < 0)
    return refuse(ProblemCode::below_minimum, fmt::format("{}", limits.least),
                  fmt::format("is below the minimum of {}", limits.least));
  read_number(*this, value, in->get<std::uint64_t>(), limits);
}

void Slot::integer(std::int64_t& value, Between<std::int64_t> limits) {
  if (mode == Mode::write) *out = value;
  if (mode == Mode::describe) describe_number(*out, "whole number", value, limits);
  if (mode != Mode::read) return;
  if (!in->is_number_integer()) return refuse(ProblemCode::wrong_type, "", "is not a whole number");
  constexpr auto signed_max = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (in->is_number_unsigned() && in->get<std::uint64_t>() > signed_max)
    return refuse(ProblemCode::above_maximum, fmt::format("{}", limits.most),
                  fmt::format("exceeds the maximum of {}", limits.most));
  read_number(*this, value, in->get<std::int64_t>(), limits);
}

void Slot::real(double& value, Between<double> limits) {
  if (mode == Mode::write) *out = value;
  if (mode == Mode::describe) describe_number(*out, "number", value, limits);
  if (mode != Mode::read) return;
  if (!in->is_number() || !std::isfinite(in->get<double>()))
    return refuse(ProblemCode::wrong_type, "", "is not a number");
  read_number(*this, value, in->get<double>(), limits);
}

void Slot::flag(bool& value) {
  if (mode == Mode::write) *out = value;
  if (mode == Mode::describe) {
    (*out)["type"] = "truth value";
    (*out)["default"] = value;
  }
  if (mode != Mode::read) return;
  if (!in->is_boolean()) return refuse(ProblemCode::wrong_type, "", "is not true or false");
  value = in->get<bool>();
}

void Slot::text(std::string& value, Length limits) {
  if (mode == Mode::write) *out = value;
  if (mode == Mode::describe) {
    (*out)["type"] = "text";
    (*out)["default"] = value;
  }
  if (mode != Mode::read) return;
  if (!in->is_string()) return refuse(ProblemCode::wrong_type, "", "is not text");
  const auto& given = in->get_ref<const std::string&>();
  if (given.find('\0') != std::string::npos) return refuse(ProblemCode::not_allowed, "", "has a zero byte");
  if (given.size() < limits.least)
    return refuse(ProblemCode::below_minimum, fmt::format("{}", limits.least),
                  given.empty() ? "must not be empty" : fmt::format("has fewer than {} bytes", limits.least));
  if (given.size() > limits.most)
    return refuse(ProblemCode::above_maximum, fmt::format("{}", limits.most),
                  fmt::format("has {} bytes and exceeds the maximum of {}", given.size(), limits.most));
  value = given;
}

void Slot::choice(std::size_t& index, std::span<const std::string_view> names) {
  if (mode == Mode::write) *out = names[index];
  if (mode == Mode::describe) {
    (*out)["type"] = "choice";
    (*out)["choices"] = names;
    (*out)["default"] = names[index];
  }
  if (mode != Mode::read) return;
  const auto* given = in->get_ptr<const std::string*>();
  if (given == nullptr) return refuse(ProblemCode::wrong_type, joined(names), "is not one of " + joined(names));
  const auto found = std::find(names.begin(), names.end(), *given);
  if (found == names.end())
    return refuse(ProblemCode::unknown_name, joined(names), "is not one of " + joined(names), guess(*given, names));
  index = static_cast<std::size_t>(found - names.begin());
}

void Slot::object(const std::function<void(Archive&)>& visit) {
  if (mode == Mode::write) *out = json::object();
  if (mode == Mode::describe) {
    (*out)["type"] = "fields";
    auto& inner = (*out)["fields"] = json::array();
    Archive archive(mode, nullptr, &inner, path, nullptr);
    return visit(archive);
  }
  if (mode == Mode::read && !in->is_object()) return refuse(ProblemCode::wrong_type, "", "is not an object");
  Archive archive(mode, in, out, path, problems);
  visit(archive);
  if (mode == Mode::read) archive.refuse_others();
}

void Slot::list(std::size_t count, Count limits, const std::function<void(std::size_t)>& resize,
                const std::function<void(std::size_t, Slot)>& item) {
  if (mode == Mode::describe) {
    (*out)["type"] = "list";
    auto& of_items = (*out)["items"] = json::object();
    item(count, Slot{mode, nullptr, &of_items, path, nullptr});
    of_items.erase("default");
    return;
  }
  if (mode == Mode::write) {
    *out = json::array();
    for (std::size_t at = 0; at < count; ++at) item(at, Slot{mode, nullptr, &out->emplace_back(), path, nullptr});
    return;
  }
  if (!in->is_array()) return refuse(ProblemCode::wrong_type, "", "is not a list");
  if (in->size() < limits.least)
    return refuse(ProblemCode::below_minimum, fmt::format("{}", limits.least),
                  in->empty() ? "must not be empty" : fmt::format("has fewer than {} items", limits.least));
  if (in->size() > limits.most)
    return refuse(ProblemCode::above_maximum, fmt::format("{}", limits.most),
                  fmt::format("has {} items and exceeds the maximum of {}", in->size(), limits.most));
  resize(in->size());
  for (std::size_t at = 0; at < in->size(); ++at)
    item(at, Slot{mode, &(*in)[at], nullptr, fmt::format("{}[{}]", path, at), problems});
}

}  // namespace detail

Archive::Archive(Mode mode, const json* in, json* out, std::string path, std::vector<Problem>* problems)
    : mode_(mode),
      in_(in),
      out_(out),
      path_(std::move(path)),
      problems_(problems),
      problems_before_(problems == nullptr ? 0 : problems->size()) {}

bool Archive::sound() const { return reads() && problems_->size() == problems_before_; }

bool Archive::has(const char* name) const {
  if (!reads()) return false;
  const auto found = in_->find(name);
  return found != in_->end() && !found->is_null();
}

std::optional<detail::Slot> Archive::open(const char* name) {
  known_.emplace_back(name);
  detail::Slot slot{mode_, nullptr, nullptr, path_of(path_, name), problems_};
  switch (mode_) {
    case Mode::read:
      if (!has(name)) return std::nullopt;
      slot.in = &*in_->find(name);
      break;
    case Mode::write: slot.out = &((*out_)[name] = nullptr); break;
    case Mode::describe:
      slot.out = &out_->emplace_back(json{{"name", name}});
      if (const auto unit = unit_of(name); !unit.empty()) (*slot.out)["unit"] = unit;
      break;
  }
  return slot;
}

void Archive::require(const char* name) {
  if (describes()) {
    out_->back()["required"] = true;
    out_->back().erase("default");
  }
  if (reads() && !has(name)) {
    const detail::Slot slot{mode_, nullptr, nullptr, path_of(path_, name), problems_};
    slot.refuse(ProblemCode::missing_field, "", "this field is required");
  }
}

void Archive::forget_default(const char*) {
  if (describes()) out_->back().erase("default");
}

void Archive::one_of(const char* name, std::string& value, std::span<const std::string_view> names) {
  auto slot = open(name);
  if (!slot) return;
  auto index = static_cast<std::size_t>(std::find(names.begin(), names.end(), value) - names.begin());
  slot->choice(index, names);
  if (reads() && index < names.size()) value = names[index];
}

void Archive::object(const char* name, const std::function<void(Archive&)>& visit, bool is_required) {
  if (auto slot = open(name)) slot->object(visit);
  if (is_required) require(name);
}

void Archive::secret(const char* name, std::string& value, Length limits) {
  auto slot = open(name);
  if (!slot) return;
  slot->secret = true;
  if (writes())
    *slot->out = value.empty() ? json() : json(hidden);
  else
    slot->text(value, limits);
  if (describes() && value.empty()) slot->forget_default();
}

void Archive::seconds(const char* name, std::int64_t& nanoseconds, Between<double> limits) {
  auto seconds = static_cast<double>(nanoseconds) / 1e9;
  field(name, seconds, limits);
  if (reads() && has(name)) nanoseconds = std::llround(seconds * 1e9);
}

void Archive::custom(const char* name, std::string_view type, const std::function<Result<void>(const json&)>& read,
                     const std::function<json()>& write) {
  auto slot = open(name);
  if (!slot) return;
  switch (mode_) {
    case Mode::read:
      if (auto result = read(*slot->in); !result.ok()) {
        auto text = path_of(path_, result.error().message());
        problems_->push_back({ProblemCode::not_allowed, slot->path, excerpt(*slot->in), "", "", std::move(text)});
      }
      break;
    case Mode::write: *slot->out = write(); break;
    case Mode::describe:
      (*slot->out)["type"] = type;
      (*slot->out)["default"] = write();
      break;
  }
}

std::optional<std::size_t> Archive::kind_of(const char* name, std::size_t index,
                                            std::span<const std::string_view> names) {
  auto slot = open(name);
  if (!slot) {
    require(name);
    kind_is_known_ = false;
    return std::nullopt;
  }
  const auto before = problems_ == nullptr ? 0 : problems_->size();
  slot->choice(index, names);
  kind_is_known_ = problems_ == nullptr || problems_->size() == before;
  return kind_is_known_ ? std::optional(index) : std::nullopt;
}

void Archive::describe_kind(const char* name, std::string_view kind, const std::function<void(Archive&)>& visit) {
  if (out_->empty() || out_->back()["name"] != name)
    *open(name)->out = {{"name", name}, {"type", "kind"}, {"required", true}};
  auto& described = out_->back()["kinds"][std::string(kind)] = json::array();
  Archive archive(mode_, nullptr, &described, path_, nullptr);
  visit(archive);
}

void Archive::check(bool ok, const std::string& name, std::string_view rule, std::string remedy) {
  if (ok || !reads()) return;
  const auto* in = in_;
  for (std::size_t begin = 0; in != nullptr && begin <= name.size();) {
    const auto end = std::min(name.find('.', begin), name.size());
    const auto found = in->find(name.substr(begin, end - begin));
    in = found == in->end() || found->is_null() ? nullptr : &*found;
    begin = end + 1;
  }
  const detail::Slot slot{mode_, in, nullptr, path_of(path_, name), problems_};
  slot.refuse(ProblemCode::not_allowed, "", rule, std::move(remedy));
}

void Archive::take(Result<void> result) {
  if (result.ok() || !reads()) return;
  const auto error = std::move(result).error();
  problems_->push_back({ProblemCode::not_allowed, path_, "", "", "", error.message()});
}

void Archive::refuse_others() {
  if (!kind_is_known_) return;
  for (const auto& [name, value] : in_->items()) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    const detail::Slot slot{mode_, nullptr, nullptr, path_of(path_, name.substr(0, 64)), problems_};
    slot.refuse(ProblemCode::unknown_field, "", "unknown field", guess(name, known_));
  }
}

}  // namespace penstock
