#include "recorder/config/config.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace penstock::recorder {
namespace {

using nlohmann::json;

json smallest() { return {{"folder", "/data"}, {"sources", {{{"kind", "tcp"}}}}}; }

TEST(Config, DefaultsListenOnLoopbackAndCompress) {
  auto config = Config::from_json(smallest()).value();
  EXPECT_EQ(config.sources.at(0).host, "127.0.0.1");
  EXPECT_EQ(config.codec.encoding, Encoding::bitshuffle_lz4);
  EXPECT_FALSE(config.store.overwrite);
  EXPECT_LE(config.frame_pool_bytes() + config.shared_segment_bytes(), config.pool_bytes);
}

TEST(Config, ALargePoolHasMoreMemoryForValuesAndStaysWithinItsBytes) {
  Config config;
  const auto beside = [&](std::uint64_t pool_bytes) {
    config.pool_bytes = pool_bytes;
    return config.frame_pool_bytes() + config.shared_segment_bytes() + config.values_bytes() - pool_bytes;
  };
  for (const std::uint64_t mebibytes : {64, 512, 513, 1024, 4096, 65536}) EXPECT_EQ(beside(mebibytes << 20), 32u << 20);
  config.pool_bytes = 64 << 20;
  EXPECT_EQ(config.values_bytes(), 32u << 20);
  config.pool_bytes = 1 << 30;
  EXPECT_EQ(config.values_bytes(), 64u << 20);
  config.pool_bytes = std::uint64_t{64} << 30;
  EXPECT_EQ(config.values_bytes(), 256u << 20);
}

TEST(Config, ReadsEveryField) {
  auto plan = smallest();
  plan["codec"] = {{"encoding", "bszstd"}, {"level", 3}, {"block_bytes", 65536}};
  plan["store"] = {{"segment_bytes", 1 << 20}, {"durability", "segment"}, {"direct", false}, {"flush_interval_ms", 50}};
  plan["when_full"] = "drop";
  plan["tables_bytes"] = 1 << 20;
  plan["overwrite"] = true;
  auto config = Config::from_json(plan).value();
  EXPECT_EQ(config.codec.encoding, Encoding::bitshuffle_zstd);
  EXPECT_EQ(config.codec.level, 3);
  EXPECT_EQ(config.store.durability, store::Durability::segment);
  EXPECT_FALSE(config.store.direct);
  EXPECT_EQ(config.store.flush_interval.count(), 50);
  EXPECT_EQ(config.when_full, WhenFull::drop);
  EXPECT_EQ(config.tables_bytes, 1u << 20);
  EXPECT_TRUE(config.store.overwrite);
}

TEST(Config, ReadsWhereThingsAreAndWhatIsWatched) {
  auto plan = smallest();
  const auto plain = Config::from_json(plan).value();
  EXPECT_EQ(plain.stall_limit_ms, 1000u);
  EXPECT_FALSE(plain.metrics);
  EXPECT_FALSE(plain.machine.chosen());
  EXPECT_EQ(plain.store.huge_pages, HugePages::transparent);
  plan["stall_limit_ms"] = 0;
  plan["metrics"] = {{"port", 9811}};
  plan["machine"] = {{"compress", "1-3"}, {"huge_pages", "explicit"}};
  const auto config = Config::from_json(plan).value();
  EXPECT_EQ(config.stall_limit_ms, 0u);
  EXPECT_EQ(config.metrics->host, "127.0.0.1");
  EXPECT_TRUE(config.machine.chosen());
  EXPECT_EQ(config.machine.compress, "1-3");
  EXPECT_EQ(config.store.huge_pages, HugePages::reserved);
  EXPECT_EQ(config.for_rank(3, 4).value().metrics->port, 9814);
  EXPECT_FALSE(config.for_rank(60000, 60001).ok());
}

TEST(Config, RanksUseFoldersInTurn) {
  auto plan = smallest();
  const auto first = plan["folder"];
  plan["folders"] = {first, "/second"};
  const auto config = Config::from_json(plan).value();
  EXPECT_EQ(config.for_rank(0, 3).value().folder, first);
  EXPECT_EQ(config.for_rank(1, 3).value().folder, "/second");
  EXPECT_EQ(config.for_rank(2, 3).value().folder, first);
  EXPECT_EQ(Config::from_json(smallest()).value().for_rank(1, 2).value().folder, config.folder);
  plan["folders"] = {"/second", first};
  EXPECT_NE(Config::from_json(plan).error().message().find("must start with folder"), std::string::npos);
  plan["folders"] = {""};
  EXPECT_NE(Config::from_json(plan).error().message().find("folders[0]"), std::string::npos);
}

json element(unsigned number, unsigned rows = 2, unsigned columns = 1) {
  return {{"grid", {rows, columns}}, {"number", number}};
}

json zmq(const std::string& endpoint, const json& element) {
  return {{"kind", "zmq"}, {"endpoint", endpoint}, {"element", element}};
}

TEST(Config, ASourceMayBeOfAnElementOfTheDetector) {
  auto plan = smallest();
  plan["sources"] = {zmq("tcp://a:1", element(1)), {{"kind", "tcp"}}, zmq("tcp://b:1", element(0))};
  const auto config = Config::from_json(plan).value();
  EXPECT_EQ(config.sources.at(0).element, (ElementPlace{2, 1, 1}));
  EXPECT_FALSE(config.sources.at(1).element);
  EXPECT_EQ(config.sources.at(2).element, (ElementPlace{2, 1, 0}));
  EXPECT_TRUE(config.for_rank(0, 1).ok());
  const auto ranks = config.for_rank(0, 2);
  ASSERT_FALSE(ranks.ok());
  EXPECT_NE(ranks.error().message().find("tcp://a:1 has an element, but the recorder has 2 ranks"), std::string::npos);
}

TEST(Config, ElementsMayStandApart) {
  auto plan = smallest();
  auto apart = element(1), also = element(0);
  apart["gap"] = {8U, 3U};
  also["gap"] = {{"rows", json::array({8U})}};
  plan["sources"] = {zmq("tcp://a:1", apart), zmq("tcp://b:1", also)};
  const auto config = Config::from_json(plan).value();
  EXPECT_EQ(config.sources.at(0).element->row_gaps, std::vector<std::uint32_t>{8});
  EXPECT_TRUE(config.sources.at(0).element->column_gaps.empty()) << "no neighbours to the right";
  apart["gap"] = nullptr;
  plan["sources"] = {zmq("tcp://a:1", apart), zmq("tcp://b:1", also)};
  const auto disagree = Config::from_json(plan);
  ASSERT_FALSE(disagree.ok());
  EXPECT_NE(disagree.error().message().find("sources[1].element.gap is [8, 0], but sources[0] has [0, 0]"),
            std::string::npos)
      << disagree.error().message();
}

/// Each is one mistake; the message must name the field and the value.
TEST(Config, MistakesAreNamed) {
  struct Mistake {
    const char* pointer;
    json value;
    const char* named;
  };
  const Mistake mistakes[] = {
      {"/folder", 7, "folder: 7 is not text"},
      {"/threads", 0, "threads: 0 is below the minimum of 1"},
      {"/threads", -3, "threads: -3 is below"},
      {"/threads", 2.5, "threads: 2.5 is not a whole number"},
      {"/codec",
       {{"encoding", "bslz5"}},
       "codec.encoding: \"bslz5\" is not one of none, bslz4, bszstd, lz4, zstd, deflate; did you mean \"bslz4\"?"},
      {"/codec", {{"level", 99}}, "codec.level: 99 exceeds the maximum of 19"},
      {"/codec", {{"block_bytes", 100}}, "codec.block_bytes: 100 must be a multiple of 64"},
      {"/codec", {{"filters", json::array()}}, "codec.filters: [] must not be empty"},
      {"/codec", {{"filters", {{{"name", "blosc"}}}}}, "codec.filters[0].id: this field is required"},
      {"/codec", {{"filters", {{{"id", 70000}}}}}, "codec.filters[0].id: 70000 exceeds the maximum of 65535"},
      {"/codec",
       {{"filters", {{{"id", 307}, {"values", {-1}}}}}},
       "codec.filters[0].values[0]: -1 is below the minimum of 0"},
      {"/codec", {{"filters", {{{"id", 307}, {"channel", "1"}}}}}, "the first filter must name no channel"},
      {"/codec", {{"filters", {{{"id", 307}}, {{"id", 307}}}}}, "each other one a different channel"},
      {"/codec", {{"encoding", "lz4"}, {"filters", {{{"id", 307}}}}}, "codec.encoding: \"lz4\" must be none"},
      {"/store", {{"durability", "always"}}, "store.durability: \"always\" is not one of none, interval, segment"},
      {"/store", {{"alignment_bytes", 5000}}, "store.alignment_bytes: 5000 must be a power of two"},
      {"/store", {{"placement", "scattered"}}, "store.placement: \"scattered\" is not one of log, slots"},
      {"/store", {{"placement", "contiguous"}}, "store.placement: \"contiguous\" is not one of log, slots"},
      {"/sources", json::array(), "sources: [] must not be empty"},
      {"/sources", json::array({{{"kind", "udp"}}}), "sources[0].kind: \"udp\" is not one of tcp, zmq"},
      {"/sources", json::array({{{"kind", "tcp"}, {"port", 70000}}}),
       "sources[0].port: 70000 exceeds the maximum of 65535"},
      {"/sources", json::array({{{"kind", "tcp"}, {"lag_max_s", 0}}}), "sources[0].lag_max_s: 0 is below"},
      {"/sources", json::array({{{"kind", "tcp"}, {"rate_min_bytes_per_s", 0}}}),
       "sources[0].rate_min_bytes_per_s: 0 is below the minimum of 1"},
      {"/sources", json::array({{{"kind", "zmq"}}}), "sources[0].endpoint: this field is required"},
      {"/sources", json::array({zmq("tcp://a:1", element(2))}), "sources[0].element.number is 2, expected 0 to 1"},
      {"/sources", json::array({zmq("tcp://a:1", element(0, 33))}), "sources[0].element.grid is [33,1]"},
      {"/sources", json::array({zmq("tcp://a:1", {{"number", 0}})}), "sources[0].element.grid is null"},
      {"/sources", json::array({zmq("tcp://a:1", {{"at", 0}})}), "sources[0].element.at is an unknown field"},
      {"/sources", json::array({zmq("tcp://a:1", 3)}), "sources[0].element is 3, expected an object"},
      {"/sources", json::array({{{"kind", "tcp"}, {"element", element(0)}}}), "sources[0].element: unknown field"},
      {"/sources", json::array({zmq("tcp://a:1", element(1)), zmq("tcp://b:1", element(1))}),
       "sources[1].element.number 1 is already used by sources[0]"},
      {"/sources", json::array({zmq("tcp://a:1", element(1)), zmq("tcp://b:1", element(0, 1, 2))}),
       "sources[1].element.grid is [1, 2], but sources[0] has [2, 1]"},
      {"/sources", json::array({zmq("tcp://a:1", element(1)), zmq("tcp://a:1", element(0))}),
       "sources[1].endpoint tcp://a:1 is already used by sources[0]"},
      {"/pool_bytes", 10, "pool_bytes: 10 is below the minimum of 67108864"},
      {"/metrics", {{"port", 70000}}, "metrics.port: 70000 exceeds"},
      {"/metrics", {{"token", "x"}}, "metrics.token: unknown field"},
      {"/machine", {{"receive", 3}}, "machine.receive: 3 is not text"},
      {"/machine", {{"huge_pages", "giant"}}, "machine.huge_pages: \"giant\" is not one of off, transparent, explicit"},
      {"/stall_limit_ms", -1, "stall_limit_ms: -1 is below"},
      {"/when_full", "explode", "when_full: \"explode\" is not one of hold, drop"},
      {"/treads", 2, "treads: unknown field; did you mean \"threads\"?"},
  };
  for (const auto& mistake : mistakes) {
    auto plan = smallest();
    plan[json::json_pointer(mistake.pointer)] = mistake.value;
    auto config = Config::from_json(plan);
    ASSERT_FALSE(config.ok()) << mistake.named;
    EXPECT_EQ(config.error().code(), Errc::invalid_argument);
    EXPECT_NE(config.error().message().find(mistake.named), std::string::npos) << config.error().message();
  }
  EXPECT_FALSE(Config::from_json(json::array()).ok());
}

}  // namespace
}  // namespace penstock::recorder
