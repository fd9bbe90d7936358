#include <gtest/gtest.h>

#include <charconv>

#include "base/net/socket.hpp"
#include "recorder/service/metrics/metrics.hpp"

namespace penstock::recorder {
namespace {

using namespace std::chrono_literals;

class MetricsServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    MetricsConfig config;
    config.port = 0;
    server_ = MetricsServer::start(config, {[] { return Snapshot{}; }, &watch_, 0}).value();
    const auto address = server_->address();
    const auto colon = address.rfind(':');
    std::from_chars(address.data() + colon + 1, address.data() + address.size(), port_);
  }

  Socket connect() { return connect_to("127.0.0.1", port_, 5s).value(); }
  std::string ask(std::string_view request) {
    auto client = connect();
    client.set_receive_timeout(20s);
    EXPECT_TRUE(client.send_all(std::as_bytes(std::span(request))).ok());
    std::string answer;
    std::array<std::byte, 4096> piece;
    for (;;) {
      const auto got = client.receive(piece, false);
      if (!got.ok() || *got == 0) return answer;
      answer.append(reinterpret_cast<const char*>(piece.data()), *got);
    }
  }

  CallWatch watch_{std::chrono::milliseconds(0), {}};
  std::unique_ptr<MetricsServer> server_;
  std::uint16_t port_ = 0;
};

TEST_F(MetricsServerTest, AScrapeIsAnsweredWhile200HalfRequestsWait) {
  std::vector<Socket> half;
  for (int i = 0; i < 200; ++i) {
    half.push_back(connect());
    ASSERT_TRUE(half.back().send_all(std::as_bytes(std::span("GET /metr", 9))).ok());
  }
  for (int i = 0; i < 5; ++i)
    EXPECT_NE(ask("GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").find("penstock_pool_bytes"), std::string::npos);
}

TEST_F(MetricsServerTest, OtherRequestsAreToldWhereMetricsAre) {
  EXPECT_TRUE(ask("GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404"));
  EXPECT_TRUE(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
  EXPECT_TRUE(ask("GET /" + std::string(20'000, 'x')).starts_with("HTTP/1.1 431"));
  const auto head = ask("HEAD /metrics HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
}

}  // namespace
}  // namespace penstock::recorder
