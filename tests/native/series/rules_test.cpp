/// The corner cases of a series' life, a row each: what comes, when, and what is answered. Where a case was found with
/// real processes, the row names the end-to-end test that had it.
#include <gtest/gtest.h>

#include "series/registry.hpp"

namespace penstock::series {
namespace {

using Kind = Answer::Kind;

/// A recorder's registry with its files: each `Open` is made at once unless `slow`, each `Close` closed unless `holds`.
class Rig {
 public:
  explicit Rig(const Rules& rules) : registry(rules) {}

  Answer give(const Event& event) {
    auto actions = registry.step(now, event);
    for (const auto& command : actions.commands) obey(command);
    return actions.answer;
  }
  Answer start(const std::string& name, const std::string& endpoint, std::uint64_t frames = 0,
               std::optional<std::uint32_t> element = {}, std::uint32_t elements = 1) {
    return give(Started{.name = name,
                        .who = {.way = Way::pulled, .source = endpoint, .element = element},
                        .what = {.id = 1, .frames = frames, .elements = elements}});
  }
  Answer client(const std::string& name, const std::string& connection, const std::string& client = {},
                bool resume = false, std::optional<std::uint32_t> element = {}, std::uint32_t elements = 1,
                std::uint64_t frames = 9) {
    give(Arrived{connection});
    return give(Started{.name = name,
                        .who = {.way = Way::tcp, .source = connection, .element = element, .client = client},
                        .what = {.id = 1, .frames = frames, .elements = elements},
                        .resume = resume});
  }
  Answer end(const std::string& name, const std::string& endpoint, std::uint64_t generation = 0) {
    return give(Ended{.name = name, .who = {.way = Way::pulled, .source = endpoint}, .generation = generation});
  }
  Answer end_client(const std::string& name, const std::string& connection, std::optional<std::uint32_t> element = {}) {
    return give(Ended{.name = name, .who = {.way = Way::tcp, .source = connection, .element = element}});
  }
  Answer frame(const std::string& name, std::uint64_t generation = 0) {
    return give(FrameSeen{.name = name, .generation = generation, .number = number++, .bytes = 10});
  }
  /// Lets time pass, and returns what the file has.
  /// Two series wait to be closed by a storage that does not tell when it is done.
  void fill_line_without_end() {
    holds = true;
    client("a", "c0");
    client("b", "c1");
    give(EndAll{});
    after(second, "a", {.last_activity = second, .any_frame = true});
  }
  State after(Time time, const std::string& name, Facts facts = {}) {
    now += time;
    give(Measured{.name = name, .facts = facts});
    give(Tick{});
    return registry.state(name);
  }
  void obey(const Command& command) {
    if (const auto* open = std::get_if<Open>(&command)) {
      ++opened;
      if (!slow) give(Opened{.name = open->name});
      if (!slow && open->from_line) give(LineEmpty{.name = open->name});
    } else if (const auto* close = std::get_if<Close>(&command)) {
      ended_by = close->ended_by;
      if (!holds) give(Closed{close->name});
    } else {
      notices.push_back(std::get<Notify>(command));
    }
  }
  bool noticed(Notify::What what) const {
    return std::any_of(notices.begin(), notices.end(), [&](const auto& notice) { return notice.what == what; });
  }

