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

/// Pairs of the first frame and the last.
Result<std::vector<FrameRange>> frames_from(const Json& list) {
  std::vector<FrameRange> ranges;
  const auto wrong = make_error(Errc::invalid_argument, "frames: {} is not a list of up to {} pairs [first, last]",
                                excerpt(list), ranges_max);
  if (!list.is_array() || list.size() > ranges_max) return wrong;
  const auto number = [](const Json& each) { return each.is_number_unsigned() && each <= frames_max; };
  for (const auto& each : list) {
    if (!each.is_array() || each.size() != 2 || !number(each[0]) || !number(each[1]) || each[0] > each[1]) return wrong;
    ranges.push_back({each[0].get<std::uint64_t>(), each[1].get<std::uint64_t>() + 1});
  }
  return ranges;
}

bool names(const FaultRule& rule, std::uint64_t frame) {
  return std::any_of(rule.frames.begin(), rule.frames.end(),
                     [&](const auto& range) { return range.first <= frame && frame < range.end; });
}

}  // namespace

static Names<FaultKind> names_of(FaultKind) {
  static constexpr std::pair<std::string_view, FaultKind> names[] = {
      {"drop", FaultKind::drop},           {"late", FaultKind::late},       {"reorder", FaultKind::reorder},
      {"duplicate", FaultKind::duplicate}, {"corrupt", FaultKind::corrupt}, {"flip", FaultKind::flip},
      {"shape", FaultKind::shape},         {"cut", FaultKind::cut}};
  return names;
}

static void fields(Archive& archive, FaultRule& rule) {
  archive.required("kind", rule.kind);
  archive.field("rate", rule.rate, between_reals(0, 1));
  const auto read_frames = [&](const Json& list) -> Result<void> {
    PEN_ASSIGN(rule.frames, frames_from(list));
    return {};
  };
  archive.custom("frames", "list of pairs [first, last]", read_frames, [] { return Json(); });
  archive.field("element", rule.element, between(0, 31));
  const bool late = rule.kind == FaultKind::late, reorder = rule.kind == FaultKind::reorder;
  archive.check(late || reorder || !archive.has("by_frames"), "by_frames", "must be left out with this kind");
  archive.check(late || !archive.has("by_ms"), "by_ms", "must be left out with this kind");
  if (archive.reads()) rule.by_frames = late ? 1 : reorder ? 2 : 0;
  archive.derived("by_frames", rule.by_frames, between(1, by_frames_max));
  auto by_ms = static_cast<std::uint64_t>(rule.by_ns / 1'000'000);
  archive.field("by_ms", by_ms, between(0, by_ms_max));
  rule.by_ns = static_cast<std::int64_t>(by_ms) * 1'000'000;
}

void fields(Archive& archive, FaultPlan& plan) {
  archive.field("seed", plan.seed);
  archive.field("log", plan.log);
  archive.field("rules", plan.rules, Count{0, rules_max});
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
