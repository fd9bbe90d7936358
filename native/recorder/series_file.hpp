/// One series on its way into one file: checks, ledger, columns, and the store beneath.
///
/// Frames come in through admit() on the sources' threads, are encoded by encode() on the
/// recorder's workers, and are settled by the store's indexer thread. close() is called once, after
/// which nothing else is.
///
/// In a team of several ranks the lead creates the file and keeps its ledger; the others join it with
/// their first frame. Either way this class is one rank's part.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/log_rate_limiter.hpp"
#include "frame/mosaic.hpp"
#include "recorder/blocks.hpp"
#include "recorder/config.hpp"
#include "recorder/histogram.hpp"
#include "recorder/ledger.hpp"
#include "recorder/left_file.hpp"
#include "recorder/meter.hpp"
#include "recorder/rows.hpp"
#include "recorder/task.hpp"
#include "recorder/team.hpp"

namespace penstock::recorder {

/// Places in HDF5's index of a growing dataset.
constexpr std::uint64_t chunks_max = (std::uint64_t{1} << 32) - 2;

/// Why a series came to its end.
enum class EndedBy : std::uint8_t {
  message,    ///< its source said so
  new_start,  ///< its source began another series, and had not said so
  count,      ///< every announced frame was there, and its source did not say so
  silence,    ///< no frame came for Config::end_after_s
  command,    ///< somebody told the recorder
  room,       ///< another series needed its place
  stop,       ///< the recorder was stopped
  failure,    ///< its file was removed or replaced, or the storage failed for too long
};
constexpr std::string_view name(EndedBy why) {
  constexpr std::string_view names[] = {"message", "new_start", "count", "silence",
                                        "command", "room",      "stop",  "failure"};
  return names[static_cast<std::size_t>(why)];
}

/// Numbers for people and for events; taken at any time.
struct SeriesStats {
  LedgerCounts ledger;
  std::uint64_t raw_bytes = 0;       ///< of admitted frames, uncompressed
  std::uint64_t frames_written = 0;  ///< on storage and in the index; one of several parts counts in parts
  std::uint64_t stored_bytes = 0;    ///< of chunks
  std::uint64_t unfiltered = 0;      ///< chunks for which the filter plug-in failed
  std::int64_t encode_ns = 0;        ///< summed over workers
  store::StoreStats store;
  Histogram latency;  ///< from received to written, a frame
};

class SeriesFile final : private store::Listener {
 public:
  /// Creates the file. `env` and `team` outlive it.
  static Result<std::shared_ptr<SeriesFile>> create(Env& env, const Config& config, Team& team, Series series,
                                                    std::string path);
  /// Goes on in the series' file where a recorder has left one, and creates it where there is none
  /// (docs/explanation/decisions/0017-a-series-goes-on-in-its-file.md). The lead's.
  static Result<std::shared_ptr<SeriesFile>> resume(Env& env, const Config& config, Team& team, Series series,
                                                    std::string path);
  /// For a series whose file found no room on the storage: one of its frames makes it when there is some. The lead's.
  static Result<std::shared_ptr<SeriesFile>> without_room(Env& env, const Config& config, Team& team, Series series,
                                                          std::string path, const Error& why);
  /// For a series whose file the lead has created.
  static Result<std::shared_ptr<SeriesFile>> join(Env& env, const Config& config, Team& team, Series series,
                                                  std::string path);
  ~SeriesFile() override;

  /// The lead's: what the file is made for, by this frame's encoding and metadata if it is the first one.
  Result<Terms> terms(Encoding encoding, const std::vector<MetaColumn>& columns);
  /// The lead's: frames that another rank could not place.
  void blemished_elsewhere(FrameNumber number, FrameState state) { ledger_.blemished_elsewhere(number, state); }
  /// What this rank did, for the lead's final counts, after close() …
  nlohmann::json part() const;
  /// … and the lead adding it, before its close(). A problem there is one of the series.
  void add_part(const nlohmann::json& part);

  const Series& series() const { return series_; }
  const std::string& path() const { return path_; }
  /// Frames that a resumed file held with all their channels; 0 of a new one.
  std::uint64_t frames_before() const { return frames_before_; }

