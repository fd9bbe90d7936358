/// One declaration of a job's fields, from which reading, writing and the description follow.
///
/// Each struct of a job has one function `fields(Archive&, T&)` that visits its fields in turn: name, member, limits.
/// What the member holds before it is visited is the default. Three kinds of archive walk over it:
///
/// - read_job() fills the struct from JSON, strictly: all problems of a document at once, each with its code, the path
///   of its field, the value and the limit. A field that is absent or null keeps its default.
/// - write_job() gives the JSON from which read_job() makes the same struct.
/// - describe_job() lists names, types, defaults, limits, units and choices, for programs that compare them.
///
/// An archive lives as long as the call of `fields` that it is given to, and so do the names of fields.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.hpp"

namespace penstock {

enum class ProblemCode {
  unknown_field,
  missing_field,
  wrong_type,
  below_minimum,
  above_maximum,
  unknown_name,  ///< not one of the names that a field may have
  not_allowed,   ///< possible by itself, but not beside other fields, or of the wrong form
};
/// "above_maximum" and so on.
std::string_view name(ProblemCode code);

/// What is wrong with one field.
struct Problem {
  ProblemCode code = ProblemCode::not_allowed;
  std::string field;   ///< its path: "workload.writers", "sources[1].port"
  std::string value;   ///< as JSON, cut where it is long; empty where there is none, or where it is secret
  std::string limit;   ///< "256"; empty where there is none
  std::string remedy;  ///< "did you mean \"writers\"?"; empty where there is none
  std::string text;    ///< the sentence: "workload.writers: 300 exceeds the maximum of 256"
};

/// The sentences, one a line; `invalid_argument`.
Error error_of(const std::vector<Problem>& problems);

template <typename Number>
struct Between {
  Number least;
  Number most;
};
constexpr Between<std::uint64_t> between(std::uint64_t least, std::uint64_t most) { return {least, most}; }
constexpr Between<double> between_reals(double least, double most) { return {least, most}; }
constexpr Between<std::int64_t> between_integers(std::int64_t least, std::int64_t most) { return {least, most}; }

/// Bytes of a text. No text has a zero byte.
struct Length {
  std::size_t least = 0;
  std::size_t most = std::numeric_limits<std::size_t>::max();
};
constexpr Length not_empty{1};

/// Items of a list.
struct Count {
  std::size_t least = 0;
  std::size_t most = std::numeric_limits<std::size_t>::max();
};

constexpr std::string_view log_levels[] = {"debug", "info", "warning", "error"};

/// The names of an enum, by a function `names_of(T)` beside it.
template <typename T>
using Names = std::span<const std::pair<std::string_view, T>>;

class Archive;

namespace detail {

enum class Mode { read, write, describe };

/// One value in a document: what is read, or where it is written or described.
struct Slot {
  Mode mode;
  const nlohmann::json* in;  ///< of read
  nlohmann::json* out;       ///< of write and describe
  std::string path;
  std::vector<Problem>* problems;
  bool secret = false;  ///< its value is not shown

  void whole(std::uint64_t& value, Between<std::uint64_t> limits);
  void integer(std::int64_t& value, Between<std::int64_t> limits);
  void real(double& value, Between<double> limits);
  void flag(bool& value);
  void text(std::string& value, Length limits);
  /// `index` of the name.
  void choice(std::size_t& index, std::span<const std::string_view> names);
  void object(const std::function<void(Archive&)>& visit);
  /// Calls `item` for each of `count` items, or those of the document, after `resize`. Describing, for one.
  void list(std::size_t count, Count limits, const std::function<void(std::size_t)>& resize,
            const std::function<void(std::size_t, Slot)>& item);

  void refuse(ProblemCode code, std::string limit, std::string_view sentence, std::string remedy = {}) const;
  /// Described: null stands for it.
  void forget_default();
};

template <typename T>
constexpr bool is_optional = false;
template <typename T>
constexpr bool is_optional<std::optional<T>> = true;
template <typename T>
constexpr bool is_vector = false;
template <typename T>
constexpr bool is_vector<std::vector<T>> = true;
template <typename T>
constexpr bool is_variant = false;
template <typename... Ts>
constexpr bool is_variant<std::variant<Ts...>> = true;

template <typename T>
Between<T> limits_of() {
  return {std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max()};
}
template <typename T, typename Rule>
Between<T> limits_of(const Rule& rule) {
  return {static_cast<T>(rule.least), static_cast<T>(rule.most)};
}

constexpr Length length_of(Length length = {}) { return length; }

template <typename T>
void visit_choice(Slot& slot, T& value, Names<T> named) {
  std::vector<std::string_view> names;
  std::size_t index = 0;
  for (std::size_t i = 0; i < named.size(); ++i) {
    names.push_back(named[i].first);
    if (named[i].second == value) index = i;
  }
  slot.choice(index, names);
  if (slot.mode == Mode::read) value = named[index].second;
}

}  // namespace detail

/// The fields of one object.
class Archive {
 public:
  using Mode = detail::Mode;

