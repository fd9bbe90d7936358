/// The series that came over TCP, whichever connection brought them: so that a client that comes
/// back finds its series again, and several clients may send parts of one.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <semaphore>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "frame/sink.hpp"
#include "stream/element.hpp"
#include "stream/tcp/replies.hpp"

namespace penstock::stream {

/// A connection, as its series know it.
struct TcpLink {
  std::shared_ptr<TcpReplies> replies;
  std::shared_ptr<Socket> socket;
  std::string peer;         ///< "127.0.0.1:51234"
  std::string client = {};  ///< of its hello; empty: not sent
};

/// What a connection takes part in a series with.
struct TcpPart {
  std::optional<ElementPlace> element;
  std::uint64_t window = 0;  ///< TcpSession::set_window()
  bool resumed = false;      ///< the start had the flag `resume`
};

/// What one connection put into one series: acknowledgements speak of its own frames alone, as nobody else knows which
/// of another's frames have come.
class TcpSession : public AckListener {
 public:
  explicit TcpSession(const TcpLink& link)
      : peer_(link.peer), client_(link.client), replies_(link.replies), socket_(link.socket) {}

  const std::string& peer() const { return peer_; }
  const std::string& client() const { return client_; }
  /// ask_again() has ended the connection.
  bool is_cut() const { return is_cut_; }
  /// Whether it is another connection of the same sender, as its hello says.
  bool is_same_sender(const TcpLink& link) const { return !client_.empty() && client_ == link.client; }
  /// Whether somebody is at the other end: whatever the program there does, its system acknowledges what it is sent.
  /// Takes a moment, or, where nobody is, two seconds.
  bool is_there(const std::string& series_unique_id);
  /// The client sends nothing more: it has closed its end, or the connection is gone.
  bool has_hung_up() const;
  /// Whether its system has acknowledged something since then.
  bool acknowledges(std::int64_t asked_ns) const;
  /// ask_again(); false where the connection has been ended before.
  bool cut(const Error& why);

  /// Whose frames the connection brings, as its start said; nothing where it sent none.
  std::optional<std::uint32_t> element() const;
  void set_element(std::optional<std::uint32_t> element);

  void safe_below(const std::string& series_unique_id, FrameNumber below) override;
  /// Tells the client why, and ends the connection: it comes back, and sends what was not acknowledged.
  void ask_again(const std::string& series_unique_id, const Error& why) override;
  void rejected(std::uint64_t message, const Error& why) override;
  void ended(const std::string& series_unique_id, std::string_view ended_by, FrameNumber all_safe_below) override;
  std::uint64_t window_frames() const override { return window_frames_; }
  bool has_ended() const override { return ended_; }
  /// The last word on the series.
  void closed(const std::string& series_unique_id, const std::string& problem) override;
  void refuse() { refused_ = true; }
  bool is_refused() const override { return refused_; }
  bool is_gone() const override;

  /// The client may have sent frames of the series by a connection before: closed() speaks of these as well.
  void set_resumed() { is_resumed_ = true; }
  /// How things stand, in answer to a start.
  void answer(const std::string& series_unique_id);
  bool is_of(const TcpReplies& replies) const;
  /// What the client keeps of each channel; before its first frame.
  void set_window(std::uint64_t frames) { window_frames_ = frames; }
  /// The end, or bye, has come.
  void set_ended() { ended_ = true; }
  /// The connection is gone; frames of it may still be on their way.
  void leave();

 private:
  std::shared_ptr<Socket> socket() const;

  const std::string peer_;
  const std::string client_;
  std::atomic<std::uint64_t> window_frames_{0};
  std::atomic<bool> ended_{false};
  std::atomic<bool> is_cut_{false};
  std::atomic<bool> refused_{false};
  std::atomic<bool> is_resumed_{false};
  mutable Mutex mutex_;
  std::shared_ptr<TcpReplies> replies_ PEN_GUARDED_BY(mutex_);
  std::shared_ptr<Socket> socket_ PEN_GUARDED_BY(mutex_);
  std::uint64_t told_ PEN_GUARDED_BY(mutex_) = 0;
  std::string ended_by_ PEN_GUARDED_BY(mutex_);
  std::uint64_t all_safe_below_ PEN_GUARDED_BY(mutex_) = 0;  ///< when the series was closed
  std::optional<std::uint32_t> element_ PEN_GUARDED_BY(mutex_);
};

/// One series, with the connections that take part in it.
class TcpSeries : public AckListener {
 public:
  explicit TcpSeries(const Series& series)
      : unique_id_(series.unique_id),
        channels_(series.channels),
        frame_(series.frame),
        frames_(series.frames),
        grid_(grid_of(series)),
        gap_(gap_text(series.element.value_or(ElementPlace{}))) {}

  const std::string& unique_id() const { return unique_id_; }
  const std::vector<std::string>& channels() const { return channels_; }
  /// Its channels and frames, nothing else.
  Series announced() const {
    Series series;
    series.channels = channels_;
    series.frame = frame_;
    return series;
  }
  bool is_closed() const;
  /// Whether the connection takes part in it, and may bring more frames.
  bool is_open_for(const TcpReplies& replies) const;
  /// Whether `series` announces the same frames.
  bool is_of(const Series& series) const {
    return series.channels == channels_ && series.frame == frame_ && series.frames == frames_ &&
           grid_of(series) == grid_;
  }

  /// Between elements, as in the first start message.
  const std::string& gap() const { return gap_; }

