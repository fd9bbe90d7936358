#include "base/archive.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace penstock {
namespace {
enum class Colour { red, green };
struct Part {
  std::uint16_t port = 9900;
  std::vector<unsigned> numbers;
};
struct Round {
  static constexpr const char* kind = "round";
  double radius_m = 1;
};
struct Square {
  static constexpr const char* kind = "square";
  std::uint64_t sides = 4;
};
struct Shaped {
  std::variant<Round, Square> shape;
};
struct Job {
  std::uint64_t frames = 0;
  unsigned writers = 4;
  std::int64_t late_ns = 10'000'000;
  Colour colour = Colour::red;
  std::string folder = "data";
  std::string token;
  std::optional<Part> part;
  std::vector<Part> parts;
  Shaped shaped;
};

Names<Colour> names_of(Colour) {
  static constexpr std::pair<std::string_view, Colour> names[] = {{"red", Colour::red}, {"green", Colour::green}};
  return names;
}
void fields(Archive& archive, Part& part) {
  archive.field("port", part.port);
  archive.field("numbers", part.numbers, Count{0, 3}, between(0, 9));
}
void fields(Archive& archive, Round& round) { archive.field("radius_m", round.radius_m, between_reals(0, 10)); }
void fields(Archive& archive, Square& square) { archive.field("sides", square.sides, between(4, 4)); }
void fields(Archive& archive, Shaped& shaped) { archive.kind("kind", shaped.shape); }
void fields(Archive& archive, Job& job) {
  archive.required("frames", job.frames, between(1, 1000));
  archive.field("writers", job.writers, between(1, 256));
  archive.seconds("late_s", job.late_ns, between_reals(0, 3600));
  archive.field("colour", job.colour);
  archive.field("folder", job.folder, not_empty);
  archive.secret("token", job.token, Length{0, 8});
  archive.field("part", job.part);
  archive.field("parts", job.parts, Count{0, 2});
  archive.field("shaped", job.shaped);
  if (archive.sound())
    archive.check(!job.part || job.part->port != 1, "part.port", "must be another one than 1", "use 9900");
}

using nlohmann::json;

std::vector<Problem> problems_of(const json& document) {
  Job job;
  return read_job(document, job);
}

TEST(Archive, KeepsDefaultsOfWhatIsAbsentOrNull) {
  const auto job = job_from<Job>({{"frames", 5}, {"writers", nullptr}});
  ASSERT_TRUE(job.ok()) << job.error().message();
  EXPECT_EQ(job->writers, 4U);
  EXPECT_EQ(job->late_ns, 10'000'000);
  EXPECT_FALSE(job->part);
}

TEST(Archive, WhatIsWrittenIsReadAgain) {
  const json document = {{"frames", 7},
                         {"writers", 2},
                         {"late_s", 0.5},
                         {"colour", "green"},
                         {"folder", "elsewhere"},
                         {"token", nullptr},
                         {"part", {{"port", 80}, {"numbers", {1, 2}}}},
                         {"parts", {{{"port", 81}, {"numbers", json::array()}}}},
                         {"shaped", {{"kind", "square"}, {"sides", 4}}}};
  const auto job = job_from<Job>(document);
  ASSERT_TRUE(job.ok()) << job.error().message();
  json written;
  write_job(*job, written);
  EXPECT_EQ(written, document);
}

TEST(Archive, HidesWhatIsSecret) {
  const auto job = job_from<Job>({{"frames", 7}, {"token", "abc"}});
  json written;
  write_job(*job, written);
  EXPECT_EQ(written["token"], "(hidden)");
  const auto problems = problems_of({{"frames", 7}, {"token", "abcdefghi"}});
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].text, "token: has 9 bytes and exceeds the maximum of 8");
  EXPECT_EQ(problems[0].value, "");
}

