#include "recorder/team/rank_role.hpp"

#include <set>

#include "recorder/team/coordinator.hpp"
#include "recorder/team/member.hpp"

namespace penstock::recorder {
namespace {

constexpr std::size_t starts_max = 64;

series::Time time_of(double seconds) { return static_cast<series::Time>(seconds * 1e9); }

}  // namespace

series::Rules rules_of(const Config& config, const Team& team) {
  series::Rules rules;
  rules.ranks = team.ranks();
  rules.rank = team.rank();
  rules.holds_back = config.when_full == WhenFull::hold;
  rules.resumes = config.resume;
  rules.sources = config.sources.size();
  rules.tcp = 0;
  std::set<std::string> pulled;
  for (const auto& source : config.sources) {
    const bool is_tcp = source.kind == SourceConfig::Kind::tcp;
    rules.tcp += is_tcp ? 1 : 0;
    rules.bound += !is_tcp && source.bind ? 1 : 0;
    if (!is_tcp && !source.bind) pulled.insert(source.endpoint);
  }
  rules.pulled = pulled.size();
  rules.files_max = config.open_files_max();
  rules.starts_max = starts_max;
  rules.starts_bytes_max = config.tables_bytes;
  rules.frames_bytes_max = config.waiting_bytes_max();
  rules.timeouts = {time_of(config.end_timeout_s), time_of(config.idle_timeout_s), time_of(config.end_after_s)};
  return rules;
}

std::unique_ptr<RankRole> make_role(const RoleParts& parts) {
  if (parts.team.leads()) return std::make_unique<Coordinator>(parts);
  return std::make_unique<Member>(parts.env, parts.config, parts.team);
}

}  // namespace penstock::recorder