  /// Checks a frame against the series and enters it into the ledger. A task if the frame is to be
  /// written, nothing if it is a duplicate, an error (field and value) if it cannot be right.
  /// `room` is that of its values.
  Result<std::optional<Task>> admit(Frame frame, ValuesRoom room = {});
  void drop(FrameNumber number);
  void damage(FrameNumber number, std::optional<std::uint32_t> element);
  /// Frames that came in no form: those that are damaged, dropped or lost are not among them.
  std::uint64_t never_came() const { return ledger_.never_came(std::max(series_.frames, ledger_.end())); }
  /// Places of the dataset that read as the fill value, wholly or in part.
  std::uint64_t filled() const;
  /// Encodes an admitted frame into a segment of worker `worker` and lets go of it.
  void encode(Task task, unsigned worker, CodecScratch& scratch);

  /// The stream of an element begins, as its start message, with masks decoded, announces it. False where there are no
  /// elements, or that one's has begun before.
  bool begin_element(const Series& start);
  std::set<std::uint32_t> begun_elements() const;
  /// Of the masks that elements have brought.
  std::uint64_t map_bytes() const;
  /// Once it is closed: channels that frames lack whose other channels are there.
  const std::vector<Error>& partial() const { return partial_frames_; }
  bool has_elements() const { return mosaic_.elements() > 1; }
  std::uint32_t elements() const { return mosaic_.elements(); }

  /// Others of its chunk are here, and wait for this one.
  bool gathers(const Frame& frame) const;
  /// Writes the chunks that lack frames, which come too late after that. How many.
  std::size_t write_what_gathers();
  /// Frames that a sender which waits for acknowledgements has to be able to keep; 0: any number.
  std::uint64_t window_needed() const;
  /// Of a sender that keeps `frames`; 0: it does not say. `refused` where it could not go on.
  Result<void> check_window(std::uint64_t frames) const;
  /// Frames on their way wait for no other client's any more, and for no file to appear.
  void stop_waiting() { waits_ = false; }
  /// Another session wants to hear of this series, as after a lost connection.
  void attach(Session session);
  /// Frames will come of this session.
  void expect(const Session& session) { ledger_.expect(session); }
  std::vector<Session> sessions() const;

  /// Sends partly filled segments on their way if their first chunk has waited since before `before_ns`.
  void flush_older_than(std::int64_t before_ns);
  /// Tells sessions whose frames the storage did not take, a while after that, to send them again.
  void ask_again(std::int64_t now_ns);
  /// Ends a series that can no longer be recorded: its file was removed or replaced, or the storage has failed, other
  /// than for lack of room, for Config::idle_timeout_s.
  void give_up_if_hopeless(std::int64_t now_ns);
  /// Sends the worker's segment on its way if it is large enough to be worth a write of its own.
  void flush_if_worthwhile(unsigned worker);

  /// Whether frames are on their way to the storage or the index.
  bool busy() const;
  /// Columns of the values that its frames bring along; nothing before the first frame has told which.
  std::optional<std::size_t> value_columns() const;
  /// The lead's: another rank has frames on their way.
  void note_activity(std::int64_t now_ns) { last_activity_ns_ = now_ns; }
  /// The lead's: one past the highest frame number that is known.
  std::uint64_t end() const { return ledger_.end(); }
  /// When the series began or its last frame came, monotonic.
  std::int64_t last_activity_ns() const { return last_activity_ns_; }

  /// The end message came at `now_ns` (monotonic); late frames are waited for so long, in a team so long after
  /// the last frame. Of elements the first one's end is not the last word: each begins the waiting anew, until `all`
  /// have ended.
  void set_ending(std::int64_t now_ns, std::int64_t patience_ns, bool all, EndedBy why);
  /// Whether it is time to close: every announced frame is there and the end came, or nothing is waited for any more.
  bool ready_to_close(std::int64_t now_ns) const;
  /// How long it waits at most, if nothing comes: for frames behind the end, or for the end behind the last frame.
  /// Nothing where neither has come.
  std::optional<std::int64_t> ends_in_ns(std::int64_t now_ns) const;

  /// No frame has come for Config::end_after_s, and no end either.
  bool is_silent(std::int64_t now_ns) const;
  EndedBy ended_by() const;

  /// Waits for admitted frames, writes what is known at the end, and closes the file.
  Result<void> close();

