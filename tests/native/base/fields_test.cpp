#include "base/fields.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(ParseJson, RefusesWhatIsNestedWithoutEnd) {
  const auto nested = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  EXPECT_TRUE(parse_json(nested(64), "the plan").ok());
  EXPECT_EQ(parse_json(nested(65), "the plan").error().message(), "the plan is nested deeper than 64 levels");
  EXPECT_FALSE(parse_json(std::string(10'000'000, '{'), "the plan").ok());
}

TEST(ParseJson, CountsNoBracketsInText) {
  const auto text = "[\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\", []]";
  EXPECT_TRUE(parse_json(text, "the plan").ok());
}

}  // namespace
}  // namespace penstock
