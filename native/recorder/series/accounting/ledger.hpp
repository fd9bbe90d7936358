/// The frame accounting: what became of each frame of a series, and which acknowledgements each session may get.
///
/// A frame has a part for each channel of each of the detector's elements. Invariants, for each frame: safe parts ⊆
/// received parts; a frame counts as received when all of its parts are. All calls are safe from several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "frame/frame.hpp"
#include "frame/sink.hpp"
#include "recorder/series/accounting/frame_entries.hpp"

namespace penstock::recorder {

struct LedgerCounts {
  std::uint64_t received = 0;   ///< frames of which every part came, duplicates not counted
  std::uint64_t duplicate = 0;  ///< copies that came and were not written again
  std::uint64_t late = 0;       ///< came after the same part of a frame with a higher number
  std::uint64_t damaged = 0;
  std::uint64_t dropped = 0;
  std::uint64_t lost = 0;
  std::uint64_t partial = 0;  ///< once settle_partial() was called
  std::uint64_t end = 0;      ///< one past the highest frame number that came

  bool operator==(const LedgerCounts&) const = default;

  /// Of duplicate, late, damaged, dropped and lost frames, which only grow.
  void add_anomalies(const LedgerCounts& other) {
    duplicate += other.duplicate;
    late += other.late;
    damaged += other.damaged;
    dropped += other.dropped;
    lost += other.lost;
  }
  void subtract_anomalies(const LedgerCounts& other) {
    duplicate -= other.duplicate;
    late -= other.late;
    damaged -= other.damaged;
    dropped -= other.dropped;
    lost -= other.lost;
  }
};

/// Of a part of the frames: a channel of an element of the detector.
struct PartCounts {
  std::uint64_t received = 0;  ///< frames that have it
  std::uint64_t late = 0;
  std::uint64_t duplicate = 0;
  std::uint64_t damaged = 0;

  bool operator==(const PartCounts&) const = default;
};

/// A connection that wants to know when its frames are safe; compared by address.
using Session = std::shared_ptr<AckListener>;

class Ledger {
 public:
  /// `parts` from 1 to 32.
  explicit Ledger(unsigned parts);

  enum class Admission { take, duplicate, no_room };
  /// A good frame came in. `duplicate` if it is there already or on its way; the session is notified
  /// when that one is safe. `no_room` if its number is far from all others, as those of too many frames were
  /// (FrameEntries::may_hold()): nothing is noted of it.
  /// `more`: another part of the same message follows; the session, which keeps messages, is not notified of this
  /// frame before.
  Admission receive(FrameNumber number, std::uint32_t part, const Session& session, bool more = false);
  /// Of which part, where that is known.
  void damaged(FrameNumber number, std::optional<std::uint32_t> part = {});
  void dropped(FrameNumber number);

  struct Item {
    FrameNumber number;
    std::uint32_t part;
  };
  /// These are on storage.
  void placed(std::span<const Item> items);
  /// Every part of the frame is on storage.
  bool whole(FrameNumber number);
  /// These could not be written; if they come again they are taken.
  void lost(std::span<const Item> items);
  /// Of those, how many have not come again.
  std::uint64_t still_lost() const;
  /// This one was admitted, and can never be written, as `why` says (damaged or dropped): nobody need send it again.
  void give_up(const Item& item, FrameState why);

  struct Notice {
    Session session;
    FrameNumber below;  ///< every frame below it that the session sent is safe
  };
  /// Pending notifications of sessions.
  std::vector<Notice> take_notices();

  /// Before the first frame: held_up_by() and is_awaited() will be asked.
  void watch_windows() { watches_windows_ = true; }
  /// The session will put frames.
  void expect(const Session& session);
  /// The frame that keeps the session from going on, where it waits for acknowledgements (AckListener::window_frames)
  /// and has put as many frames as it may: the first that is not safe.
  std::optional<Item> held_up_by(const Session& session);
  /// Whether this frame, which `session` will not put any more, may still come of another one: each puts its frames by
  /// rising number. How far those that may bring it have come, all together, so that one sees that they go on; nothing
  /// where there is none, or it was waited for in vain. `waited`: `session` puts what waited in a line, in which no
  /// other one has this frame any more.
  std::optional<std::uint64_t> is_awaited(FrameNumber number, const Session& session, bool waited = false);
  /// It was waited for, and those that might have brought it put nothing meanwhile.
  void await_no_longer(FrameNumber number, const Session& session, bool waited = false);