  SeriesStats stats() const;
  /// What this process did for the series, for metrics.
  Meters meters() const;
  /// The first failure of the storage since the start, empty if there was none. After the lead's close() what is wrong
  /// with the file: frames that a full storage did not take are no problem once they have come again.
  std::string problem() const;
  /// Why the storage takes nothing at the moment ("storage full: waiting for space"); empty while it writes.
  std::string holdup() const;
  /// The file's name was removed or given to another file while it was written: what it had is gone.
  bool was_removed() const { return removed_; }

 private:
  struct WriterSlot {
    std::mutex mutex;
    // guarded by mutex
    std::unique_ptr<store::ChunkWriter> writer;
    store::FilterScratch filtered;
    std::vector<std::byte> frame;  ///< expanded, of one that came otherwise than the file has it
    std::vector<std::byte> tile;
  };

  /// What the start of an element's stream brought; the lead puts those of all together at the end.
  struct ElementMaps {
    std::vector<NamedArray> pixel_mask;
    std::vector<NamedArray> flatfield;
  };

  /// How far a frame came on its way to the store.
  struct Handed {
    std::uint64_t chunks = 0;  ///< that the store has taken, also where an error kept it from the others
    Fate fate = Fate::lost;    ///< of the others
  };

  SeriesFile(Env& env, const Config& config, Team& team, Series series, Mosaic mosaic, ScanConfig scan,
             std::string path);

