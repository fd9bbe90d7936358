/// A TCP source on a free port of the loopback with a sink that records.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "../support/recording_sink.hpp"
#include "stream/tcp/tcp.hpp"

namespace penstock::stream::test {

struct Receiver {
  explicit Receiver(TcpSourceOptions options = {}, std::size_t pool_bytes = std::size_t{64} << 20, bool holds = true)
      : sink(pool_bytes) {
    sink.holds = holds;
    source = make_tcp_source(with_port(std::move(options), 0)).value();
    const auto started = source->start(sink);
    EXPECT_TRUE(started.ok());
    const auto address = source->address();
    port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  }

  TcpSenderOptions sender_options() const {
    TcpSenderOptions options;
    options.port = port;
    options.connect_timeout = std::chrono::seconds(5);
    return options;
  }

  static TcpSourceOptions with_port(TcpSourceOptions options, std::uint16_t port) {
    options.port = port;
    return options;
  }

  penstock::test::RecordingSink sink;
  std::unique_ptr<Source> source;
  std::uint16_t port = 0;
};

}  // namespace penstock::stream::test
