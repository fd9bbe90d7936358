#include "programs/log_text.hpp"

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>

#include <iterator>

namespace penstock::program {
namespace {

constexpr unsigned char delete_character = 0x7f;

class EscapedMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& into) override {
    for (const auto each : message.payload) {
      const auto code = static_cast<unsigned char>(each);
      if (code < ' ' || code == delete_character)
        fmt::format_to(std::back_inserter(into), "\\x{:02x}", code);
      else
        into.push_back(each);
    }
  }

  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<EscapedMessage>(); }
};

}  // namespace

std::unique_ptr<spdlog::formatter> make_log_formatter() {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<EscapedMessage>('*').set_pattern("[%Y-%m-%d %H:%M:%S.%e] [%n] [%^%l%$] %*");
  return formatter;
}

}  // namespace penstock::program