  Archive(Mode mode, const nlohmann::json* in, nlohmann::json* out, std::string path, std::vector<Problem>* problems);

  bool reads() const { return mode_ == Mode::read; }
  bool writes() const { return mode_ == Mode::write; }
  bool describes() const { return mode_ == Mode::describe; }
  /// Reading, and no problem so far in this object or what is in it: rules between fields may be looked at.
  bool sound() const;
  /// Whether fields that exist only under this condition are visited: always where they are described.
  bool when(bool condition) const { return condition || describes(); }
  /// Whether the document that is read has a value for the field.
  bool has(const char* name) const;

  /// Numbers, truth values, texts and enums with names_of(); structs with fields(); optionals, lists and variants of
  /// these. `rules`: Between of a number, Length of a text, Count and then the rules of its items of a list.
  template <typename T, typename... Rules>
  void field(const char* name, T& value, const Rules&... rules) {
    auto slot = open(name);
    if (slot) visit(*slot, value, rules...);
  }
  /// The same; the document must have it.
  template <typename T, typename... Rules>
  void required(const char* name, T& value, const Rules&... rules) {
    auto slot = open(name);
    if (slot) visit(*slot, value, rules...);
    require(name);
  }
  /// An enum whose names are given here.
  template <typename T>
  void choice(const char* name, T& value, Names<T> names) {
    auto slot = open(name);
    if (slot) detail::visit_choice(*slot, value, names);
  }
  /// A text out of a few.
  void one_of(const char* name, std::string& value, std::span<const std::string_view> names);
  /// An object in a field of its own, whose fields `visit` visits.
  void object(const char* name, const std::function<void(Archive&)>& visit, bool is_required = false);
  /// A text that neither problems nor written documents show: these have "(hidden)", or null where it is empty.
  void secret(const char* name, std::string& value, Length limits = {});
  /// Seconds in documents, nanoseconds in the struct.
  void seconds(const char* name, std::int64_t& nanoseconds, Between<double> limits);
  /// What has a form of its own. `type` describes it.
  void custom(const char* name, std::string_view type, const std::function<Result<void>(const nlohmann::json&)>& read,
              const std::function<nlohmann::json()>& write);
  /// The default depends on other fields, and is not described.
  template <typename T, typename... Rules>
  void derived(const char* name, T& value, const Rules&... rules) {
    field(name, value, rules...);
    forget_default(name);
  }
  /// A field that the document may have, and nothing is made of.
  void ignore(const char* name) { (void)open(name); }

  /// One of several structs in the same object, by the name in the field `name`; each has a
  /// `static constexpr const char* kind`.
  template <typename... Ts>
  void kind(const char* name, std::variant<Ts...>& value);

  /// A rule between fields, to be looked at where the object is sound(). Reading, with `ok` false: a problem of the
  /// field `name`, which may be one of an inner object ("image.pixels_at"); `rule` goes on after its value: "must be
  /// …".
  void check(bool ok, const std::string& name, std::string_view rule, std::string remedy = {});
  /// The error of a rule of its own, which names its fields.
  void take(Result<void> result);

 private:
  friend struct detail::Slot;
  template <typename T, typename... Rules>
  static void visit(detail::Slot& slot, T& value, const Rules&... rules);
  template <typename T>
  static void visit_list(detail::Slot& slot, std::vector<T>& value) {
    visit_list(slot, value, Count{});
  }
  template <typename T, typename... Rules>
  static void visit_list(detail::Slot& slot, std::vector<T>& value, Count count, const Rules&... rules) {
    T plain{};
    slot.list(
        value.size(), count, [&](std::size_t size) { value.assign(size, T{}); },
        [&](std::size_t at, detail::Slot item) { visit(item, at < value.size() ? value[at] : plain, rules...); });
  }