  static Result<std::shared_ptr<SeriesFile>> make(Env& env, const Config& config, Team& team, Series series,
                                                  std::string path);
  static Result<std::unique_ptr<Blocks>> make_blocks(const Config& config, unsigned ranks, const Series& series,
                                                     const Tiling& tiling, const ScanConfig& scan,
                                                     std::uint64_t frame_bytes);
  void note_partial();
  Result<void> create_store(Encoding encoding, const std::vector<MetaColumn>& columns, bool replace);
  Result<void> resume_store(const LeftFile& left, const LeftContents& contents);
  void enter_contents(const LeftContents& contents);
  std::vector<std::vector<unsigned>> filter_values() const;
  Result<std::unique_ptr<store::Store>> join_once_visible(const Terms& terms);
  Result<void> join_store(Encoding encoding, const std::vector<MetaColumn>& columns);
  store::StoreOptions store_options() const;
  /// Not what was recorded of the same series, nor what came from the same source a moment ago under the same name.
  bool may_overwrite() const { return config_.store.overwrite && !series_.resumed && !series_.anew; }
  store::Placement placement() const;
  store::FileLayout tree(store::Placement placement) const;
  store::FileLayout layout(store::Placement placement) const;
  void note_edges(const Frame& frame);
  EdgeValues edges() const;
  void use(Encoding encoding, const std::vector<MetaColumn>& columns);
  void make_writers();
  void drop_store();
  Result<std::optional<Task>> admit_open(Frame frame, ValuesRoom room);
  std::optional<Task> lose(const Frame& frame);
  bool can_be(FrameNumber number) const;
  Result<void> check(const Frame& frame, std::uint64_t raw_bytes) const;
  Error far_from_others(FrameNumber number) const;
  Result<void> check_element(const Frame& frame) const;
  void note_series_date(const std::string& date);
  Result<void> make_again(Encoding encoding, const std::vector<MetaColumn>& columns);
  Result<void> fit(Encoding encoding, const std::vector<MetaColumn>& columns);
  Result<void> write(const Frame& frame, const store::ChunkHead& head, unsigned worker, CodecScratch& scratch,
                     Handed& handed);
  Result<void> write_raw(const Frame& frame, Bytes raw, const store::ChunkHead& head, WriterSlot& slot,
                         CodecScratch& scratch, Handed& handed);
  Result<void> write_tile(const Frame& frame, Bytes raw, std::uint64_t tile, const store::ChunkHead& head,
                          WriterSlot& slot, CodecScratch& scratch);
  Result<void> write_chunk(const Frame& frame, Bytes raw, const store::ChunkHead& head, WriterSlot& slot,
                           CodecScratch& scratch);
  Result<Blocks::Joined> join_block(const Frame& frame);
  void await_others(const Session& session, const std::function<std::optional<FrameNumber>()>& lacking);
  Blocks::Ref block_waited_for(const Session& session);
  void gather_here(Task task);
  static std::optional<Task> task_for(Blocks::Ref block);
  void gather(Task task, unsigned worker, CodecScratch& scratch);
  Blocks::Ref copy_into_block(const Task& task, MutableBytes room, CodecScratch& scratch);
  void write_block(const Blocks::Ref& block, unsigned worker, CodecScratch& scratch, std::vector<Task>& tasks);
  Result<void> write_chunks(const Block& block, unsigned worker, CodecScratch& scratch, std::uint64_t& handed);
  void write_open_blocks();
  Result<void> put_plain(const Frame& frame, Bytes raw, const store::ChunkHead& head, WriterSlot& slot);
  Result<void> write_encoded(const Frame& frame, Bytes raw, const store::ChunkHead& head, WriterSlot& slot,
                             CodecScratch& scratch);
  Result<void> write_filtered(const Frame& frame, Bytes raw, const store::ChunkHead& head, WriterSlot& slot);
  void note_unfiltered(const Frame& frame, const Error& why);
  void tell_damaged(const Error& why);
  /// The most that a filter plug-in may make of a chunk; where it makes more, the chunk is better stored plain.
  static std::uint64_t filtered_bytes_max(std::uint64_t raw_bytes) {
    return raw_bytes + raw_bytes / 8 + (std::uint64_t{64} << 10);
  }
  std::uint64_t frames_a_chunk() const { return blocks_ ? blocks_->frames() : 1; }
  std::uint64_t chunk_bytes() const { return tiling().tile_bytes() * frames_a_chunk(); }
  /// A chunk is a frame, or an element of one: what comes in the file's encoding is stored as it is.
  bool is_chunk_a_frame() const { return tiling().whole() && !blocks_; }
  Arrangement arrangement() const { return {tiling().tile_shape(), scan_, frames_a_chunk()}; }
  const Tiling& tiling() const { return mosaic_.tiling(); }
  std::uint32_t parts() const { return static_cast<std::uint32_t>(series_.channels.size()) * mosaic_.elements(); }
  std::uint32_t part_of(std::uint32_t channel, std::uint32_t element) const {
    return channel * mosaic_.elements() + element;
  }
  Series whole_series() const;
  bool has_gaps() const { return mosaic_.grid().has_gaps(); }
  bool maps_have_room(ElementType type) const;
  Result<std::uint64_t> place_of(const Frame& frame);
  void settle_chunks(std::uint64_t cookie, Fate fate, std::uint64_t chunks, std::int64_t encoded_ns,
                     std::int64_t written_ns, std::vector<RowSlots::Settled>& settled);
  void give_up(std::uint64_t cookie, std::uint64_t chunks, Fate fate);
  void conclude(std::vector<RowSlots::Settled> settled);
  Ledger::Item item_of(const store::ChunkHead& head) const;
  bool note_part(const store::ChunkHead& head);
  store::FinalValues values_at_end(std::uint64_t frames) const;
  bool is_whole() const;
  std::uint64_t missing() const;
  void add_elements(store::FinalValues& values, std::uint64_t frames) const;
  void add_whole_maps(std::vector<store::ValueNode>& values) const;
  std::vector<std::uint64_t> unfitting() const;
  void note_received(std::int64_t realtime_ns);
  std::vector<std::pair<std::string, store::Attribute>> attributes_of_rows() const;
  void settle(std::uint64_t frames);
  void fail(const Error& why);
  void spoil(const Error& why);
  void note_failure(const Error& why, bool for_good);
  bool is_there(std::int64_t now_ns, std::int64_t interval_ns);
  void give_up(std::int64_t now_ns);
  std::string first_failure() const;
  bool is_spoiled() const;
  bool has_what_was_lost() const;
  void release_task();
  void note_encoding(std::int64_t ns);

  void placed(std::span<const store::PlacedChunk> chunks, store::RowWriter& rows) override;
  void lost(std::span<const store::PlacedChunk> chunks, const Error& why) override;
  void already_there(std::span<const store::PlacedChunk> chunks) override;
  void placed_elsewhere(std::span<const store::PlacedChunk> chunks) override;
  void tick(store::RowWriter& rows) override;
  void tell_blemishes();
  void learn_end();
  void notify_sessions();

  // Constant after creation.
  Env& env_;
  const Config config_;
  Team& team_;
  Series series_;
  const std::string path_;
  const Mosaic mosaic_;
  const ScanConfig scan_;
  std::uint64_t raw_bytes_a_part_ = 0;  ///< of one channel of one element
  std::uint64_t frames_before_ = 0;
  std::uint64_t chunk_bytes_max_ = 0;   ///< of a frame as the recorder itself encodes it; its slot has as much
  std::vector<ChannelFilter> filters_;  ///< by channel, for frames that come plain; empty: none

