#include "check/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace penstock::check {
namespace {

const char* name(Level level) {
  switch (level) {
    case Level::info: return "info";
    case Level::warning: return "warning";
    case Level::error: return "error";
  }
  return "error";
}

nlohmann::json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text);
}

}  // namespace

void Findings::add(Finding finding) {
  MutexLock lock(mutex_);
  if (finding.lag && ignores_lags_) return;
  const auto [item, is_new] = kinds_.try_emplace(finding.what);
  auto& kind = item->second;
  if (is_new) kind.order = kinds_.size();
  kind.level = std::max(kind.level, finding.level);
  if (finding.places == 1 && kind.kept.size() < kept_per_kind_)
    kind.kept.push_back(std::move(finding));
  else
    kind.more[finding.source_file] += finding.places;
}

void Findings::ignore_lags() {
  MutexLock lock(mutex_);
  ignores_lags_ = true;
}

bool Findings::any_error() const {
  MutexLock lock(mutex_);
  return std::any_of(kinds_.begin(), kinds_.end(), [](const auto& item) { return item.second.level == Level::error; });
}

bool Findings::any(std::string_view what) const {
  MutexLock lock(mutex_);
  return kinds_.find(what) != kinds_.end();
}

std::vector<Finding> Findings::list() const {
  MutexLock lock(mutex_);
  std::vector<const Kind*> kinds;
  for (const auto& [what, kind] : kinds_) kinds.push_back(&kind);
  std::sort(kinds.begin(), kinds.end(), [](const Kind* a, const Kind* b) {
    return a->level != b->level ? a->level > b->level : a->order < b->order;
  });
  std::vector<Finding> all;
  for (const auto* kind : kinds) {
    all.insert(all.end(), kind->kept.begin(), kind->kept.end());
    for (const auto& [file, more] : kind->more)
      all.push_back({kind->level,
                     kind->kept.front().what,
                     file.empty() ? Place(fmt::format("{} more", more)) : Place(fmt::format("{}: {} more", file, more)),
                     {},
                     {},
                     {},
                     kind->kept.front().lag,
                     file,
                     more});
  }
  return all;
}

nlohmann::json to_json(const Finding& finding) {
  nlohmann::json json = {{"level", name(finding.level)},
                         {"what", finding.what},
                         {"where", text_or_null(finding.where.text)},
                         {"expected", text_or_null(finding.expected)},
                         {"actual", text_or_null(finding.actual)},
                         {"remedy", text_or_null(finding.remedy)},
                         {"places", finding.places}};
  if (!finding.source_file.empty()) json["source_file"] = finding.source_file;
  if (const auto& frames = finding.where.frames) json["frames"] = {frames->first, frames->last};
  return json;
}

}  // namespace penstock::check
