/// What the ends of a network workload say to each other, from honest hands and from others.
#include <sys/socket.h>

#include <array>
#include <thread>

#include "base/time/clock.hpp"
#include "load/network/message.hpp"
#include "load_fixture.hpp"

namespace penstock::load {
namespace {

constexpr std::int64_t second_ns = 1'000'000'000;

Side some_side() {
  Side side{.received_s = 1.5,
            .seconds = 2,
            .user_s = 0.25,
            .system_s = 0.5,
            .received_series = {7, 0, 9},
            .streams = {},
            .gaps = {.longest_ns = 30 * second_ns, .sum_ns = 31 * second_ns, .listed = {}}};
  side.streams.resize(2);
  side.streams[1] = {
      .sent_bytes = 1, .received_bytes = std::uint64_t{1} << 50, .busy_s = 0.75, .before = {}, .after = {}};
  side.streams[1].after.segments_sent_again = 5;
  return side;
}

TEST(NetworkMessage, WhatIsSaidIsUnderstood) {
  for (const bool stream : {false, true}) {
    const auto hello = parse_hello(to_json(Hello{stream, "secret", "name", stream ? 3U : 0U}));
    ASSERT_TRUE(hello) << hello.error().message();
    EXPECT_EQ(hello->is_stream, stream);
    EXPECT_EQ(hello->token, "secret");
    EXPECT_EQ(hello->session, stream ? "name" : "");
    EXPECT_EQ(hello->number, stream ? 3U : 0U);
  }
  const auto order = parse_order(to_json(PhaseOrder{Pattern::both, 4, 65536, 2.5, 0.1}));
  ASSERT_TRUE(order) << order.error().message();
  EXPECT_EQ(order->pattern, Pattern::both);
  EXPECT_EQ(to_json(*order), to_json(PhaseOrder{Pattern::both, 4, 65536, 2.5, 0.1}));
  const auto side = parse_side(to_json(some_side()), 2);
  ASSERT_TRUE(side) << side.error().message();
  EXPECT_EQ(to_json(*side), to_json(some_side()));
  EXPECT_EQ(side->streams[1].after.segments_sent_again, 5U);
}

TEST(NetworkMessage, WhatIsMissingOrTooMuchIsNamed) {
  const auto whole = to_json(some_side());
  for (const auto& [name, value] : whole.items()) {
    auto less = whole;
    less.erase(name);
    const auto side = parse_side(less, 2);
    ASSERT_FALSE(side) << name;
    EXPECT_NE(side.error().message().find(name), std::string::npos) << side.error().message();
  }
  auto more = whole;
  more["more"] = 1;
  EXPECT_FALSE(parse_side(more, 2));
  EXPECT_FALSE(parse_side(whole, 3));
  auto long_series = whole;
  long_series["received_series"] = std::vector<int>(report_intervals_max + 1, 0);
  EXPECT_FALSE(parse_side(long_series, 2));
  auto negative = whole;
  negative["streams"][0]["after"]["bytes_sent"] = -1;
  EXPECT_FALSE(parse_side(negative, 2));
}

TEST(NetworkMessage, HeadsAreOfThisProtocolAndVersionAndNoLongerThanAllowed) {
  const auto bytes = encode_message({{"type", "ready"}});
  const Bytes head(bytes.data(), network_head_bytes);
  ASSERT_TRUE(parse_head(head, 4096));
  EXPECT_EQ(*parse_head(head, 4096), bytes.size() - network_head_bytes);
  EXPECT_EQ(parse_head(head, 4).error().code(), Errc::too_large);
  EXPECT_EQ(parse_head(head.first(15), 4096).error().code(), Errc::malformed);
  for (std::size_t at = 0; at < 12; ++at) {
    auto other = bytes;
    other[at] ^= std::byte{1};
    const auto length = parse_head(Bytes(other.data(), network_head_bytes), 4096);
    ASSERT_FALSE(length) << at;
    EXPECT_EQ(length.error().code(), at < 8 ? Errc::malformed : Errc::unsupported) << at;
  }
}

TEST(NetworkMessage, WordsOfAPeerAreFitForATerminal) {
  EXPECT_EQ(quoted_text("a\x1b[2Jb\n\xff"), "a?[2Jb??");
  EXPECT_EQ(quoted_text(std::string(5000, 'x')).size(), 300U);
}

class Pair : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    near_.emplace(ends[0]);
    far_.emplace(ends[1]);
  }
  Result<Json> received(std::int64_t within_ns = 10 * second_ns) {
    return receive_message(*near_, 4096, {monotonic_ns() + within_ns, stop_});
  }

