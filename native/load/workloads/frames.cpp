/// Frames in open loop: due on an absolute schedule, held in a finite buffer, written by a few threads, or dropped.

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/time/clock.hpp"
#include "base/time/pacing.hpp"
#include "load/backends/finite_buffer.hpp"
#include "load/crew.hpp"
#include "load/document.hpp"
#include "load/gaps.hpp"
#include "load/machine.hpp"
#include "load/made/recorded_files.hpp"
#include "load/time_series.hpp"
#include "load/workloads/content.hpp"
#include "load/workloads/image.hpp"
#include "load/workloads/ring.hpp"
#include "load/workloads/workload.hpp"

namespace penstock::load {
namespace {

/// Of a file that is not complete; python/penstock/bench/data/folder.py knows it.
constexpr const char* unfinished_suffix = ".partial";
/// Up to here a pacer sleeps most of the time: it spins before each frame.
constexpr double sleeping_rate_max_hz = 0.1e9 / static_cast<double>(Pacer::spin_ns);

/// The calling thread runs as soon as it wakes up, whatever else would run. Only where this user may ask for that.
bool go_first() {
  const sched_param lowest_of_them{1};
  return pthread_setschedparam(pthread_self(), SCHED_FIFO, &lowest_of_them) == 0;
}

/// A frame's times since the start, in nanoseconds. Each is set by one thread; others may look at any time.
struct FrameRecord {
  static constexpr std::int64_t not_yet = -1;
  static constexpr std::int64_t was_dropped = -2;
  static constexpr std::int64_t has_failed = -3;
  std::atomic<std::int64_t> offered_ns{not_yet};
  std::atomic<std::int64_t> start_ns{not_yet};
  std::atomic<std::int64_t> done_ns{not_yet};
  std::atomic<std::int64_t> waited_ns{not_yet};  ///< for a processor, while it was written; −1: not known
};

/// Of a rank of several: frames are dealt in turn, so each has the others' rate and its part of the buffer.
FramesPlan share_of(const FramesPlan& all, const Team& team) {
  auto share = all;
  share.frames = (all.frames + team.ranks() - 1 - team.rank()) / team.ranks();
  share.rate_hz = all.rate_hz / team.ranks();
  share.buffer_frames = (all.buffer_frames + team.ranks() - 1) / team.ranks();
  return share;
}

struct Tally {
  explicit Tally(const TimeSeries& empty) : series(empty) {}

  std::uint64_t written = 0;
  std::uint64_t failed = 0;
  std::uint64_t late = 0;
  std::int64_t first_done_ns = -1;
  std::int64_t last_done_ns = -1;
  std::int64_t completed_ns = -1;  ///< its last file is synced and closed
  std::int64_t waited_for_processor_ns = -1;
  std::int64_t ran_in_writes_ns = 0;     ///< on a processor, while frames were written
  std::int64_t waited_in_writes_ns = 0;  ///< for a processor, while frames were written; −1: not known
  Times latency;                         ///< from when a frame was due until it was done
  Times wait;                            ///< from when it was offered until its write began
  Times service;                         ///< of the write alone
  TimeSeries series;
  Problem problem;
};

/// One thread that writes. Its tally is looked at while it works, or hangs.
struct Writer {
  Writer(Memory its_memory, const TimeSeries& empty) : memory(std::move(its_memory)), tally(empty) {}

  Memory memory;
  MutableBytes next;                 ///< what it writes next, in its memory
  std::unique_ptr<StoredFile> file;  ///< with a file a writer
  std::string path;                  ///< of the file that it creates, writes or renames
  std::uint64_t frames_in_file = 0;
  std::uint64_t files_done = 0;
  std::mutex mutex;
  Tally tally;  // guarded by mutex
};

/// What the thread that paces found out; nobody looks before it has ended.
struct Pacing {
  explicit Pacing(const TimeSeries& empty) : series(empty) {}