TEST(Archive, ReportsAllProblemsAtOnce) {
  const auto problems = problems_of({{"writers", 300},
                                     {"colour", "gren"},
                                     {"folder", 3},
                                     {"parts", {{{"port", 70000}}, {{"numbers", {1, -1}}}}},
                                     {"shaped", {{"kind", "round"}, {"radius_m", -1}}},
                                     {"writer", 2}});
  std::vector<std::string> texts, codes;
  for (const auto& problem : problems) texts.push_back(problem.text), codes.emplace_back(name(problem.code));
  EXPECT_EQ(
      texts,
      (std::vector<std::string>{
          "frames: this field is required", "writers: 300 exceeds the maximum of 256",
          "colour: \"gren\" is not one of red, green; did you mean \"green\"?", "folder: 3 is not text",
          "parts[0].port: 70000 exceeds the maximum of 65535", "parts[1].numbers[1]: -1 is below the minimum of 0",
          "shaped.radius_m: -1 is below the minimum of 0", "writer: unknown field; did you mean \"writers\"?"}));
  EXPECT_EQ(codes, (std::vector<std::string>{"missing_field", "above_maximum", "unknown_name", "wrong_type",
                                             "above_maximum", "below_minimum", "below_minimum", "unknown_field"}));
  EXPECT_EQ(problems[1].field, "writers");
  EXPECT_EQ(problems[1].value, "300");
  EXPECT_EQ(problems[1].limit, "256");
}

TEST(Archive, LooksAtRulesBetweenFieldsOfSoundObjectsOnly) {
  const auto broken = problems_of({{"frames", 1}, {"part", {{"port", 1}}}});
  ASSERT_EQ(broken.size(), 1U);
  EXPECT_EQ(broken[0].text, "part.port: 1 must be another one than 1; use 9900");
  EXPECT_EQ(broken[0].code, ProblemCode::not_allowed);
  const auto other = problems_of({{"frames", 0}, {"part", {{"port", 1}}}});
  ASSERT_EQ(other.size(), 1U);
  EXPECT_EQ(other[0].field, "frames");
}

TEST(Archive, RefusesOtherTypesAndKinds) {
  EXPECT_EQ(problems_of(json::array()).at(0).text, "the document: [] is not an object");
  EXPECT_EQ(problems_of({{"frames", 1}, {"shaped", {{"kind", "oval"}, {"axes", 2}}}}).at(0).text,
            "shaped.kind: \"oval\" is not one of round, square");
  EXPECT_EQ(problems_of({{"frames", 1}, {"shaped", json::object()}}).at(0).text, "shaped.kind: this field is required");
  EXPECT_EQ(problems_of({{"frames", true}}).at(0).code, ProblemCode::wrong_type);
  EXPECT_EQ(problems_of({{"frames", 1e2}}).at(0).code, ProblemCode::wrong_type);
  EXPECT_EQ(problems_of({{"frames", 1}, {"parts", {{}, {}, {}}}}).at(0).text,
            "parts: [null,null,null] has 3 items and exceeds the maximum of 2");
  EXPECT_EQ(problems_of({{"frames", 1}, {"folder", std::string("a\0", 2)}}).at(0).text,
            "folder: \"a\\u0000\" has a zero byte");
}

TEST(Archive, DescribesNamesTypesDefaultsLimitsAndUnits) {
  json description;
  describe_job<Job>(description);
  ASSERT_EQ(description.size(), 9U);
  EXPECT_EQ(
      description[0],
      (json{{"name", "frames"}, {"type", "whole number"}, {"minimum", 1}, {"maximum", 1000}, {"required", true}}));
  EXPECT_EQ(description[1],
            (json{{"name", "writers"}, {"type", "whole number"}, {"default", 4}, {"minimum", 1}, {"maximum", 256}}));
  EXPECT_EQ(description[2], (json{{"name", "late_s"},
                                  {"type", "number"},
                                  {"default", 0.01},
                                  {"minimum", 0.0},
                                  {"maximum", 3600.0},
                                  {"unit", "s"}}));
  EXPECT_EQ(description[3]["choices"], (json{"red", "green"}));
  EXPECT_EQ(description[6]["default"], nullptr);
  EXPECT_EQ(description[6]["fields"][0]["maximum"], 65535);
  EXPECT_EQ(description[7]["items"]["fields"][1]["items"]["maximum"], 9);
  EXPECT_EQ(description[8]["fields"][0]["kinds"]["square"][0]["default"], 4);
}

}  // namespace
}  // namespace penstock
