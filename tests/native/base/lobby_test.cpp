#include "base/net/lobby.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string_view>
#include <vector>

namespace penstock {
namespace {

using namespace std::chrono_literals;

/// A first message is a line.
LobbyOptions lines(std::size_t guests_max, std::chrono::milliseconds patience = 60s) {
  LobbyOptions options;
  options.is_complete = [](Bytes bytes) { return bytes.back() == std::byte{'\n'} || bytes.size() == 8; };
  options.look_bytes = 8;
  options.guests_max = guests_max;
  options.patience = patience;
  return options;
}

class LobbyTest : public ::testing::Test {
 protected:
  Socket guest() { return connect_to("127.0.0.1", listener_.port, 5s).value(); }
  static void say(Socket& socket, std::string_view text) {
    ASSERT_TRUE(socket.send_all(std::as_bytes(std::span(text))).ok());
  }
  static bool is_cut(Socket& socket) {
    socket.set_receive_timeout(10s);
    std::byte byte;
    const auto got = socket.receive(MutableBytes(&byte, 1), false);
    return !got.ok() || *got == 0;
  }
  /// Until somebody is ready.
  static std::optional<Socket> next(Lobby& lobby, const Socket& listener) {
    for (int i = 0; i < 1000; ++i)
      if (auto visit = lobby.visit(listener, 10ms).value(); !visit.ready.empty()) return std::move(visit.ready.front());
    return std::nullopt;
  }
  std::size_t visit_until_gone(Lobby& lobby, std::size_t count, bool late) {
    std::size_t gone = 0;
    for (int i = 0; i < 1000 && gone < count; ++i) {
      const auto visit = lobby.visit(listener_.socket, 10ms).value();
      for (const auto& each : visit.gone) gone += each.late == late ? 1 : 0;
    }
    return gone;
  }

  Listener listener_ = listen_on("127.0.0.1", 0, 0).value();
};

TEST_F(LobbyTest, WhoSpeaksGetsInHoweverManyAreSilent) {
  Lobby lobby(lines(8));
  std::vector<Socket> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(guest());
  for (int i = 0; i < 20; ++i) {
    auto speaker = guest();
    say(speaker, "hi\n");
    ASSERT_TRUE(next(lobby, listener_.socket).has_value()) << i;
    silent.push_back(guest());
  }
}

TEST_F(LobbyTest, TheOldestIsCutOffForANewOne) {
  Lobby lobby(lines(2));
  auto first = guest();
  auto second = guest();
  auto third = guest();
  EXPECT_EQ(visit_until_gone(lobby, 1, false), 1u);
  EXPECT_TRUE(is_cut(first));
  say(second, "2\n");
  EXPECT_TRUE(next(lobby, listener_.socket).has_value());
}

TEST_F(LobbyTest, WhoSpeaksAtOnceGetsInHoweverManyComeMeanwhile) {
  Lobby lobby(lines(2));
  auto speaker = guest();
  say(speaker, "hi\n");
  std::vector<Socket> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(guest());
  EXPECT_TRUE(next(lobby, listener_.socket).has_value());
}

TEST_F(LobbyTest, WhoSendsHalfAMessageIsCutOffWhenTimeIsUp) {
  Lobby lobby(lines(8, 50ms));
  auto half = guest();
  say(half, "hal");
  EXPECT_EQ(visit_until_gone(lobby, 1, true), 1u);
  EXPECT_TRUE(is_cut(half));
}

TEST_F(LobbyTest, WhatCanBeNoFirstMessageIsHandedOnWithAllThatCame) {
  Lobby lobby(lines(8));
  auto odd = guest();
  say(odd, "GET / HTTP/1.1\r\n");
  auto ready = next(lobby, listener_.socket);
  ASSERT_TRUE(ready.has_value());
  std::array<std::byte, 16> bytes;
  EXPECT_EQ(ready->receive(bytes, true).value(), 16u) << "nothing of it was read";
}

TEST_F(LobbyTest, AGuestThatLeavesIsForgotten) {
  Lobby lobby(lines(1));
  { auto gone = guest(); }
  auto stays = guest();
  say(stays, "x\n");
  EXPECT_TRUE(next(lobby, listener_.socket).has_value());
}

}  // namespace
}  // namespace penstock