  Registry registry;
  Time now = second;
  bool slow = false;
  bool holds = false;
  int opened = 0;
  std::uint64_t number = 0;
  std::optional<EndedBy> ended_by;
  std::vector<Notify> notices;
};

Rules pulls(std::size_t endpoints) {
  return {.sources = endpoints, .tcp = 0, .pulled = endpoints, .timeouts = {.end = second, .idle = 10 * second}};
}
Rules listens() { return {.timeouts = {.end = second, .idle = 10 * second}}; }
Facts at(Time last, bool whole = false) { return {.last_activity = last, .any_frame = true, .whole = whole}; }

struct Row {
  const char* name;
  Rules rules;
  void (*happens)(Rig& rig);
};

const Row rows[] = {
    {"ACompleteSeriesNeedsNoEnd", pulls(1),
     [](Rig& rig) {
       rig.start("s", "p0", 2);
       EXPECT_EQ(rig.after(second / 2, "s", at(rig.now, true)), State::open);
       EXPECT_EQ(rig.after(second, "s", at(rig.now, true)), State::closed);
       EXPECT_EQ(rig.ended_by, EndedBy::count);
       EXPECT_EQ(rig.end("s", "p0").kind, Kind::accept) << "its end comes late";
     }},
    {"ASilentSourceEndsItsSeries",
     {.sources = 1, .tcp = 0, .pulled = 1, .timeouts = {second, 10 * second, 3 * second}},
     [](Rig& rig) {
       rig.start("s", "p0");
       EXPECT_EQ(rig.after(4 * second, "s", {.last_activity = second}), State::open) << "no frame came yet";
       EXPECT_EQ(rig.after(second, "s", at(second)), State::closed);
       EXPECT_EQ(rig.ended_by, EndedBy::silence);
     }},
    {"ASeriesWhoseSendersAreGoneBeforeItsFirstFrameEnds", listens(),
     [](Rig& rig) {
       rig.client("s", "c0");
       const Facts gone{.last_activity = second, .abandoned = true};
       EXPECT_EQ(rig.after(20 * second, "s", gone), State::open);
       EXPECT_EQ(rig.after(9 * second, "s", gone), State::open);
       EXPECT_EQ(rig.after(second / 2, "s", {.last_activity = second}), State::open) << "one came back";
       EXPECT_EQ(rig.after(second, "s", gone), State::open);
       EXPECT_EQ(rig.after(10 * second, "s", gone), State::closed);
       EXPECT_EQ(rig.ended_by, EndedBy::silence);
     }},
    {"ACommandEndsTheSeriesAndTheNextIsRecorded", pulls(1),
     [](Rig& rig) {
       rig.start("s", "p0", 5);
       rig.give(EndAll{});
       EXPECT_EQ(rig.after(1, "s", at(rig.now)), State::closed);
       EXPECT_EQ(rig.ended_by, EndedBy::command);
       EXPECT_EQ(rig.start("t", "p0", 5).kind, Kind::accept);
     }},
    {"TheEndOvertakesTheTail",
     {.sources = 1, .tcp = 0, .pulled = 0, .timeouts = {second, 10 * second}},
     [](Rig& rig) {
       rig.give(Started{.name = "s", .who = {.way = Way::bound}, .what = {.frames = 5}});
       rig.give(Ended{.name = "s", .who = {.way = Way::bound}});
       EXPECT_EQ(rig.after(second / 2, "s", at(second)), State::ending);
       EXPECT_EQ(rig.frame("s").kind, Kind::accept);
       EXPECT_EQ(rig.after(second * 3 / 4, "s", at(second * 3 / 2)), State::ending) << "the tail moves the close";
       EXPECT_EQ(rig.after(second, "s", at(second * 3 / 2)), State::closed);
     }},
    {"EndOnTheOnlyEndpointClosesAnIncompleteSeriesAtOnce", pulls(1),
     [](Rig& rig) {
       rig.start("s", "p0", 1000);
       rig.end("s", "p0");
       EXPECT_EQ(rig.after(1, "s", at(rig.now)), State::closed);
     }},
    {"AnEndpointThatHasNotEndedIsWaitedFor", pulls(2),
     [](Rig& rig) {
       rig.start("s", "p0");
       rig.start("s", "p1");
       EXPECT_EQ(rig.start("s", "p0").why, Why::has_started);
       rig.end("s", "p0");
       EXPECT_EQ(rig.after(5 * second, "s", at(second)), State::ending);
       rig.end("s", "p1");
       EXPECT_EQ(rig.after(1, "s", at(rig.now)), State::closed);
     }},
    {"AnEndpointThatBeginsBehindTheEndIsWaitedFor", pulls(2),
     [](Rig& rig) {
       rig.start("s", "p0", 9);
       rig.end("s", "p0");
       rig.start("s", "p1", 9);
       EXPECT_EQ(rig.after(5 * second, "s", at(second)), State::ending);
     }},
    {"ALateStartOfACompleteSeriesMakesNoFile", pulls(2),
     [](Rig& rig) {
       rig.start("s", "p0", 1);
       rig.end("s", "p0");
       EXPECT_EQ(rig.after(1, "s", at(rig.now, true)), State::closed);
       EXPECT_EQ(rig.start("s", "p1", 1).why, Why::closed_whole);
       const auto anew = rig.give(Started{
           .name = "s", .who = {.way = Way::pulled, .source = "p1"}, .what = {.id = 1, .frames = 1, .arm_date = "2"}});
       EXPECT_EQ(anew.kind, Kind::accept) << "armed anew it is another series";
     }},
    {"AnotherSeriesOfASourceIsTheEndOfTheOneBefore", pulls(1),
     [](Rig& rig) {
       rig.start("before", "p0", 3);
       rig.start("after", "p0", 3);
       EXPECT_EQ(rig.after(second / 2, "before", at(second)), State::ending) << "one sender may interleave two";
       EXPECT_EQ(rig.after(second, "before", at(second)), State::closed);
       EXPECT_EQ(rig.ended_by, EndedBy::new_start);
     }},
    {"AnotherSeriesOfTheSameNameWaitsForTheOneBefore", pulls(2),
     [](Rig& rig) {
       const auto first = rig.start("s", "p0").generation;
       rig.start("s", "p1");
       rig.give(Ended{.name = "s",
                      .who = {.way = Way::pulled, .source = "p0"},
                      .generation = first,
                      .by_start = true,
                      .anew = true});
       Started again{.name = "s",
                     .who = {.way = Way::pulled, .source = "p0"},
                     .what = {.id = 1},
                     .before = first,
                     .since = rig.now};
       EXPECT_EQ(rig.give(again).kind, Kind::wait_until) << "the other one has more of it";
       EXPECT_EQ(rig.frame("s", first).kind, Kind::accept);
       rig.end("s", "p1", first);
       EXPECT_EQ(rig.after(2 * second, "s", at(second)), State::closed);
       EXPECT_EQ(rig.give(again).kind, Kind::accept);
       EXPECT_EQ(rig.frame("s", first).why, Why::other_generation);
       rig.end("s", "p0", first);
       EXPECT_EQ(rig.registry.state("s"), State::open) << "an end of the one before is not its end";
     }},
    {"ANameThatIsTakenForTooLongIsRefused", pulls(2),
     [](Rig& rig) {
       const auto first = rig.start("s", "p0").generation;
       Started again{.name = "s",
                     .who = {.way = Way::pulled, .source = "p0"},
                     .what = {.id = 1},
                     .before = first,
                     .since = rig.now};
       const auto waits = rig.give(again);
       ASSERT_EQ(waits.kind, Kind::wait_until);
       rig.now = waits.until;
       EXPECT_EQ(rig.give(again).why, Why::name_taken);
       EXPECT_EQ(rig.registry.refused(), 1u);
       rig.give(StopWaiting{});
       EXPECT_EQ(rig.give(again).why, Why::stopping);
     }},
    {"AStartThatHearsNoAnswerWaitsForAFileThatIsBeingClosed", pulls(1),
     [](Rig& rig) {
       rig.holds = true;
       rig.start("s", "p0");
       rig.end("s", "p0");
       rig.after(1, "s", at(rig.now));
       ASSERT_EQ(rig.registry.state("s"), State::closing);
       EXPECT_EQ(rig.start("s", "p0").kind, Kind::wait_until);
       EXPECT_EQ(rig.client("s", "c0").why, Why::being_closed) << "a client can try again";
       rig.give(Closed{"s"});
       EXPECT_EQ(rig.start("s", "p0").kind, Kind::accept);
     }},
    {"TheEndOfOneClientIsNotThatOfAnother", listens(),
     [](Rig& rig) {
       rig.client("s", "c0");
       rig.client("s", "c1", "", true);
       rig.end_client("s", "c0");
       EXPECT_EQ(rig.after(5 * second, "s", at(second)), State::ending);
       rig.end_client("s", "c1");
       EXPECT_EQ(rig.after(1, "s", at(rig.now)), State::closed) << "each client that is connected has ended it";
     }},
    {"AClientThatWasCutOffMayComeBack", listens(),
     [](Rig& rig) {
       rig.client("s", "c0", "a");
       rig.client("s", "c1", "b", true);
       rig.give(SenderLost{"c0"});
       rig.end_client("s", "c1");
       EXPECT_EQ(rig.after(second / 2, "s", at(second)), State::ending);
       rig.client("s", "c2", "a", true);
       EXPECT_EQ(rig.after(5 * second, "s", at(second)), State::ending) << "it is waited for";
       rig.end_client("s", "c2");
       EXPECT_EQ(rig.after(1, "s", at(rig.now)), State::closed);
     }},
    {"AGuestMayHaveMore", listens(),
     [](Rig& rig) {
       rig.client("s", "c0");
       rig.give(Guests{1});
       rig.end_client("s", "c0");
       EXPECT_EQ(rig.after(second / 2, "s", at(second)), State::ending);
     }},
    {"ByeOfTheLastClientIsItsEnd", listens(),
     [](Rig& rig) {
       rig.client("s", "c0");
       rig.client("s", "c1", "", true);
       rig.end_client("s", "c0");
       rig.give(Departed{"c1"});
       EXPECT_EQ(rig.after(1, "s", at(rig.now)), State::closed);
     }},
    {"ASecondFreshStartIsRefused", listens(),
     [](Rig& rig) {
       rig.client("s", "c0");
       EXPECT_EQ(rig.client("s", "c1").why, Why::has_started);
       EXPECT_EQ(rig.client("s", "c1", "", true).kind, Kind::accept);
     }},
    {"AContradictingStartIsRefused", listens(),
     [](Rig& rig) {
       rig.client("s", "c0");
       EXPECT_EQ(rig.client("s", "c1", "", true, {}, 1, 8).why, Why::mismatch);
     }},
    {"ASecondSenderOfAnElementIsRefusedIfTheFirstIsThere", listens(),
     [](Rig& rig) {
       rig.client("s", "c0", "a", false, 0, 2);
       EXPECT_EQ(rig.client("s", "c1", "b", true, 0, 2).kind, Kind::wait_until);
       EXPECT_TRUE(rig.noticed(Notify::What::probe));
       rig.give(Answered{"c0"});
       EXPECT_EQ(rig.client("s", "c1", "b", true, 0, 2).why, Why::element_taken);
       EXPECT_EQ(rig.client("s", "c2", "c", false, 1, 2).kind, Kind::accept) << "another element";
     }},
    {"ASenderWhoseMachineIsDeadMakesRoom", listens(),
     [](Rig& rig) {
       rig.client("s", "c0", "a", false, 0, 2);
       const auto waits = rig.client("s", "c1", "b", true, 0, 2);
       ASSERT_EQ(waits.kind, Kind::wait_until);
       rig.now = waits.until;
       EXPECT_EQ(rig.client("s", "c1", "b", true, 0, 2).kind, Kind::accept);
       EXPECT_TRUE(rig.noticed(Notify::What::cut));
     }},
    {"ASenderThatSaysWhoItIsComesBackBeforeItsLossWasNoticed", listens(),
     [](Rig& rig) {
       rig.client("s", "c0", "a", false, 0, 2);
       EXPECT_EQ(rig.client("s", "c1", "a", true, 0, 2).kind, Kind::accept);
       EXPECT_FALSE(rig.noticed(Notify::What::probe));
     }},
    {"AConnectionBringsOneElement", listens(),
     [](Rig& rig) {
       rig.client("s", "c0", "a", false, 0, 2);
       EXPECT_EQ(rig.client("s", "c0", "a", false, 1, 2).why, Why::connection_taken);
     }},
    {"EachElementHasToEnd", pulls(2),
     [](Rig& rig) {
       rig.start("s", "p0", 9, 0, 2);
       rig.give(Ended{.name = "s", .who = {.way = Way::pulled, .source = "p0", .element = 0}});
       EXPECT_EQ(rig.after(5 * second, "s", at(second)), State::ending) << "element 1 has not begun";
       EXPECT_EQ(rig.start("s", "p1", 9, 0, 2).why, Why::element_taken);
       EXPECT_EQ(rig.start("s", "p1", 9, 1, 2).kind, Kind::accept);
       rig.give(Ended{.name = "s", .who = {.way = Way::pulled, .source = "p1", .element = 1}});
       EXPECT_EQ(rig.after(1, "s", at(rig.now)), State::closed);
     }},
    {"AnElementThatIsLateMakesNoFile", pulls(2),
     [](Rig& rig) {
       rig.start("s", "p0", 9, 0, 2);
       rig.give(EndAll{});
       rig.after(1, "s", at(rig.now));
       EXPECT_EQ(rig.start("s", "p1", 9, 1, 2).why, Why::element_late);
       EXPECT_EQ(rig.start("s", "p0", 9, 0, 2).kind, Kind::accept) << "another series begins with what was in it";
     }},
    {"ElementsOverZeroMqNeedOneRank",
     {.ranks = 2, .sources = 1, .tcp = 0, .pulled = 1},
     [](Rig& rig) {
       EXPECT_EQ(rig.start("s", "p0", 9, 0, 2).why, Why::elements_over_ranks);
       EXPECT_EQ(rig.registry.refused(), 1u);
     }},
    {"FramesBeforeTheStartAreCounted", pulls(1),
     [](Rig& rig) {
       EXPECT_EQ(rig.frame("s").why, Why::not_started);
       EXPECT_EQ(rig.registry.state("s"), State::early);
       rig.frame("s");
       rig.start("s", "p0");
       ASSERT_TRUE(rig.noticed(Notify::What::dropped));
       EXPECT_EQ(rig.notices.back().numbers, (std::vector<std::uint64_t>{0, 1}));
     }},
    {"AStartMayComeThroughAnotherSocket", pulls(2),
     [](Rig& rig) {
       FrameSeen frame{.name = "s", .number = 1, .bytes = 1, .since = rig.now};
       const auto waits = rig.give(frame);
       ASSERT_EQ(waits.kind, Kind::wait_until);
       rig.start("s", "p0");
       EXPECT_EQ(rig.give(frame).kind, Kind::accept);
     }},
    {"AnImageThatNobodyStartedIsRefusedInBoundedTime", pulls(2),
     [](Rig& rig) {
       FrameSeen frame{.name = "s", .number = 1, .bytes = 1, .since = rig.now};
       rig.now = rig.give(frame).until;
       EXPECT_EQ(rig.give(frame).why, Why::not_started);
       EXPECT_EQ(rig.frame("s").why, Why::not_started) << "and is not waited for again";
     }},
    {"AnEndBeforeItsStartIsRefused", pulls(1), [](Rig& rig) { EXPECT_EQ(rig.end("s", "p0").why, Why::not_started); }},
    {"AnEndThatOvertookItsStartIsNotForgotten",
     {.ranks = 2, .timeouts = {second, 10 * second}},
     [](Rig& rig) {
       EXPECT_EQ(rig.give(Ended{.name = "s", .who = {.way = Way::tcp, .rank = 1}}).kind, Kind::accept);
       rig.give(Started{.name = "s", .who = {.way = Way::tcp, .rank = 1}});
       EXPECT_EQ(rig.registry.state("s"), State::ending);
     }},
    {"ALateEndOfAClosedSeriesDoesNotEndTheNextOfItsName",
     {.ranks = 2, .timeouts = {second, 10 * second}},
     [](Rig& rig) {
       rig.give(Started{.name = "s", .who = {.way = Way::tcp}});
       rig.give(EndAll{});
       ASSERT_EQ(rig.after(1, "s", at(rig.now)), State::closed);
       rig.give(Ended{.name = "s", .who = {.way = Way::tcp}});
       rig.give(Started{.name = "s", .who = {.way = Way::tcp}});
       EXPECT_EQ(rig.registry.state("s"), State::open);
     }},
    {"RanksHandOverBeforeTheFileIsClosed",
     {.ranks = 2, .timeouts = {second, 10 * second}},
     [](Rig& rig) {
       rig.give(Started{.name = "s", .who = {.way = Way::tcp}});
       EXPECT_EQ(rig.give(Sought{"s", 1}).kind, Kind::accept);
       rig.give(EndAll{});
       EXPECT_EQ(rig.after(1, "s", at(rig.now)), State::closing);
       EXPECT_TRUE(rig.noticed(Notify::What::hand_over));
       rig.give(HandedOver{"s", 1});
       EXPECT_EQ(rig.registry.state("s"), State::closed);
       EXPECT_TRUE(rig.noticed(Notify::What::closed));
     }},
    {"AnEndThatSaysNothingOfItsSenderIsThatOfTheOnlyOneThatIsAsUnknown",
     {.sources = 2, .timeouts = {second, 10 * second}},
     [](Rig& rig) {
       rig.give(Started{.name = "s", .who = {.way = Way::tcp}, .what = {.frames = 5}});
       rig.give(Ended{.name = "s", .who = {.way = Way::bound}});
       EXPECT_EQ(rig.after(2 * second, "s", at(second)), State::closed);
     }},
    {"ARankThatHandsOverNothingIsNotWaitedForWithoutEnd",
     {.ranks = 2, .timeouts = {second, 10 * second}},
     [](Rig& rig) {
       rig.give(Started{.name = "s", .who = {.way = Way::tcp}});
       rig.give(Sought{"s", 1});
       rig.give(Stop{});
       EXPECT_EQ(rig.registry.state("s"), State::closing);
       rig.now += 600 * second;
       rig.give(Tick{});
       EXPECT_EQ(rig.registry.state("s"), State::closed);
     }},
    {"StartsThatFindNoFileWaitInTheirOrder",
     {.sources = 2, .tcp = 1, .pulled = 1, .files_max = 1, .starts_max = 2, .timeouts = {second, 10 * second}},
     [](Rig& rig) {
       rig.start("a", "p0");
       for (const auto* name : {"b", "c"}) EXPECT_EQ(rig.client(name, name).kind, Kind::wait);
       EXPECT_EQ(rig.client("d", "d").why, Why::line_full);
       EXPECT_EQ(rig.registry.refused(), 1u);
       EXPECT_EQ(rig.frame("b").kind, Kind::wait) << "while its start was waiting";
       rig.give(EndAll{});
       rig.after(1, "a", at(rig.now));
       EXPECT_EQ(rig.registry.state("b"), State::open);
       EXPECT_EQ(rig.registry.state("c"), State::waiting);
     }},
    // Early-ended series back to back, of which another sender may still bring frames.
    {"AStartWaitsForTheFullLineIfASeriesHasEnded",
     {.sources = 1, .tcp = 0, .bound = 1, .files_max = 1, .starts_max = 1, .timeouts = {second, 10 * second}},
     [](Rig& rig) {
       const auto start = [&](const char* name) {
         return rig.give(Started{.name = name, .who = {.way = Way::bound}, .what = {.frames = 9}});
       };
       start("a");
       EXPECT_EQ(start("b").kind, Kind::wait);
       EXPECT_EQ(start("c").why, Why::line_full) << "nobody knows when a file is closed";
       rig.give(Ended{.name = "a", .who = {.way = Way::bound}});
       EXPECT_EQ(start("d").kind, Kind::wait_until);
       EXPECT_EQ(rig.after(second, "a", at(second)), State::closed);
       EXPECT_EQ(rig.registry.state("b"), State::open);
       EXPECT_EQ(start("d").kind, Kind::wait);
       EXPECT_EQ(rig.registry.refused(), 1u);
     }},
    {"AStartDoesNotWaitForTheFullLineWithoutEnd",
     {.files_max = 1, .starts_max = 1, .timeouts = {second, 10 * second}},
     [](Rig& rig) {
       rig.fill_line_without_end();
       const Started late{
           .name = "c", .who = {.way = Way::tcp, .source = "c2"}, .what = {.frames = 9}, .since = rig.now};
       EXPECT_EQ(rig.give(late).kind, Kind::wait_until) << "the storage is slow";
       rig.now += 11 * second;
       EXPECT_EQ(rig.give(late).why, Why::line_full);
       EXPECT_EQ(rig.registry.refused(), 1u);
     }},
    {"NoSourceIsHeldBackForTheFullLineWhileItIsStopped",
     {.files_max = 1, .starts_max = 1, .timeouts = {second, 10 * second}},
     [](Rig& rig) {
       rig.fill_line_without_end();
       EXPECT_EQ(rig.client("c", "c2").kind, Kind::wait_until);
       rig.give(StopWaiting{});
       EXPECT_EQ(rig.client("c", "c2").kind, Kind::reject);
     }},
    {"FramesBehindAStartThatWaitsAreBounded",
     {.sources = 1, .tcp = 0, .files_max = 1, .frames_bytes_max = 25},
     [](Rig& rig) {
       for (const auto* name : {"a", "b"}) rig.give(Started{.name = name, .who = {.way = Way::bound}});
       for (int i = 0; i < 2; ++i) EXPECT_EQ(rig.frame("b").kind, Kind::wait);
       EXPECT_EQ(rig.frame("b").why, Why::no_room) << "others push through the same socket";
     }},
    {"AnIdleSeriesMakesRoomForAStart",
     {.files_max = 1, .timeouts = {second, 10 * second}},
     [](Rig& rig) {
       rig.client("a", "c0");
       rig.client("b", "c1");
       rig.after(9 * second, "a", at(second));
       EXPECT_EQ(rig.registry.state("a"), State::open);
       rig.after(second, "a", at(second));
       EXPECT_EQ(rig.after(1, "a", at(second)), State::closed);
       EXPECT_EQ(rig.ended_by, EndedBy::room);
       EXPECT_EQ(rig.registry.state("b"), State::open);
     }},
    {"AStartOfAnotherRankWaitsInTheSameLineAndMakesRoom",
     {.ranks = 2, .files_max = 1, .timeouts = {second, 10 * second}},
     [](Rig& rig) {
       rig.give(Started{.name = "a", .who = {.way = Way::tcp}});
       EXPECT_EQ(rig.give(Started{.name = "b", .who = {.way = Way::tcp, .rank = 1}}).kind, Kind::wait);
       EXPECT_EQ(rig.give(Sought{.name = "b", .rank = 1}).kind, Kind::wait_there);
       EXPECT_EQ(rig.frame("b").kind, Kind::wait) << "what comes to the coordinator waits behind it";
       rig.now += 10 * second;
       rig.after(1, "a", at(second));
       EXPECT_EQ(rig.after(1, "a", at(second)), State::closed);
       EXPECT_EQ(rig.registry.state("b"), State::open);
       EXPECT_TRUE(rig.noticed(Notify::What::opened));
     }},
    {"ASeriesStaysOpenForWhatWaitedAtAnotherRank",
     {.ranks = 2, .files_max = 1, .timeouts = {second, 10 * second}},
     [](Rig& rig) {
       rig.give(Started{.name = "a", .who = {.way = Way::tcp}});
       rig.give(Started{.name = "b", .who = {.way = Way::tcp, .rank = 1}});
       rig.give(Stop{});
       EXPECT_EQ(rig.after(1, "b"), State::open);
       EXPECT_EQ(rig.give(Sought{.name = "b", .rank = 1}).kind, Kind::accept);
       rig.give(CaughtUp{"b", 1, 1});
       EXPECT_EQ(rig.registry.state("b"), State::open) << "that was of a series before";
       rig.give(CaughtUp{"b", 1, 2});
       EXPECT_EQ(rig.registry.state("b"), State::closing);
       rig.give(HandedOver{"b", 1});
       EXPECT_TRUE(rig.registry.idle());
     }},
    {"AnotherRankKeepsWhatComesUntilItIsCalled",
     {.ranks = 2, .rank = 1, .timeouts = {second, 10 * second}},
     [](Rig& rig) {
       rig.slow = true;
       FrameSeen frame{.name = "s", .number = 1, .bytes = 1, .since = rig.now};
       EXPECT_EQ(rig.give(frame).kind, Kind::wait_until) << "the coordinator is asked";
       EXPECT_EQ(rig.give(Waits{"s"}).kind, Kind::wait);
       EXPECT_EQ(rig.give(frame).kind, Kind::wait);
       rig.give(Called{"s", 7});
       ASSERT_EQ(rig.opened, 2);
       rig.give(Opened{.name = "s"});
       frame.from_line = true;
       EXPECT_EQ(rig.give(frame).kind, Kind::accept);
       rig.give(LineEmpty{"s"});
       ASSERT_TRUE(rig.noticed(Notify::What::caught_up));
       EXPECT_EQ(rig.notices.back().generation, 7u);
     }},
    {"ARankThatIsCalledBeforeItsAnswerCameGoesOnAtOnce",
     {.ranks = 2, .rank = 1, .timeouts = {second, 10 * second}},
     [](Rig& rig) {
       rig.slow = true;
       rig.start("s", "p0");
       rig.give(Called{"s", 7});
       EXPECT_EQ(rig.give(Waits{"s"}).kind, Kind::wait);
       EXPECT_EQ(rig.opened, 2);
     }},
    {"WhatWaitsAtARankIsRefusedWhereTheStartIs",
     {.ranks = 2, .rank = 1, .timeouts = {second, 10 * second}},
     [](Rig& rig) {
       rig.slow = true;
       rig.start("s", "p0");
       rig.give(Waits{"s"});
       rig.give(Called{.name = "s", .in_vain = true});
       EXPECT_TRUE(rig.noticed(Notify::What::in_vain));
       EXPECT_EQ(rig.registry.state("s"), State::refused);
     }},
    {"ARankReportsTheEndOfAnElementWhoseClientLeaves",
     {.ranks = 2, .rank = 1, .timeouts = {second, 10 * second}},
     [](Rig& rig) {
       rig.give(Arrived{"c1"});
       rig.give(Started{.name = "s",
                        .who = {.way = Way::tcp, .rank = 1, .source = "c1", .element = 1},
                        .what = {.id = 1, .elements = 2}});
       rig.give(Departed{"c1"});
       ASSERT_TRUE(rig.noticed(Notify::What::ended));
       EXPECT_EQ(rig.notices.back().who.element, 1u);
       EXPECT_TRUE(rig.notices.back().by_all);
     }},
    {"AnElementThatIsRefusedCountsWhereOthersAreRecorded", pulls(2),
     [](Rig& rig) {
       rig.give(ElementRefused{"s", "p1"});
       EXPECT_EQ(rig.registry.refused(), 1u);
       rig.start("s", "p0", 9, 0, 2);
       EXPECT_EQ(rig.registry.refused(), 0u);
       EXPECT_EQ(rig.registry.refused_elements(), 1u);
       rig.give(StartRefused{"s"});
       EXPECT_EQ(rig.registry.refused(), 0u) << "it has its file";
     }},
    {"WhatWaitedIsRecordedAtTheStop",
     {.files_max = 1},
     [](Rig& rig) {
       rig.client("a", "c0");
       rig.client("b", "c1");
       rig.give(Stop{});
       EXPECT_EQ(rig.opened, 2);
       EXPECT_TRUE(rig.registry.idle());
       EXPECT_EQ(rig.client("c", "c2").why, Why::stopping);
     }},
    {"AFailureEndsTheSeries", listens(),
     [](Rig& rig) {
       rig.client("a", "c0");
       EXPECT_EQ(rig.after(1, "a", {.last_activity = second, .hopeless = true}), State::closed);
       EXPECT_EQ(rig.ended_by, EndedBy::failure);
     }},
    {"WhatTheStorageDidNotTakeIsWaitedFor", pulls(1),
     [](Rig& rig) {
       rig.start("s", "p0");
       rig.end("s", "p0");
       EXPECT_EQ(rig.after(second, "s", {.last_activity = second, .losers = true}), State::ending);
       EXPECT_EQ(rig.after(10 * second, "s", {.last_activity = second, .losers = true}), State::closed);
     }},
    {"ARefusedStartCountsOnceUntilItIsTaken", pulls(1),
     [](Rig& rig) {
       rig.slow = true;
       for (int i = 0; i < 2; ++i) {
         rig.start("s", "p0");
         rig.give(OpenFailed{.name = "s"});
         EXPECT_EQ(rig.registry.state("s"), State::refused);
         EXPECT_EQ(rig.registry.refused(), 1u);
       }
       rig.slow = false;
       rig.start("s", "p0");
       EXPECT_EQ(rig.registry.refused(), 0u);
     }},
};

class RulesTest : public ::testing::TestWithParam<Row> {};

TEST_P(RulesTest, Hold) {
  Rig rig(GetParam().rules);
  GetParam().happens(rig);
  EXPECT_EQ(rig.registry.audit(), "");
}

INSTANTIATE_TEST_SUITE_P(Series, RulesTest, ::testing::ValuesIn(rows),
                         [](const auto& row) { return std::string(row.param.name); });

/// What the storage did not take comes again slowly, where it is much.
TEST(Ending, ASeriesStaysOpenWhileLostFramesComeAgain) {
  Ending ending;
  ending.set(0, 0, true, EndedBy::message, false);
  const Timeouts timeouts{10 * second, 60 * second, 0};
  Facts facts;
  facts.any_frame = facts.lost = true;
  facts.asked_again = 8 * second;
  facts.last_activity = 13 * second;
  EXPECT_FALSE(ending.is_over(14 * second, facts, timeouts, false, false));
  EXPECT_TRUE(ending.is_over(19 * second, facts, timeouts, false, false)) << "none has come for a while";
  facts.lost = false;
  EXPECT_TRUE(ending.is_over(14 * second, facts, timeouts, false, false));
}

}  // namespace
}  // namespace penstock::series
