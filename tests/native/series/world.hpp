/// A recorder's surroundings in virtual time: senders, files, ranks and their faults, all drawn from one seed. It
/// drives a registry for each rank, and checks its decisions against what it knows itself, after each step.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "series/registry.hpp"

namespace penstock::series::testing {

template <typename What>
bool holds(const std::vector<What>& all, const What& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

template <typename What>
void add(std::vector<What>& all, const What& one) {
  if (!holds(all, one)) all.push_back(one);
}

/// What came of one schedule.
struct Outcome {
  std::string violation;  ///< empty: every invariant held
  std::uint64_t steps = 0;
  std::uint64_t opened = 0;
  std::uint64_t waited = 0;   ///< starts that waited for a file
  std::uint64_t refused = 0;  ///< requests
  std::uint64_t joined = 0;   ///< parts of other ranks
};

class World {
 public:
  explicit World(std::uint64_t seed, bool prints = false);
  Outcome run();

 private:
  static constexpr std::size_t names_max = 3;
  static constexpr unsigned ranks_max = 3;

  /// What a sender does next.
  enum class Do : std::uint8_t { start, frame, end, lose, depart, pause };
  struct Op {
    Do what = Do::pause;
    std::uint8_t name = 0;
    std::uint32_t number = 0;
    bool another = false;  ///< of a start: another series of a name that this sender began before
    bool resume = false;
    bool contradicts = false;
  };
  /// What a sender knows of a name.
  struct Begun {
    std::uint64_t generation = 0;
    bool begun = false;
    bool ended = false;
    unsigned connection = 0;
  };
  struct Sender {
    Participant who;
    std::vector<Op> ops = {};
    std::size_t next = 0;
    Time at = 0;
    std::array<Begun, names_max> series = {};
    bool connected = false;
    bool dead = false;  ///< its connection is gone, and the recorder has not noticed
    unsigned connections = 0;
  };
  /// A request whose answer was to ask again.
  struct Blocked {
    enum class Whose : std::uint8_t { sender, rank };
    Whose whose = Whose::sender;
    std::size_t sender = 0;
    unsigned asker = 0;
    std::size_t asks_for = 0;  ///< of a rank: the sender whose start it is
    Event event;
    Time first = 0;
    Time until = 0;
    bool resolved = false;
  };
  struct Kept {
    Event event;
    std::size_t sender = 0;
  };
  /// A file, or a rank's part of one.
  struct File {
    enum class Is : std::uint8_t { nothing, opening, open, closing } is = Is::nothing;
    std::uint64_t generation = 0;
    bool sought = false;
    bool superseded = false;  ///< its first sender has begun another one since
    std::deque<Kept> line;
    bool has_line = false;
    std::uint64_t starts_kept = 0;
    std::uint64_t frames_kept = 0;
    // Of an open one.
    Time last_activity = 0;
    Time last_end = -1;
    std::uint64_t frames = 0;  ///< numbers that came
    std::uint64_t announced = 0;
    bool hopeless = false;
    bool could_follow = true;        ///< when the last end came
    bool was_idle = false;           ///< when somebody looked
    bool commanded = false;          ///< to end
    std::vector<std::size_t> begun;  ///< senders
    std::vector<std::size_t> ended;
    std::vector<unsigned> parts;  ///< ranks that joined
    std::vector<unsigned> handed_over;
    Time closing_at = 0;
    // Behind the close of one.
    bool was_whole = false;
    bool is_known = false;
    std::vector<std::uint32_t> early;  ///< frames
  };
  struct Job {
    enum class What : std::uint8_t { made, closed, feed, message, answer } what = What::made;
    Time at = 0;
    unsigned rank = 0;  ///< where it happens
    std::uint8_t name = 0;
    bool fails = false;
    unsigned asker = 0;
    bool asks = false;        ///< of a message: it begins, or seeks, a series
    bool takes_part = false;  ///< of a message: so does another start at a rank that has joined the series
    bool waits = false;
    std::size_t sender = 0;
    Event event = {};
  };
  struct Rank {
    std::unique_ptr<Registry> registry;
    std::array<File, names_max> files;
    std::vector<std::string> line;  ///< names that wait for a file, in their order
  };

  void draw();
  void draw_ops(Sender& sender);
  std::uint64_t below(std::uint64_t bound) { return random_.next_below(bound); }
  bool chance(unsigned percent) { return below(100) < percent; }
  Time some_time(Time most) { return 1 + static_cast<Time>(below(static_cast<std::uint64_t>(most))); }
  std::string name_of(std::uint8_t name) const { return std::string(1, static_cast<char>('a' + name)); }
  static std::uint8_t index_of(const std::string& name) { return static_cast<std::uint8_t>(name[0] - 'a'); }
  Announced announced(std::uint8_t name, const Op& op) const;

  Answer step(unsigned rank, const Event& event);
  void obey(unsigned rank, const Command& command);
  void obey(unsigned rank, const Open& open);
  void obey(unsigned rank, const Close& close);
  void obey(unsigned rank, const Notify& notify);
  void send(unsigned to, std::uint8_t name, const Event& event);
  void present(std::size_t sender, const Event& event);
  void taken(std::size_t sender, unsigned rank, const Event& event, const Answer& answer);
  void end_by_start(std::size_t index, File& file);
  void end_others(std::size_t index, std::uint8_t name);
  void keep(unsigned rank, std::size_t sender, const Event& event, const Answer& answer);
  void reply(unsigned asker, std::size_t sender, const Event& question, const Answer& answer);
  void keep_for_rank(const Event& start, std::size_t sender, const Answer& answer);
  void take_part(unsigned rank, std::size_t sender, Started start);
  void keep_at_rank(unsigned rank, std::uint8_t name);
  void ask_again();
  void act(Sender& sender, std::size_t index);
  void lose(Sender& sender, bool says_bye);
  void happen(const Job& job);
  void feed(unsigned rank, std::uint8_t name);
  void measure(bool all);
  void check_close(const Close& close);
  bool can_more_come(const File& file) const;
  bool all_have_ended(std::uint8_t name, const File& file) const;
  void fail(const std::string& what);
  void fail(const std::string& what, std::uint8_t name) { fail(what + " (series " + name_of(name) + ")"); }
  Time next_time() const;
  bool advance(Time until);
  void finish();
  Facts facts(const File& file) const;

  RandomStream random_;
  const bool prints_;
  Rules rules_;
  unsigned ranks_ = 1;
  Time now_ = second;
  std::array<Rank, ranks_max> all_;
  std::vector<Sender> senders_;
  std::vector<Blocked> blocked_;
  std::vector<Job> jobs_;
  std::array<std::uint64_t, names_max> planned_{};  ///< frames of each name, as a set
  std::array<bool, names_max> open_ended_{};
  std::array<std::uint32_t, names_max> elements_{};
  bool stopping_ = false;
  bool rank_died_ = false;                 ///< it hands over nothing
  std::optional<std::size_t> presenting_;  ///< the sender of the event
  const Event* current_ = nullptr;         ///< whose commands are obeyed
  Outcome outcome_;
};

}  // namespace penstock::series::testing