  std::uint64_t due = 0;
  std::uint64_t dropped = 0;
  Times jitter;  ///< from when a frame was due until the generator got to it
  std::int64_t waited_for_processor_ns = -1;
  bool goes_first = false;  ///< it runs before the threads of all others
  TimeSeries series;
};

/// Threads that hang keep it alive.
class FramesRun : public std::enable_shared_from_this<FramesRun> {
 public:
  FramesRun(const LoadPlan& plan, std::shared_ptr<Backend> backend, const RunContext& context)
      : plan_(plan),
        rank_(context.team.rank()),
        ranks_(context.team.ranks()),
        frames_(share_of(std::get<FramesPlan>(plan.workload), context.team)),
        backend_(std::move(backend), context.made),
        stored_bytes_(align_up(frames_.frame_bytes, backend_->alignment())),
        content_(plan, stored_bytes_, std::get<FramesPlan>(plan.workload).frames),
        no_series_(static_cast<std::int64_t>(plan.interval_s * 1e9), intervals_max),
        buffer_(frames_.buffer_frames),
        pacing_(no_series_),
        told_to_stop_(&context.stop) {}

  Result<Measured> run(const RunContext& context) {
    PEN_TRY(prepare(context.stop));
    pacer_.emplace(frames_.rate_hz, monotonic_pace_clock());
    PEN_TRY(pauses_.watch.start());
    PEN_TRY(start_writers());
    auto problem = begin(context.team);
    const auto paces = pacer_crew_.start("pen-load-pace", Role::other, [self = shared_from_this()] { self->pace(); });
    if (!paces.ok()) problem = paces.error();
    while (!pacer_crew_.wait_until(monotonic_ns() + tick_ns)) look(context);
    pacer_crew_.dismiss();
    buffer_.close();
    const auto deadline_ns = monotonic_ns() + static_cast<std::int64_t>(plan_.drain_timeout_s * 1e9);
    auto give_up_ns = deadline_ns;
    while (!writer_crew_.wait_until(std::min(give_up_ns, monotonic_ns() + tick_ns)) && monotonic_ns() < give_up_ns) {
      look(context);
      if (context.stop && give_up_ns == deadline_ns)
        give_up_ns = std::min(deadline_ns, monotonic_ns() + patience_after_stop_ns);
    }
    pauses_.found = pauses_.watch.end();
    if (ring_) ring_->close();
    const auto behind = writer_crew_.dismiss();
    auto found = measured(behind);
    if (found.problem.empty()) found.problem = std::move(problem);
    return found;
  }

 private:
  /// Sets the start, which all ranks have in common; why there is none, and nothing becomes due then.
  Problem begin(Team& team) {
    const auto meeting = team.meet(nullptr);
    if (!meeting.ok()) gave_up_ = true;
    start_ns_ = meeting.ok() ? meeting->start_ns : monotonic_ns();
    // The frames of the ranks before this one are due in between.
    const auto period_s = has_rate() ? 1 / (frames_.rate_hz * ranks_) : 0;
    first_due_ns_ = static_cast<std::int64_t>(period_s * rank_ * 1e9);
    pacer_->start_at(start_ns_ + first_due_ns_);
    backend_->start(start_ns_);
    pauses_.watch.begin();
    return meeting.ok() || meeting.error().code() == Errc::cancelled ? Problem() : Problem(meeting.error());
  }
  /// Its number among the frames of all ranks.
  std::uint64_t of_all(std::uint64_t number) const { return number * ranks_ + rank_; }

  std::int64_t now_ns() const { return monotonic_ns() - start_ns_; }
  bool has_rate() const { return frames_.rate_hz > 0; }
  bool ends() const { return *told_to_stop_ || gave_up_; }

  Result<void> start_writers() {
    for (auto& writer : writers_) {
      auto started = writer_crew_.start("pen-load-write", Role::write,
                                        [self = shared_from_this(), &writer] { self->write(*writer); });
      if (started.ok()) continue;
      buffer_.close();  // those that are there end
      return started;
    }
    return {};
  }

