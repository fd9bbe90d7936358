#include "recorder/team/rank_role.hpp"

#include "recorder/team/coordinator.hpp"
#include "recorder/team/member.hpp"

namespace penstock::recorder {

std::unique_ptr<RankRole> make_role(const RoleParts& parts) {
  if (parts.team.leads()) return std::make_unique<Coordinator>(parts);
  return std::make_unique<Member>(parts.env, parts.config, parts.team);
}

}  // namespace penstock::recorder