  std::optional<detail::Slot> open(const char* name);
  void require(const char* name);
  void forget_default(const char* name);
  /// An error for each field that nobody asked for.
  void refuse_others();
  std::optional<std::size_t> kind_of(const char* name, std::size_t index, std::span<const std::string_view> names);
  void describe_kind(const char* name, std::string_view kind, const std::function<void(Archive&)>& visit);

  const Mode mode_;
  const nlohmann::json* in_;
  nlohmann::json* out_;
  const std::string path_;
  std::vector<Problem>* problems_;
  const std::size_t problems_before_;
  std::vector<std::string_view> known_;
  bool kind_is_known_ = true;
};

template <typename... Ts>
void Archive::kind(const char* name, std::variant<Ts...>& value) {
  static constexpr std::string_view names[] = {Ts::kind...};
  if (describes()) {
    (describe_kind(name, Ts::kind,
                   [](Archive& archive) {
                     Ts plain;
                     fields(archive, plain);
                   }),
     ...);
    return;
  }
  const auto index = kind_of(name, value.index(), names);
  if (!index) return;
  if (reads()) {
    std::size_t at = 0;
    ((at++ == *index ? static_cast<void>(value.template emplace<Ts>()) : void()), ...);
  }
  std::visit([this](auto& alternative) { fields(*this, alternative); }, value);
}

template <typename T, typename... Rules>
void Archive::visit(detail::Slot& slot, T& value, const Rules&... rules) {
  if constexpr (detail::is_optional<T>) {
    if (slot.mode == Mode::write && !value) return;  // it stays null
    typename T::value_type plain{};
    const bool has_default = value.has_value();
    if (slot.mode == Mode::read && !value) value.emplace();
    visit(slot, value ? *value : plain, rules...);
    if (slot.mode == Mode::describe && !has_default) slot.forget_default();
  } else if constexpr (detail::is_vector<T>) {
    visit_list(slot, value, rules...);
  } else if constexpr (std::is_same_v<T, bool>) {
    slot.flag(value);
  } else if constexpr (std::is_enum_v<T>) {
    detail::visit_choice<T>(slot, value, names_of(value));
  } else if constexpr (std::unsigned_integral<T>) {
    const auto [least, most] = detail::limits_of<T>(rules...);
    std::uint64_t wide = value;
    slot.whole(wide, {least, most});
    value = static_cast<T>(wide);
  } else if constexpr (std::signed_integral<T>) {
    const auto [least, most] = detail::limits_of<T>(rules...);
    std::int64_t wide = value;
    slot.integer(wide, {least, most});
    value = static_cast<T>(wide);
  } else if constexpr (std::floating_point<T>) {
    slot.real(value, detail::limits_of<double>(rules...));
  } else if constexpr (std::is_same_v<T, std::string>) {
    slot.text(value, detail::length_of(rules...));
  } else {
    slot.object([&](Archive& archive) { fields(archive, value); });
  }
}

/// Fills `job` from the object; `what` names it in problems if it is not an object.
template <typename T>
std::vector<Problem> read_job(const nlohmann::json& object, T& job, std::string_view path = "") {
  std::vector<Problem> problems;
  detail::Slot slot{detail::Mode::read, &object, nullptr, std::string(path), &problems};
  slot.object([&](Archive& archive) { fields(archive, job); });
  return problems;
}

/// The same as one value; all problems in one error.
template <typename T>
Result<T> job_from(const nlohmann::json& object, std::string_view path = "") {
  T job;
  if (const auto problems = read_job(object, job, path); !problems.empty()) return error_of(problems);
  return job;
}

namespace detail {
void start_object(nlohmann::json& out);
void start_list(nlohmann::json& out);
}  // namespace detail

template <typename T>
void write_job(const T& job, nlohmann::json& out) {
  auto copy = job;
  detail::Slot slot{detail::Mode::write, nullptr, &out, "", nullptr};
  slot.object([&](Archive& archive) { fields(archive, copy); });
}

/// A list with an object for each field, in their order: name, type, default, minimum, maximum, unit, choices;
/// `fields` of objects, `items` of lists, `kinds` of a field that decides which others there are.
template <typename T>
void describe_job(nlohmann::json& out) {
  T job;
  Archive archive(detail::Mode::describe, nullptr, &out, "", nullptr);
  detail::start_list(out);
  fields(archive, job);
}

}  // namespace penstock