  /// Everything that takes memory or makes files before the clock starts.
  Result<void> prepare(const std::atomic<bool>& stop) {
    PEN_TRY(check_memory(memory_bytes(plan_, ranks_)));
    if (frames_.image) {
      PEN_ASSIGN(image_, Image::open(*frames_.image, frames_.frame_bytes, stored_bytes_));
    }
    if (!has_whole_images()) PEN_TRY(content_.open());
    if (frames_.rename) {
      PEN_TRY(
          ask_storage("open the folder", plan_.drain_timeout_s, stop, [self = shared_from_this()]() -> Result<void> {
            PEN_ASSIGN(self->names_, self->backend_->names());
            return {};
          }));
    }
    if (frames_.ring_frames > 0) {
      PEN_TRY(
          ask_storage("open the folder", plan_.drain_timeout_s, stop, [self = shared_from_this()]() -> Result<void> {
            PEN_ASSIGN(auto names, self->backend_->names());
            self->ring_ =
                std::make_shared<Ring>(self->plan_, self->files_kept(), std::move(names), self->backend_.made());
            return {};
          }));
      PEN_TRY(ring_->start());
    }
    if (frames_.record) records_ = std::vector<FrameRecord>(frames_.frames);
    for (unsigned i = 0; i < frames_.writers; ++i) {
      PEN_ASSIGN(auto memory, memory_of_writer());
      writers_.push_back(std::make_unique<Writer>(std::move(memory), no_series_));
      if (frames_.layout != Layout::file_a_writer) continue;
      writers_.back()->path = file_name(plan_, first_writer() + i);
      const auto make = [self = shared_from_this(), writer = writers_.back().get(),
                         number = first_writer() + i]() -> Result<void> {
        PEN_ASSIGN(writer->file, self->create(number));
        return {};
      };
      PEN_TRY(ask_storage("make " + writers_.back()->path, plan_.drain_timeout_s, stop, make));
    }
    return {};
  }

  bool has_whole_images() const { return image_ && image_->is_whole(); }

  /// With what all that it writes has in common.
  Result<Memory> memory_of_writer() const {
    if (has_whole_images()) return Memory::allocate(0);
    PEN_ASSIGN(auto memory, Memory::allocate(image_ ? stored_bytes_ : content_.ground_bytes()));
    if (image_)
      image_->lay(content_, memory.bytes());
    else
      content_.lay(memory.bytes().first(content_.ground_bytes()));
    return Result<Memory>(std::move(memory));
  }

  void pace() {
    // The kernel lets a thread oversleep by 50 µs unless told otherwise: more than a wake-up takes.
    (void)::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    pacing_.goes_first = has_rate() && frames_.rate_hz <= sleeping_rate_max_hz && go_first();
    for (std::uint64_t number = 0; number < frames_.frames; ++number) {
      if (!has_rate()) {
        while (!ends() && !buffer_.wait_for_room(std::chrono::nanoseconds(tick_ns))) continue;
        if (frames_.seconds_max > 0 && seconds_of(now_ns()) >= frames_.seconds_max) break;
      }
      if (!pacer_->wait_for(number, [this] { return ends(); })) break;
      offer(number);
    }
    pacing_.waited_for_processor_ns = waited_for_processor_ns();
  }

  void offer(std::uint64_t number) {
    const auto offered_ns = now_ns();
    const auto due_ns = has_rate() ? pacer_->due_ns(number) - start_ns_ : offered_ns;
    ++pacing_.due;
    pacing_.jitter.add(offered_ns - due_ns);
    if (frames_.record) records_[number].offered_ns = offered_ns;
    const auto held = buffer_.admit({number, due_ns, offered_ns});
    auto& interval = pacing_.series.at(due_ns);
    ++interval.due;
    interval.held_max = std::max(interval.held_max, held);
    if (held > 0) return;
    ++pacing_.dropped;
    ++interval.dropped;
    if (frames_.record) records_[number].done_ns = FrameRecord::was_dropped;
  }

  void write(Writer& writer) {
    const ThreadClock clock;
    while (const auto frame = buffer_.take()) {
      writer.next = bytes_of(writer, *frame);
      const auto before = clock.read();
      const auto begin_ns = now_ns();
      if (frames_.record) records_[frame->number].start_ns = begin_ns;
      auto written = write_one(writer, *frame);
      if (ring_ && written.ok() && !has_own_file()) written = ring_->add(of_all(frame->number));
      const auto done_ns = now_ns();
      const auto after = clock.read();
      buffer_.release(done_ns);
      if (frames_.record) {
        records_[frame->number].done_ns = written.ok() ? done_ns : FrameRecord::has_failed;
        if (after.is_known()) records_[frame->number].waited_ns = after.waited_ns - before.waited_ns;
      }
      book(writer, *frame, begin_ns, done_ns, written);
      book_thread(writer, before, after);
    }
    const auto completed = complete(writer);
    std::lock_guard lock(writer.mutex);
    note_problem(writer, completed);
    writer.tally.completed_ns = now_ns();
    writer.tally.waited_for_processor_ns = waited_for_processor_ns();
  }

