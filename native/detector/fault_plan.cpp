#include "detector/fault_plan.hpp"

#include <algorithm>

#include "base/random.hpp"

namespace penstock::detector {
namespace {

constexpr std::uint64_t fault_purpose = 0xFA17;
constexpr std::size_t rules_max = 64;
constexpr std::size_t ranges_max = 100'000;
/// Frames that are held back together.
constexpr std::uint64_t by_frames_max = 65536;
constexpr std::uint64_t by_ms_max = 600'000;
constexpr std::uint64_t frames_max = std::uint64_t{1} << 40;

Result<FaultKind> kind_from(Fields& fields) {
  PEN_TRY(fields.require("kind"));
  PEN_ASSIGN(const auto text, fields.text("kind", ""));
  const auto found = std::find(fault_names.begin(), fault_names.end(), text);
  if (found == fault_names.end())
    return fields.wrong("kind", "drop, late, reorder, duplicate, corrupt, flip, shape or cut");
  return static_cast<FaultKind>(found - fault_names.begin());
}

/// Pairs of the first frame and the last.
Result<std::vector<FrameRange>> frames_from(Fields& fields) {
  std::vector<FrameRange> ranges;
  const auto* list = fields.find("frames");
  if (list == nullptr) return ranges;
  const auto wrong = [&] {
    return fields.wrong("frames", fmt::format("a list of up to {} pairs [first, last]", ranges_max));
  };
  if (!list->is_array() || list->size() > ranges_max) return wrong();
  const auto number = [](const Json& each) { return each.is_number_unsigned() && each <= frames_max; };
  for (const auto& each : *list) {
    if (!each.is_array() || each.size() != 2 || !number(each[0]) || !number(each[1]) || each[0] > each[1])
      return wrong();
    ranges.push_back({each[0].get<std::uint64_t>(), each[1].get<std::uint64_t>() + 1});
  }
  return ranges;
}

Result<FaultRule> rule_from(const Json& object, const std::string& path) {
  PEN_ASSIGN(auto fields, Fields::of(object, path));
  FaultRule rule;
  PEN_ASSIGN(rule.kind, kind_from(fields));
  PEN_ASSIGN(rule.rate, fields.number("rate", 0, 0, 1));
  PEN_ASSIGN(rule.frames, frames_from(fields));
  if (fields.find("element") != nullptr) {
    PEN_ASSIGN(const auto element, fields.whole("element", 0, 0, 31));
    rule.element = static_cast<std::uint32_t>(element);
  }
  const bool late = rule.kind == FaultKind::late, reorder = rule.kind == FaultKind::reorder;
  if (fields.find("by_frames") != nullptr && !late && !reorder) return fields.wrong("by_frames", "none for this kind");
  if (fields.find("by_ms") != nullptr && !late) return fields.wrong("by_ms", "none for this kind");
  if (late || reorder) {
    PEN_ASSIGN(rule.by_frames, fields.whole("by_frames", late ? 1 : 2, 1, by_frames_max));
  }
  if (late) {
    PEN_ASSIGN(const auto by_ms, fields.whole("by_ms", 0, 0, by_ms_max));
    rule.by_ns = static_cast<std::int64_t>(by_ms) * 1'000'000;
  }
  PEN_TRY(fields.refuse_others());
  return rule;
}

bool names(const FaultRule& rule, std::uint64_t frame) {
  return std::any_of(rule.frames.begin(), rule.frames.end(),
                     [&](const auto& range) { return range.first <= frame && frame < range.end; });
}

}  // namespace

Result<FaultPlan> FaultPlan::from_json(const Json& object) {
  PEN_ASSIGN(auto fields, Fields::of(object, "faults"));
  FaultPlan plan;
  PEN_ASSIGN(plan.seed, fields.whole("seed", 1));
  PEN_ASSIGN(plan.log, fields.text("log", ""));
  if (const auto* rules = fields.find("rules"); rules != nullptr) {
    if (!rules->is_array() || rules->size() > rules_max)
      return fields.wrong("rules", fmt::format("a list of up to {} rules", rules_max));
    for (std::size_t i = 0; i < rules->size(); ++i) {
      PEN_ASSIGN(plan.rules.emplace_back(), rule_from((*rules)[i], fmt::format("faults.rules[{}]", i)));
    }
  }
  PEN_TRY(fields.refuse_others());
  return plan;
}

Json FaultPlan::to_json() const {
  Json list = Json::array();
  for (const auto& rule : rules) {
    Json each{{"kind", name(rule.kind)}};
    if (rule.frames.empty())
      each["rate"] = rule.rate;
    else
      for (const auto& range : rule.frames) each["frames"].push_back({range.first, range.end - 1});
    if (rule.element) each["element"] = *rule.element;
    if (rule.by_ns > 0)
      each["by_ms"] = rule.by_ns / 1'000'000;
    else if (rule.by_frames > 0)
      each["by_frames"] = rule.by_frames;
    list.push_back(std::move(each));
  }
  return {{"seed", seed}, {"rules", std::move(list)}};
}

const FaultRule* FaultPlan::rule_for(std::uint64_t frame, std::uint32_t element) const {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const auto& rule = rules[i];
    if (rule.element && *rule.element != element) continue;
    const bool happens = !rule.frames.empty()
                             ? names(rule, frame)
                             : RandomStream(key_of({seed, fault_purpose, i, element, frame})).next_unit() < rule.rate;
    if (happens) return &rule;
  }
  return nullptr;
}

}  // namespace penstock::detector