  /// Sessions of which frames were lost since the last call.
  std::vector<Session> take_losers();
  bool has_losers() const;

  /// The file had these already: another rank brought them.
  void already_there(std::span<const Item> items);
  /// Another rank placed these. Returns the frames that are whole by now.
  std::vector<FrameNumber> placed_elsewhere(std::span<const Item> items);
  /// What another rank could not place; counted there.
  void unplaced_elsewhere(FrameNumber number, FrameState state);
  /// Adds another rank's duplicate, late, damaged, dropped and lost frames.
  void add(const LedgerCounts& of_another);

  /// Frames whose state became damaged, dropped or lost since the last call and that are not
  /// received by now.
  std::vector<std::pair<FrameNumber, FrameState>> take_unplaced();

  /// Frames that lack a part.
  struct Lack {
    std::uint64_t frames = 0;
    std::uint64_t first = 0;  ///< the lowest of their numbers
  };
  /// Nothing more will come: of which frames only some parts are there. Returns what each part lacks.
  std::vector<Lack> settle_partial();

  LedgerCounts counts() const;
  /// Of the frames below `frames`, those that came in no form: neither received nor damaged, dropped or lost.
  std::uint64_t never_came(std::uint64_t frames) const;
  /// Of each part, other ranks' among them.
  std::vector<PartCounts> parts() const;
  /// Of each part, another rank's late, duplicate and damaged frames.
  void add(const std::vector<PartCounts>& of_another);
  /// For each frame below `frames` and each of `elements`, frame by frame: 1 where all of the element's parts, every
  /// `elements`-th, have come, else 0.
  std::vector<std::byte> received_elements(std::uint64_t frames, std::uint32_t elements) const;
  /// What add() brought of other ranks.
  LedgerCounts added() const;
  /// The lowest number of a frame that is not wholly on storage.
  std::uint64_t safe_below() const;
  /// Whether this part of the frame came, and is or will be on storage.
  bool has(const Item& item);
  /// One past the highest number that came; 0 if none.
  std::uint64_t end() const;
  /// Frames below `end` came to another rank.
  void raise_end(std::uint64_t end);

 private:
  using Entry = FrameEntry;
  struct Sent {
    std::set<std::pair<std::uint64_t, std::uint32_t>> waiting;  ///< put and not safe yet
    std::uint64_t end = 0;                                      ///< one past the highest number that this session put
    std::optional<std::uint64_t> begun;                         ///< a frame of whose message more parts follow
    std::uint64_t told = 0;
    std::uint64_t window = 0;               ///< images of all channels; 0: it does not wait
    std::deque<std::uint64_t> kept;         ///< put, from `told` on; up to the window, if it counts
    bool has_lost = false;                  ///< since the last call of take_losers()
    std::optional<std::uint64_t> vain_end;  ///< `end` when somebody waited for this session in vain
    std::int64_t gone_ns = 0;               ///< since when nobody else knows the session, monotonic; 0: somebody does
    bool may_bring(const Session& self, std::uint64_t number, bool waited) const;
  };

  void forget_gone();
  Entry& entry(std::uint64_t number) { return entries_.at(number); }
  void settle(const Item& item);
  void take_back(const Item& item);
  void take(Entry& frame, std::uint32_t part);
  void note_duplicate(std::uint32_t part);
  void note_unplaced(std::uint64_t number, FrameState state);

  const std::uint32_t all_parts_;
  bool watches_windows_ = false;
  mutable std::mutex mutex_;
  // guarded by mutex_
  FrameEntries entries_;
  std::map<Session, Sent> sessions_;
  std::vector<std::uint64_t> unplaced_;
  LedgerCounts counts_;
  std::uint64_t still_lost_ = 0;  ///< parts
  LedgerCounts added_;
  struct Part {
    PartCounts counts;
    PartCounts added;       ///< of other ranks
    std::uint64_t end = 0;  ///< one past the highest number
  };
  std::vector<Part> parts_;
};

}  // namespace penstock::recorder