  MutableBytes bytes_of(const Writer& writer, const DueFrame& frame) const {
    if (has_whole_images()) return image_->whole(of_all(frame.number));
    if (!image_) return content_.block(writer.memory.bytes(), file_of(writer, frame), place_in_file(writer));
    const auto block = writer.memory.bytes().first(stored_bytes_);
    image_->stamp(content_, block, of_all(frame.number));
    return block;
  }

  /// With a ring, a writer has two files: the one that it writes, and the one before.
  std::uint64_t frames_a_file() const {
    return std::max<std::uint64_t>(1, frames_.ring_frames / (std::uint64_t{2} * frames_.writers * ranks_));
  }
  /// Files of this rank that stay.
  std::uint64_t files_kept() const {
    if (has_own_file()) return frames_.writers;
    return std::max<std::uint64_t>(1, frames_.ring_frames / ranks_);
  }
  /// A writer's file is full: the next one.
  Result<void> change_file(Writer& writer, const DueFrame& frame) {
    PEN_TRY(complete(writer));
    const auto completed = file_of(writer, frame);
    ++writer.files_done;
    writer.frames_in_file = 0;
    writer.path = file_name(plan_, file_of(writer, frame));
    PEN_ASSIGN(writer.file, create(file_of(writer, frame)));
    return ring_->add(completed);
  }
  Result<std::unique_ptr<StoredFile>> create(std::uint64_t number, Made::Name kind = Made::Name::complete) const {
    const auto* ending = kind == Made::Name::partial ? unfinished_suffix : "";
    return backend_.create(file_name(plan_, number) + ending, number, kind);
  }

  /// Of all ranks' writers.
  std::uint64_t first_writer() const { return std::uint64_t{rank_} * frames_.writers; }
  bool has_own_file() const { return frames_.layout == Layout::file_a_writer; }
  std::uint64_t place_in_file(const Writer& writer) const {
    return has_own_file() ? writer.frames_in_file * stored_bytes_ : 0;
  }
  std::uint64_t file_of(const Writer& writer, const DueFrame& frame) const {
    if (!has_own_file()) return of_all(frame.number);
    const auto is_it = [&writer](const auto& other) { return other.get() == &writer; };
    return writer.files_done * ranks_ * frames_.writers + first_writer() +
           static_cast<std::uint64_t>(std::find_if(writers_.begin(), writers_.end(), is_it) - writers_.begin());
  }

  Result<void> write_one(Writer& writer, const DueFrame& frame) {
    if (!has_own_file()) {
      const auto number = of_all(frame.number);
      const auto name = file_name(plan_, number);
      const auto unfinished = names_ ? name + unfinished_suffix : std::string();
      writer.path = names_ ? unfinished : name;
      PEN_TRY(write_file(writer, number, names_ ? Made::Name::partial : Made::Name::complete));
      writer.path = name;
      return names_ ? backend_.rename(*names_, number, unfinished, name) : Result<void>();
    }
    if (ring_ && writer.frames_in_file == frames_a_file()) PEN_TRY(change_file(writer, frame));
    PEN_TRY(writer.file->write(writer.next, place_in_file(writer)));
    ++writer.frames_in_file;
    return backend_->sync() == Sync::each ? writer.file->sync() : Result<void>();
  }

  Result<void> write_file(const Writer& writer, std::uint64_t number, Made::Name kind) const {
    PEN_ASSIGN(const auto file, create(number, kind));
    PEN_TRY(file->write(writer.next, 0));
    if (backend_->sync() != Sync::none) PEN_TRY(file->sync());
    return file->close();
  }

  Result<void> complete(Writer& writer) const {
    if (!has_own_file()) return {};
    if (backend_->sync() != Sync::none) PEN_TRY(writer.file->sync());
    return writer.file->close();
  }

  /// What fails once fails again (a full disk, a storage that has gone): nothing new becomes due.
  void note_problem(Writer& writer, const Result<void>& result) {
    if (result.ok()) return;
    if (writer.tally.problem.empty()) writer.tally.problem = Problem(result.error(), writer.path);
    gave_up_ = true;
  }

