#include "load/document.hpp"

namespace penstock::load {

Json to_json(const Times& times) {
  auto buckets = Json::array();
  times.each_bucket([&](std::uint64_t lowest, std::uint64_t highest, std::uint64_t count) {
    buckets.push_back(Json::array({lowest, highest, count}));
  });
  return {{"count", times.count()}, {"max_ns", times.max_ns()}, {"buckets", std::move(buckets)}};
}

}  // namespace penstock::load
