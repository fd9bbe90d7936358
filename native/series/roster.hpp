/// Who takes part in one series, and whether everything is in. Pure: no thread, lock, clock, file or socket.
///
/// The rule: everything is in when each participant that began has ended, each element has ended, and no way in is left
/// through which another participant could come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace penstock::series {

/// How a participant's messages come in.
enum class Way : std::uint8_t {
  bound,   ///< a ZeroMQ socket that the recorder binds: it does not know who is connected
  pulled,  ///< a ZeroMQ endpoint that the recorder connects to, which sends one series after the other
  tcp,     ///< a TCP connection, which hears answers
};

struct Participant {
  Way way = Way::bound;
  unsigned rank = 0;        ///< where its messages come in
  std::string source = {};  ///< the endpoint, or the connection; empty: the rank's TCP connections as one
  std::optional<std::uint32_t> element = {};
  std::string client = {};  ///< the name that a TCP client gives itself in its hello; may be empty
};

/// One TCP connection, known by its name.
inline bool is_named(const Participant& who) { return who.way == Way::tcp && !who.source.empty(); }

enum class Part : std::uint8_t { expected, began, ended, lost };

class Roster {
 public:
  struct Row {
    Participant who;
    bool begun = false;     ///< false: its end came, and no start yet
    bool here = true;       ///< its connection is open
    bool said_end = false;  ///< false of one that has ended: its client left, or all of its rank have ended
    Part part = Part::began;
  };

  explicit Roster(std::uint32_t elements = 1) : elements_(elements) {}

  bool has_elements() const { return elements_ > 1; }
  const std::vector<Row>& rows() const { return rows_; }
  Row* find(const Participant& who);
  /// A participant begins. True if it, or its element, had not begun before. A lost client that comes back is the same.
  bool begin(const Participant& who);
  bool has_begun(std::uint32_t element) const;
  /// A participant ends. `by_all`: every TCP client of its rank (and element) has. False where that says nothing of the
  /// series: it has elements, and the end names none.
  bool end(const Participant& who, bool by_all);
  /// The connection is gone without an end.
  void lose(const std::string& connection);
  /// The connection is gone and its client has said that it sends no more. Its row; null if it was not waited for.
  const Row* depart(const std::string& connection);

  /// An end message came.
  bool any_said_end() const;
  /// Each participant that began has ended, or is lost; each element has ended.
  bool all_ended() const;
  std::size_t pulled_ended() const;
  bool any_lost() const;
  bool has_ended(const std::string& connection) const;
  std::set<std::uint32_t> begun_elements() const;
  /// Another connected client that brings the element; null if none does.
  Row* rival_of(const Participant& who);
  /// What is known of an element, or, in a series of one, of the series.
  Part part_of(std::uint32_t element) const;

 private:
  Row& row_of(const Participant& who);

  std::uint32_t elements_;
  std::vector<Row> rows_;
};

}  // namespace penstock::series