  void book(Writer& writer, const DueFrame& frame, std::int64_t begin_ns, std::int64_t done_ns,
            const Result<void>& written) {
    std::lock_guard lock(writer.mutex);
    auto& tally = writer.tally;
    note_problem(writer, written);
    if (!written.ok()) {
      ++tally.failed;
      return;
    }
    const auto latency_ns = done_ns - frame.due_ns;
    const bool late = has_rate() && latency_ns > frames_.late_after_ns;
    ++tally.written;
    if (late) ++tally.late;
    if (tally.first_done_ns < 0) tally.first_done_ns = done_ns;
    tally.last_done_ns = done_ns;
    tally.latency.add(latency_ns);
    tally.wait.add(begin_ns - frame.offered_ns);
    tally.service.add(done_ns - begin_ns);
    auto& interval = tally.series.at(done_ns);
    ++interval.done;
    if (late) ++interval.late;
    interval.bytes += frames_.frame_bytes;
    interval.time_max_ns = std::max(interval.time_max_ns, latency_ns);
  }

  void book_thread(Writer& writer, const ThreadClock::Reading& before, const ThreadClock::Reading& after) {
    std::lock_guard lock(writer.mutex);
    auto& tally = writer.tally;
    if (!after.is_known() || tally.waited_in_writes_ns < 0) {
      tally.waited_in_writes_ns = -1;
      return;
    }
    tally.ran_in_writes_ns += after.ran_ns - before.ran_ns;
    tally.waited_in_writes_ns += after.waited_ns - before.waited_ns;
  }

  /// Progress, and whether storage hangs that a run without a rate would wait for without end.
  void look(const RunContext& context) {
    std::uint64_t written = 0;
    std::int64_t last_done_ns = 0;
    for (auto& writer : writers_) {
      std::lock_guard lock(writer->mutex);
      written += writer->tally.written;
      last_done_ns = std::max(last_done_ns, writer->tally.last_done_ns);
    }
    const auto now = now_ns();
    const auto held = buffer_.levels(now).held;
    if (!has_rate() && held > 0 && seconds_of(now - last_done_ns) > plan_.drain_timeout_s) gave_up_ = true;
    context.emit("progress", {{"phase", "frames"},
                              {"done", written},
                              {"total", frames_.frames},
                              {"held", held},
                              {"seconds", seconds_of(now)}});
  }

  Measured measured(unsigned behind) {
    Tally all(pacing_.series);
    auto each = Json::array();
    for (auto& writer : writers_) {
      std::lock_guard lock(writer->mutex);
      add(writer->tally, all);
      each.push_back(of_one(writer->tally));
    }
    const auto levels = buffer_.levels(now_ns());
    const auto unfinished = pacing_.due - pacing_.dropped - all.written - all.failed;
    if (all.problem.empty() && behind > 0)
      all.problem = *told_to_stop_
                        ? make_error(Errc::timed_out, "{} frames were not written when the run was ended", unfinished)
                        : make_error(Errc::timed_out, "{} frames were not written {} s after the last one was due",
                                     unfinished, plan_.drain_timeout_s);
    Json fields = {{"frames", counts(all, unfinished)},
                   {"seconds", times(all)},
                   {"buffer",
                    {{"held_max", levels.held_max},
                     {"stall_s", seconds_of(levels.stall_ns)},
                     {"stall_end_s", seconds_of(levels.stall_end_ns)}}},
                   {"times",
                    {{"latency", to_json(all.latency)},
                     {"wait", to_json(all.wait)},
                     {"service", to_json(all.service)},
                     {"jitter", to_json(pacing_.jitter)}}},
                   {"generator",
                    {{"start_ns", start_ns_},
                     {"pacer_goes_first", pacing_.goes_first},
                     {"pacer_waited_ns", pacing_.waited_for_processor_ns},
                     {"gaps", to_json(pauses_.found)},
                     {"stood_still_ns", stood_still()},
                     {"writers", std::move(each)}}},
                   {"series", all.series.to_json()},
                   {"records", records_json()}};
    return {std::move(fields), all.problem, behind > 0};
  }

  /// Begin and end of each gap, since the start.
  Json stood_still() const {
    auto all = Json::array();
    for (const auto& gap : pauses_.found.listed) all.push_back({gap.begin_ns - start_ns_, gap.end_ns - start_ns_});
    return all;
  }

