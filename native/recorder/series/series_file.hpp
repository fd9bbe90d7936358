/// One series on its way into one file: the parts that do it, in the order of a frame's way.
///
/// Admission checks a frame and enters it into the frame accounting; the Assembler gathers frames where a chunk has
/// several; the ChunkEncoder encodes them into the store's segments; the Settlement, which listens to the store, writes
/// rows and acknowledges. StoreOpener makes the file, FileWatch looks after it, SeriesTree has what is in it. When the
/// series is over, native/series decides. This class owns them, and closes the series.
///
/// Threads: admit() on the sources', encode() on the recorder's workers, tend() on the file's own; close() is
/// called once, after which no frame is admitted. Everything else may be called from any thread. Times are monotonic
/// nanoseconds. With several ranks the coordinator creates the file and keeps its frame accounting; another rank joins
/// it with its first frame. This class is one rank's part either way.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time/ticker.hpp"
#include "recorder/series/admission.hpp"
#include "recorder/series/chunks/assembler.hpp"
#include "recorder/series/chunks/chunk_encoder.hpp"
#include "recorder/series/chunks/task.hpp"
#include "recorder/series/file_watch.hpp"
#include "recorder/series/opening/store_opener.hpp"
#include "recorder/series/series_stats.hpp"
#include "recorder/series/settlement.hpp"
#include "recorder/tree/element_starts.hpp"
#include "recorder/tree/series_tree.hpp"
#include "series/ended_by.hpp"
#include "series/ending.hpp"

namespace penstock::recorder {

class SeriesFile final {
 public:
  /// Creates the file. `env` and `team` outlive it.
  static Result<std::shared_ptr<SeriesFile>> create(Env& env, const Config& config, Team& team, Series series,
                                                    std::string path);
  /// The coordinator's: continues in the series' file where a recorder has left one, and creates it where there is none
  /// (docs/explanation/decisions/0017-a-series-goes-on-in-its-file.md).
  static Result<std::shared_ptr<SeriesFile>> resume(Env& env, const Config& config, Team& team, Series series,
                                                    std::string path);
  /// The coordinator's: the file could not be made, for a reason that may pass; one of the frames makes it once it has.
  static Result<std::shared_ptr<SeriesFile>> without_file(Env& env, const Config& config, Team& team, Series series,
                                                          std::string path, const Error& why);
  /// Another rank's: the coordinator has created the file.
  static Result<std::shared_ptr<SeriesFile>> join(Env& env, const Config& config, Team& team, Series series,
                                                  std::string path);
  ~SeriesFile();

  const SeriesSpec& spec() const { return spec_; }
  const Series& series() const { return spec_.series(); }
  const std::string& path() const { return spec_.path(); }
  ElementStarts& element_starts() { return element_starts_; }
  const Assembler& assembler() const { return assembler_; }

  /// The coordinator's: what the file is made for, by this frame's encoding and metadata if it is the first one.
  Result<Terms> terms(Encoding encoding, const std::vector<MetaColumn>& columns) {
    return opener_.terms(encoding, columns);
  }
  /// The coordinator's: a frame that another rank could not place.
  void unplaced_elsewhere(FrameNumber number, FrameState state) { account_.ledger.unplaced_elsewhere(number, state); }
  /// What this rank did, for the coordinator's final counts, after close() …
  nlohmann::json part() const;
  /// … which the coordinator adds before its close().
  void add_part(const nlohmann::json& part);

