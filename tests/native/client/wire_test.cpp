/// The client's own encoders beside the recorder's parsers, and hostile answers.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/crc32c.hpp"
#include "client/penstock.hpp"
#include "stream/tcp/frame.hpp"

extern "C" {
#include "client/wire.h"
}

namespace penstock::client {
namespace {

using stream::TcpControl;
using stream::TcpKind;

TEST(ClientWire, ChecksumIsThatOfTheProtocol) {
  EXPECT_EQ(pst_crc32c("123456789", 9), 0xe3069283u);
  std::vector<std::byte> data(700);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 31);
  for (std::size_t size = 0; size < data.size(); ++size)
    ASSERT_EQ(pst_crc32c(data.data(), size), crc32c(Bytes(data).first(size)));
}

TEST(ClientWire, HeadersAreThoseOfTheRecorder) {
  pst_header header{};
  header.kind = PST_IMAGE;
  header.flags = PST_RESUME;
  header.message_bytes = 0x01020304;
  header.pixels_bytes = 0x0102030405060708;
  header.sequence = 0x1112131415161718;
  header.message_crc = 0xa1a2a3a4;
  std::array<std::uint8_t, PST_HEADER_BYTES> bytes;
  pst_encode_header(&header, bytes.data());
  const auto decoded =
      stream::decode_header(std::as_bytes(std::span<const std::uint8_t, stream::tcp_header_bytes>(bytes))).value();
  EXPECT_EQ(decoded.kind, TcpKind::image);
  EXPECT_EQ(decoded.message_bytes, header.message_bytes);
  EXPECT_EQ(decoded.pixels_bytes, header.pixels_bytes);
  EXPECT_EQ(decoded.sequence, header.sequence);
  EXPECT_EQ(decoded.message_crc, header.message_crc);
}

/// What the client reads of a message of the recorder's; the reason where it refuses it.
std::string read(const std::vector<std::byte>& bytes, pst_reply& reply) {
  const char* why = nullptr;
  pst_header header;
  const auto* at = reinterpret_cast<const std::uint8_t*>(bytes.data());
  if (pst_decode_header(at, &header, &why) != 0) return why;
  return pst_decode_reply(&header, at + PST_HEADER_BYTES, &reply, &why) != 0 ? why : "";
}

TEST(ClientWire, RepliesOfTheRecorderAreRead) {
  TcpControl control;
  control.series_unique_id = "01ABC";
  control.safe_below = std::uint64_t{1} << 40;
  control.sequence = 300;
  control.code = "mismatch";
  control.text = "no such thing";
  pst_reply reply;
  for (const auto kind : {TcpKind::hello, TcpKind::ack, TcpKind::error, TcpKind::closed, TcpKind::bye}) {
    const auto bytes = stream::encode_control(kind, 0, control);
    ASSERT_EQ(read(bytes, reply), "");  // whose views lie in `bytes`
    EXPECT_EQ(reply.kind, static_cast<int>(kind));
    const bool of_series = kind == TcpKind::ack || kind == TcpKind::closed;
    EXPECT_EQ(std::string(reply.series.data, reply.series.size), of_series ? "01ABC" : "");
    EXPECT_EQ(reply.safe_below, of_series ? control.safe_below : 0);
    EXPECT_EQ(reply.sequence, kind == TcpKind::error ? 300u : 0u);
    const bool has_text = kind == TcpKind::error || kind == TcpKind::closed;
    EXPECT_EQ(std::string(reply.text.data, reply.text.size), has_text ? control.text : "");
  }
  control.text.clear();
  const auto closed = stream::encode_control(TcpKind::closed, 0, control);
  ASSERT_EQ(read(closed, reply), "") << "problem: null";
  EXPECT_EQ(reply.text.size, 0u);
}

/// A message of kind `ack` around any bytes, its checksums right.
std::vector<std::byte> around(const std::string& message) {
  pst_header header{};
  header.kind = PST_ACK;
  header.message_bytes = static_cast<std::uint32_t>(message.size());
  header.message_crc = pst_crc32c(message.data(), message.size());
  std::vector<std::byte> bytes(PST_HEADER_BYTES + message.size());
  pst_encode_header(&header, reinterpret_cast<std::uint8_t*>(bytes.data()));
  std::memcpy(bytes.data() + PST_HEADER_BYTES, message.data(), message.size());
  return bytes;
}

TEST(ClientWire, HostileRepliesAreRefused) {
  pst_reply reply;
  using namespace std::string_literals;
  // A map that ends early, lengths beyond the message, keys that are no text, values of another type, endless nesting.
  for (const auto& message :
       {""s, "\xa1"s, "\x80"s, "\xa1\x61"s, "\xbb\xff\xff\xff\xff\xff\xff\xff\xff"s, "\xa1\x01\x02"s,
        "\xa1\x7f\x61\x61\xff\x01"s, "\xa1\x6asafe_below\x20"s, "\xa1\x6asafe_below\x61x"s,
        "\xa1\x64"
        "code\x01"s,
        "\xa1\x61x\x1c"s, "\xa1\x61x\x9a\xff\xff\xff\xff"s, "\xa1\x61x\x1f"s, "\xbf\x61x\x01"s,
        "\xa1\x61x"s + std::string(20, '\x81') + "\x01"s})
    EXPECT_NE(read(around(message), reply), "") << ::testing::PrintToString(message);
  // What it does not know is passed over, whatever it is.
  ASSERT_EQ(
      read(around("\xd9\xd9\xf7\xbf\x61x\x9f\xbf\x01\x5f\x41z\xff\xff\xc1\xf9\x3c\x00\xff\x6asafe_below\x18\x2a\xff"s),
           reply),
      "");
  EXPECT_EQ(reply.safe_below, 42u);

  const auto good = around("\xa0"s);
  ASSERT_EQ(read(good, reply), "");
  for (std::size_t place = 0; place < good.size(); ++place) {
    auto bad = good;
    bad[place] ^= std::byte{0x10};
    EXPECT_NE(read(bad, reply), "") << "byte " << place;
  }
  pst_header header{};
  const char* why = nullptr;
  std::array<std::uint8_t, PST_HEADER_BYTES> head;
  const auto refuses = [&](int kind, std::uint32_t message_bytes, std::uint64_t pixels_bytes) {
    pst_header large{};
    large.kind = kind;
    large.message_bytes = message_bytes;
    large.pixels_bytes = pixels_bytes;
    pst_encode_header(&large, head.data());
    return pst_decode_header(head.data(), &header, &why) != 0;
  };
  EXPECT_FALSE(refuses(PST_ACK, PST_REPLY_BYTES_MAX, 0));
  EXPECT_TRUE(refuses(PST_ACK, PST_REPLY_BYTES_MAX + 1, 0));
  EXPECT_TRUE(refuses(PST_ACK, 1, 1));
  EXPECT_TRUE(refuses(9, 1, 0));
}

}  // namespace
}  // namespace penstock::client