  std::optional<Socket> near_, far_;
  std::atomic<bool> stop_{false};
};

TEST_F(Pair, AMessageMayComeByteByByte) {
  const auto bytes = encode_message({{"type", "ready"}});
  std::thread sender([&] {
    for (const auto byte : bytes) ASSERT_TRUE(far_->send_all(Bytes(&byte, 1)).ok());
  });
  const auto message = received();
  sender.join();
  ASSERT_TRUE(message) << message.error().message();
  EXPECT_EQ((*message)["type"], "ready");
}

TEST_F(Pair, HalfAMessageEndsInTimeOrWithThePeer) {
  const auto bytes = encode_message({{"type", "ready"}});
  ASSERT_TRUE(far_->send_all(Bytes(bytes).first(bytes.size() - 1)).ok());
  EXPECT_EQ(received(second_ns / 100).error().code(), Errc::timed_out);
  stop_ = true;
  EXPECT_EQ(received().error().code(), Errc::cancelled);
  stop_ = false;
  far_.reset();
  EXPECT_EQ(received().error().code(), Errc::disconnected);
}

TEST_F(Pair, ARefusalIsAnErrorWithItsReason) {
  ASSERT_TRUE(send_message(*far_, {{"type", "refused"}, {"text", "wrong token"}}).ok());
  const auto message = received();
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().code(), Errc::refused);
  EXPECT_NE(message.error().message().find("wrong token"), std::string::npos);
}

Json network_plan() {
  return Json::parse(R"({
    "backend": {"kind": "null"},
    "workload": {"kind": "network", "host": "10.1.2.3", "port": 9920, "token": "secret", "streams": 4,
                 "transfers": ["up", "both"], "echo_bytes": [8, 1024], "cpus": [0, 70]}})");
}

TEST(NetworkPlan, HidesItsToken) {
  const auto plan = LoadPlan::from_json(network_plan().dump());
  ASSERT_TRUE(plan) << plan.error().message();
  const auto& network = std::get<NetworkPlan>(plan->workload);
  EXPECT_EQ(network.token, "secret");
  EXPECT_EQ(network.transfers, (std::vector{Pattern::up, Pattern::both}));
  EXPECT_EQ(mask_of(network.cpus), (CpuMask{1, 1UL << 6}));
  EXPECT_EQ(plan->to_json().dump().find("secret"), std::string::npos);
  EXPECT_EQ(plan->to_json()["workload"]["token"], "(hidden)");
}

TEST(NetworkPlan, NamesWhatIsWrong) {
  for (const auto& [name, value] : std::vector<std::pair<std::string, Json>>{{"host", ""},
                                                                             {"port", 0},
                                                                             {"port", 65536},
                                                                             {"token", std::string(257, 'x')},
                                                                             {"streams", 65},
                                                                             {"message_bytes", 0},
                                                                             {"message_bytes", (1 << 24) + 1},
                                                                             {"seconds", 0},
                                                                             {"transfers", {"echo"}},
                                                                             {"transfers", {1}},
                                                                             {"echo_bytes", {0}},
                                                                             {"echo_bytes", std::vector<int>(65, 8)},
                                                                             {"cpus", {65536}},
                                                                             {"cpus", "0"}}) {
    auto plan = network_plan();
    plan["workload"][name] = value;
    const auto result = LoadPlan::from_json(plan.dump());
    ASSERT_FALSE(result) << name << " " << value;
    EXPECT_NE(result.error().message().find("workload." + name), std::string::npos) << result.error().message();
  }
  auto stored = network_plan();
  stored["backend"] = {{"kind", "posix"}, {"folder", "/data"}};
  EXPECT_FALSE(LoadPlan::from_json(stored.dump()));
}

class NetworkServer : public LoadTest {};

TEST_F(NetworkServer, WantsATokenWhereOthersReachIt) {
  const auto outcome =
      run({{"backend", {{"kind", "null"}}},
           {"workload", {{"kind", "network_server"}, {"host", "0.0.0.0"}, {"port", 0}, {"sessions", 1}}}});
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().message().find("requires a token"), std::string::npos);
}

}  // namespace
}  // namespace penstock::load