  /// Whether a stream of this element of the detector has begun.
  bool has_begun(std::uint32_t element) const;
  /// Whether the connection brings the frames of another element already, which image messages do not name.
  bool is_taken(const TcpReplies& replies, std::uint32_t element) const;
  /// Connections of other senders that bring the element.
  std::vector<std::shared_ptr<TcpSession>> rivals(const TcpLink& link, std::uint32_t element) const;
  /// Connections of the client, unless the series is closed.
  std::vector<std::shared_ptr<TcpSession>> sessions_of(std::string_view client) const;
  /// Adds a connection, and returns its session; null if the series is closed, as the client learns instead.
  std::shared_ptr<TcpSession> join(const TcpLink& link, const TcpPart& with);
  /// Of a connection that has joined, or puts frames without that.
  std::shared_ptr<TcpSession> session(const TcpLink& link);
  /// The connection has sent the end. Completes it: of which element it is, and whether all that take part, or that
  /// bring this element, have sent theirs.
  void end(const TcpReplies& replies, SeriesEnd& end);
  /// The connection is gone, for good if it has `said_bye`. The end, where that was the last one that had not sent it;
  /// of an element also where nobody has.
  std::optional<SeriesEnd> leave(const TcpReplies& replies, bool said_bye);
  /// Whether each of these connections has sent the end, and none was cut off before its own that may come back.
  bool have_all_ended(const std::set<const TcpReplies*>& connections) const;

  /// Notifies sessions.
  void safe_below(const std::string&, FrameNumber) override {}
  void ended(const std::string& series_unique_id, std::string_view ended_by, FrameNumber all_safe_below) override;
  void closed(const std::string& series_unique_id, const std::string& problem) override;
  /// Notifies the connections of the element, or, without one, all of them: then no one has started the series.
  void refused(const std::string& series_unique_id, const std::optional<ElementPlace>& element,
               const std::string& why) override;
  bool is_refused() const override;

 private:
  struct Part {
    std::shared_ptr<TcpSession> session;
    bool ended = false;
  };

  using Grid = std::pair<std::uint32_t, std::uint32_t>;
  static Grid grid_of(const Series& series) {
    return series.element ? Grid(series.element->rows, series.element->columns) : Grid(1, 1);
  }
  Part& part(const TcpLink& link) PEN_REQUIRES(mutex_);
  void say_closed(TcpSession& session) const PEN_REQUIRES(mutex_);
  bool all_ended() const PEN_REQUIRES(mutex_);
  /// Of those that bring the element.
  bool all_ended(std::optional<std::uint32_t> element) const PEN_REQUIRES(mutex_);

  const std::string unique_id_;
  const std::vector<std::string> channels_;
  const ArraySpec frame_;
  const std::uint64_t frames_;
  const Grid grid_;
  const std::string gap_;
  mutable Mutex mutex_;
  std::set<std::uint32_t> begun_ PEN_GUARDED_BY(mutex_);  ///< elements
  std::vector<Part> parts_ PEN_GUARDED_BY(mutex_);
  std::multiset<std::string> cut_off_
      PEN_GUARDED_BY(mutex_);  ///< clients whose connection was lost before their end, as hello names them
  std::optional<SeriesEnd> end_ PEN_GUARDED_BY(mutex_);
  bool closed_ PEN_GUARDED_BY(mutex_) = false;
  bool refused_ PEN_GUARDED_BY(mutex_) = false;
  struct Close {
    std::string ended_by;
    FrameNumber all_safe_below{0};
    std::string problem;
  };
  Close close_ PEN_GUARDED_BY(mutex_);
};

class TcpSeriesTable {
 public:
  /// Held while a message whose CBOR part is long is parsed, and until its frames are taken: parsed it takes many times
  /// its bytes.
  static constexpr std::ptrdiff_t long_messages_max = 2;
  std::counting_semaphore<long_messages_max>& long_messages() { return long_messages_; }

  /// Closed series are remembered up to this number, for clients that ask again.
  static constexpr std::size_t closed_max = 1024;

  /// A connection may bring frames of any series, until it leaves.
  void arrive(const TcpReplies& replies);
  /// So may those that have not said what they want. Not of those that arrived.
  void set_guests(std::size_t guests) { guests_ = guests; }
  /// Whether nobody who is connected has more of a series that all who take part have ended.
  bool is_last(const TcpSeries& series) const;
  /// Whether the connection takes part in a series that is not closed.
  bool has_open_series(const TcpReplies& replies) const;
  /// Ends the connections that `client` has lost without our knowing: they have an open series, and nobody is at their
  /// other end. Takes two seconds at most. One that has hung up leaves by itself.
  void end_lost(std::string_view client);
  /// Opens a series in the sink or, with `resume`, joins one that is known.
  Result<void> start(Series series, bool resume, const TcpLink& link, FrameSink& sink);
  /// Null if not known.
  std::shared_ptr<TcpSeries> find(const std::string& unique_id);
  /// The connection is gone: the series that end with it.
  std::vector<SeriesEnd> leave(const TcpReplies& replies, bool said_bye);

 private:
  void forget_old() PEN_REQUIRES(mutex_);

  std::counting_semaphore<long_messages_max> long_messages_{long_messages_max};

  std::atomic<std::size_t> guests_{0};
  Mutex starting_;  // held while the sink opens a series, so that two starts of one are told apart
  mutable Mutex mutex_;
  std::set<const TcpReplies*> connections_ PEN_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<TcpSeries>> series_ PEN_GUARDED_BY(mutex_);
  std::deque<std::string> order_ PEN_GUARDED_BY(mutex_);
};

}  // namespace penstock::stream