  static void add(const Tally& one, Tally& all) {
    all.written += one.written;
    all.failed += one.failed;
    all.late += one.late;
    if (one.first_done_ns >= 0 && (all.first_done_ns < 0 || one.first_done_ns < all.first_done_ns))
      all.first_done_ns = one.first_done_ns;
    all.last_done_ns = std::max(all.last_done_ns, one.last_done_ns);
    all.completed_ns = std::max(all.completed_ns, one.completed_ns);
    all.latency.add(one.latency);
    all.wait.add(one.wait);
    all.service.add(one.service);
    all.series.add(one.series);
    if (all.problem.empty()) all.problem = one.problem;
  }

  static Json of_one(const Tally& tally) {
    return {{"written", tally.written},
            {"first_done_s", seconds_or_null(tally.first_done_ns)},
            {"last_done_s", seconds_or_null(tally.last_done_ns)},
            {"waited_ns", tally.waited_for_processor_ns},
            {"ran_in_writes_ns", tally.ran_in_writes_ns},
            {"waited_in_writes_ns", tally.waited_in_writes_ns}};
  }

  static Json seconds_or_null(std::int64_t time_ns) { return time_ns < 0 ? Json() : Json(seconds_of(time_ns)); }

  Json counts(const Tally& all, std::uint64_t unfinished) const {
    return {{"planned", frames_.frames},
            {"due", pacing_.due},
            {"written", all.written},
            {"dropped", pacing_.dropped},
            {"late", all.late},
            {"failed", all.failed},
            {"unfinished", unfinished},
            {"bytes", all.written * frames_.frame_bytes},
            {"stored_bytes_each", stored_bytes_}};
  }

  Json times(const Tally& all) const {
    const double due_s = has_rate() && pacing_.due > 0
                             ? seconds_of(first_due_ns_) + static_cast<double>(pacing_.due - 1) / frames_.rate_hz
                             : 0;
    return {{"last_due", due_s},
            {"first_done", seconds_or_null(all.first_done_ns)},
            {"last_done", seconds_or_null(all.last_done_ns)},
            {"completed", seconds_or_null(all.completed_ns)}};
  }

  Json records_json() const {
    if (!frames_.record) return nullptr;
    auto offered = Json::array(), start = Json::array(), done = Json::array(), waited = Json::array();
    for (std::uint64_t i = 0; i < pacing_.due; ++i) {
      offered.push_back(records_[i].offered_ns.load());
      start.push_back(records_[i].start_ns.load());
      done.push_back(records_[i].done_ns.load());
      waited.push_back(records_[i].waited_ns.load());
    }
    return {{"offered_ns", std::move(offered)},
            {"start_ns", std::move(start)},
            {"done_ns", std::move(done)},
            {"waited_ns", std::move(waited)}};
  }

  const LoadPlan plan_;
  const unsigned rank_;
  const unsigned ranks_;
  const FramesPlan frames_;  ///< of this rank
  const RecordedFiles backend_;
  const std::uint64_t stored_bytes_;
  Content content_;
  const TimeSeries no_series_;
  std::optional<Image> image_;
  std::unique_ptr<Names> names_;  ///< where files are renamed
  std::shared_ptr<Ring> ring_;    ///< null: all files stay
  std::optional<Pacer> pacer_;
  std::int64_t start_ns_ = 0;      ///< the first frame of all is due
  std::int64_t first_due_ns_ = 0;  ///< the first of this rank, since then
  std::vector<std::unique_ptr<Writer>> writers_;

  FiniteBuffer buffer_;
  std::vector<FrameRecord> records_;
  std::atomic<bool> gave_up_{false};

  Pacing pacing_;
  const std::atomic<bool>* told_to_stop_;  ///< for the pacing thread alone, which ends before whoever gave it
  struct {
    GapWatch watch;
    Gaps found;  ///< of the thread that calls run()
  } pauses_;
  Crew writer_crew_;
  Crew pacer_crew_;
};

}  // namespace

Result<Measured> run_frames(const LoadPlan& plan, std::shared_ptr<Backend> backend, const RunContext& context) {
  return std::make_shared<FramesRun>(plan, std::move(backend), context)->run(context);
}

}  // namespace penstock::load