  /// Admission::admit().
  Result<std::optional<Task>> admit(Frame frame, ValuesRoom room = {}) {
    return admission_.admit(std::move(frame), std::move(room));
  }
  /// Whether the frame came before.
  bool has(const Frame& frame) const { return admission_.has(frame); }
  void drop(FrameNumber number) { admission_.drop(number); }
  void damage(FrameNumber number, std::optional<std::uint32_t> element) { admission_.damage(number, element); }
  /// Encodes an admitted frame with worker `worker` and releases it.
  void encode(Task task, unsigned worker, ChunkScratch& scratch);
  /// Sends the worker's segment on its way if it is large enough to be worth a write of its own.
  void flush_if_worthwhile(unsigned worker) { encoder_.flush_if_worthwhile(worker); }
  /// Writes chunks that lack frames as they are, from any thread; before there is a file, there are none. Returns how
  /// many.
  std::size_t write_what_gathers() { return store_.is_ready() ? assembler_.write_what_gathers() : 0; }
  /// Few frames will come, if any: from now on, what has come waits for no more.
  void hurry() { care_.hurries = true; }
  /// Each moment: sends segments on their way whose first chunk has waited for `age_max_ns` (all of them, and has them
  /// synced, once every announced frame is there, or after hurry()), and asks senders again for what the storage did
  /// not take.
  void tend(std::int64_t now_ns, std::int64_t age_max_ns);
  /// Frames wait no longer for other clients', nor for a file to appear.
  void stop_waiting() { account_.may_wait = false; }

  /// A session wants to hear of this series, or will send frames of it.
  void attach(Session session) { settlement_.sessions().attach(std::move(session)); }
  void expect(const Session& session) {
    account_.ledger.expect(session);
    settlement_.sessions().expect(session);
  }
  std::vector<Session> sessions() const { return settlement_.sessions().all(); }

  /// What decides when the series is over.
  series::Facts facts() const;
  /// The coordinator's: another rank has frames on their way.
  void note_activity(std::int64_t now_ns) { account_.counters.last_activity_ns = now_ns; }
  /// Frames that came in no form: those that are damaged, dropped or lost are not among them.
  std::uint64_t never_came() const {
    return account_.ledger.never_came(std::max(series().frames, account_.ledger.end()));
  }

  /// Waits for admitted frames, writes what is known at the end, and closes the file.
  Result<void> close(series::EndedBy why);
  /// After close(): an error for each part that frames lack whose other parts are there.
  const std::vector<Error>& partial() const { return settlement_.partial(); }
  /// The first failure of the storage, empty if there was none. After the coordinator's close(): what is wrong with the
  /// file. Frames that a full storage did not take are not a problem once they were sent again.
  std::string problem() const;
  /// After the coordinator's close(): the lowest number of a frame that the file does not vouch for.
  FrameNumber safe_below() const { return FrameNumber{problem().empty() ? account_.ledger.safe_below() : 0}; }
  /// Why the storage takes nothing at the moment ("storage full: waiting for space"); empty while it writes.
  std::string holdup() const;
  /// The file's name was removed or given to another file while it was written: what it had is gone.
  bool was_removed() const { return watch_.is_file_removed(); }

  SeriesStats stats() const { return stats_of(spec_, account_, store_); }
  Meters meters() const { return meters_of(spec_, account_, store_); }

 private:
  SeriesFile(Env& env, Team& team, std::unique_ptr<FileRole> role, SeriesSpec spec, std::unique_ptr<Blocks> blocks,
             std::vector<ChannelFilter> filters);
  static Result<std::shared_ptr<SeriesFile>> make(Env& env, const Config& config, Team& team, Series series,
                                                  std::string path);

  /// Where a storage does not answer, no other file waits for it, and nothing waits for a look at this file.
  struct Care {
    std::atomic<bool> hurries{false};
    Ticker tends;  ///< tend()
    Ticker looks;  ///< whether the series can still be recorded
  };

  // In the order in which they are built upon: each refers to those above it.
  const std::unique_ptr<FileRole> role_;
  const SeriesSpec spec_;
  const std::unique_ptr<Blocks> blocks_;  ///< null where a chunk has one frame
  SeriesAccount account_;
  ElementStarts element_starts_;
  ChunkCoding coding_;
  SeriesTree tree_;
  SharedStore store_;
  FileWatch watch_;
  Settlement settlement_;
  ChunkEncoder encoder_;
  Assembler assembler_;
  StoreOpener opener_;
  Admission admission_;
  Care care_;
};

}  // namespace penstock::recorder
