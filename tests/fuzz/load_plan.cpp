/// Plans of the load generator from hostile hands: whatever the bytes, parsing answers, and what parses comes out as a
/// plan that parses to the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "load/plan.hpp"

using namespace penstock;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto plan = load::LoadPlan::from_json(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!plan.ok()) return 0;
  const auto again = load::LoadPlan::from_json(plan->to_json().dump(-1, ' ', false, Json::error_handler_t::replace));
  if (!again.ok() || again->to_json() != plan->to_json()) std::abort();
  return 0;
}