  // Settled by the first frame, before any task exists.
  CodecSpec codec_;
  bool filtered_ = false;  ///< frames go through filters_; codec_ has no encoding then
  std::vector<std::unique_ptr<WriterSlot>> writers_;
  std::vector<MetaColumn> columns_;
  mutable std::mutex edges_mutex_;
  EdgeValues edges_;  // guarded by edges_mutex_; of the frames that came here, and at the end elsewhere
  std::unique_ptr<store::Store> store_;
  std::uint64_t file_ = 0;  ///< the store's number in the team, while entered_
  std::uint64_t file_base_ = 0;
  bool entered_ = false;
  mutable std::mutex first_mutex_;
  // guarded by first_mutex_
  bool first_seen_ = false;     ///< nothing more is tried, unless …
  bool may_fit_again_ = false;  ///< … the storage had no room for the file
  std::int64_t fit_tried_ns_ = 0;
  std::string series_date_;
  std::atomic<bool> fitted_{false};

  // Synchronise themselves.
  std::unique_ptr<Blocks> blocks_;  ///< where a chunk has several frames
  Ledger ledger_;
  RowSlots slots_;
  Meter meter_;
  ScanPlaces places_;
  std::atomic<std::uint64_t> raw_bytes_{0};
  std::atomic<std::int64_t> encode_ns_{0};
  std::atomic<std::uint64_t> unfiltered_{0};
  std::atomic<std::int64_t> unfiltered_told_ns_{0};  ///< when the log last heard of them, monotonic; 0: never
  LogRateLimiter damaged_limiter_;
  LogRateLimiter taken_limiter_;
  std::atomic<std::int64_t> elsewhere_write_ns_{0};  ///< of the other ranks, once they have closed
  std::atomic<std::int64_t> elsewhere_sync_ns_{0};
  std::atomic<std::int64_t> last_activity_ns_{0};
  std::atomic<std::int64_t> last_received_ns_{0};  ///< realtime, of the last frame that was taken; 0: none was
  std::atomic<std::int64_t> asked_again_ns_{0};
  std::atomic<std::int64_t> ask_again_interval_ns_{0};
  std::atomic<std::int64_t> failing_since_ns_{0};  ///< nothing was placed since, monotonic; 0: nothing has failed
  std::atomic<std::int64_t> looked_at_name_ns_{0};
  std::atomic<bool> removed_{false};        ///< or replaced: nothing is acknowledged any more
  std::atomic<bool> moved_{false};          ///< somebody moved the file, which was told
  std::atomic<bool> hopeless_{false};       ///< what the storage did not take is not waited for
  std::atomic<std::int64_t> ending_ns_{0};  // when the end message came, monotonic; 0: not yet
  std::atomic<std::int64_t> patience_ns_{0};
  std::atomic<bool> all_ended_{false};
  std::atomic<bool> settled_{false};  ///< the lead's: nothing of the ledger changes any more
  std::atomic<EndedBy> ended_by_{EndedBy::stop};
  std::atomic<bool> waits_{true};

  // The indexer's thread only, and whoever comes after it.
  std::unique_ptr<RowBatch> batch_;
  std::vector<FrameNumber> whole_elsewhere_;  ///< whose state is still to be written
  PartialFrames partial_;                     ///< the lead's, in a team
  std::vector<Error> partial_frames_;         ///< set by close()

  mutable std::mutex mutex_;
  std::condition_variable idle_;
  // guarded by mutex_
  std::vector<Session> sessions_;
  std::map<std::uint32_t, ElementMaps> begun_elements_;
  bool closing_ = false;
  std::uint64_t tasks_ = 0;      ///< frames inside admit(), in the recorder's queue or inside encode()
  std::uint64_t unsettled_ = 0;  ///< admitted frames that are neither placed nor lost
  std::string problem_;          ///< the first failure, or the first for good
  bool spoiled_ = false;         ///< by a failure that nothing heals which may come
  Error last_failure_{Errc::io, ""};
  Histogram latency_;
  std::uint64_t images_written_ = 0;  ///< parts of frames
  std::uint64_t stored_bytes_ = 0;
  std::vector<std::uint64_t> unfitting_elsewhere_;  ///< by column, of the other ranks
};

}  // namespace penstock::recorder
