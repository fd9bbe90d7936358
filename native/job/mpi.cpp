/// A job over MPI; compiled once for each implementation of it.
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <future>
#include <limits>
#include <mutex>
#include <thread>

#include "base/threads.hpp"
#include "base/time/clock.hpp"
#include "job/job.hpp"

namespace penstock::job {
namespace {

constexpr int tag = 1;
constexpr int clock_tag = 2;
/// Of these the quickest one counts: the others met a busy processor or network.
constexpr int clock_rounds = 200;
/// How long the thread sleeps when nothing happens: an upper bound for the way of a message, and few enough
/// looks a second that the codecs do not feel them.
constexpr auto nap_min = std::chrono::microseconds(50);
constexpr auto nap_max = std::chrono::microseconds(1000);
constexpr std::size_t message_bytes_max = std::numeric_limits<int>::max();

Result<void> check(int code, const char* what) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return make_error(Errc::io, "MPI cannot {}: {}", what, std::string_view(text, static_cast<std::size_t>(length)));
}

/// Between hosts that only TCP joins, Open MPI 4.1 prefers a component for one-sided calls that then cannot make a
/// window. The others can; what a user has set stays.
void choose_components() {
#ifdef OPEN_MPI
  ::setenv("OMPI_MCA_osc", "^rdma", 0);
#endif
}

/// The job's calls of MPI come from one thread after start(), and from the program's before it and in stop().
/// A rank that dies takes the job with it (MPI_ERRORS_ARE_FATAL): there is no rank to wait for in vain.
class MpiJob final : public Job {
 public:
  Result<void> join(int& argc, char**& argv, Calls calls) {
    choose_components();
    const int needed = calls == Calls::of_any_thread ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED;
    int provided = 0;
    PEN_TRY(check(MPI_Init_thread(&argc, &argv, needed, &provided), "start"));
    if (provided < needed)
      return make_error(Errc::unsupported, "this MPI allows calls from one thread {}only",
                        provided < MPI_THREAD_SERIALIZED ? "" : "at a time ");
    PEN_TRY(check(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "make a communicator"));
    int rank = 0, ranks = 0;
    PEN_TRY(check(MPI_Comm_rank(world_, &rank), "get the rank"));
    PEN_TRY(check(MPI_Comm_size(world_, &ranks), "get the number of ranks"));
    rank_ = static_cast<unsigned>(rank);
    ranks_ = static_cast<unsigned>(ranks);
    const MPI_Aint bytes = rank_ == lead ? static_cast<MPI_Aint>(counters * sizeof(std::uint64_t)) : 0;
    PEN_TRY(check(MPI_Win_allocate(bytes, sizeof(std::uint64_t), MPI_INFO_NULL, world_, &values_, &window_),
                  "make the shared counters"));
    PEN_TRY(check(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_), "open the shared counters"));
    if (rank_ == lead) std::fill_n(values_, counters, 0);
    PEN_TRY(check(MPI_Win_sync(window_), "set the shared counters"));
    return check(MPI_Barrier(world_), "meet the other ranks");
  }

  unsigned rank() const override { return rank_; }
  unsigned ranks() const override { return ranks_; }

  std::string library() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(text, &length);
    const std::string_view all(text, static_cast<std::size_t>(length));
    std::string line(all.substr(0, all.find_first_of(",\n")));
    std::replace_if(
        line.begin(), line.end(), [](unsigned char one) { return std::isspace(one) != 0; }, ' ');
    const auto both_blank = [](char one, char next) { return one == ' ' && next == ' '; };
    line.erase(std::unique(line.begin(), line.end(), both_blank), line.end());
    return line;
  }

  /// The others ask the lead for its time, one after the other. The answer is from some moment between question and
  /// answer.
  Result<ClockComparison> compare_clocks() override {
    ClockComparison best{0, rank_ == lead ? 0 : std::numeric_limits<std::int64_t>::max()};
    for (unsigned other = 1; other < ranks_; ++other) {
      for (int round = 0; round < clock_rounds; ++round) {
        if (rank_ == lead) PEN_TRY(tell_time(static_cast<int>(other)));
        if (rank_ == other) PEN_TRY(ask_for_time(best));
      }
    }
    return best;
  }

  Result<std::string> share_text(std::string text) override {
    std::uint64_t bytes = text.size();
    PEN_TRY(check(MPI_Bcast(&bytes, 1, MPI_UINT64_T, static_cast<int>(lead), world_), "share a text"));
    if (bytes > message_bytes_max) return make_error(Errc::too_large, "a text of {} bytes", bytes);
    text.resize(bytes);
    PEN_TRY(check(MPI_Bcast(text.data(), static_cast<int>(bytes), MPI_BYTE, static_cast<int>(lead), world_),
                  "share a text"));
    return text;
  }

  void start(Handler handler) override {
    handler_ = std::move(handler);
    thread_ = std::thread([this] {
      begin_thread("pen-mpi", Role::other);
      run();
    });
  }

  void send(unsigned to, std::vector<std::byte> message) override {
    {
      std::lock_guard lock(mutex_);
      outbox_.push_back({to, std::move(message)});
    }
    wake_.notify_one();
  }

  Result<std::uint64_t> fetch_add(unsigned counter, std::uint64_t amount) override {
    Addition addition{counter, amount, {}};
    auto before = addition.before.get_future();
    {
      std::lock_guard lock(mutex_);
      if (ended_) return make_error(Errc::cancelled, "the job has ended");
      additions_.push_back(&addition);
    }
    wake_.notify_one();
    return before.get();
  }

  void stop() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
    MPI_Comm_free(&world_);
    MPI_Finalize();
  }

 private:
  Result<void> tell_time(int other) {
    std::int64_t time_ns = 0;
    PEN_TRY(check(MPI_Recv(&time_ns, 1, MPI_INT64_T, other, clock_tag, world_, MPI_STATUS_IGNORE), "compare clocks"));
    time_ns = monotonic_ns();
    return check(MPI_Send(&time_ns, 1, MPI_INT64_T, other, clock_tag, world_), "compare clocks");
  }

  Result<void> ask_for_time(ClockComparison& best) {
    std::int64_t lead_ns = 0;
    const auto before_ns = monotonic_ns();
    PEN_TRY(check(MPI_Send(&before_ns, 1, MPI_INT64_T, static_cast<int>(lead), clock_tag, world_), "compare clocks"));
    PEN_TRY(check(MPI_Recv(&lead_ns, 1, MPI_INT64_T, static_cast<int>(lead), clock_tag, world_, MPI_STATUS_IGNORE),
                  "compare clocks"));
    const auto half_ns = (monotonic_ns() - before_ns + 1) / 2;
    if (half_ns < best.error_ns) best = {lead_ns - (before_ns + half_ns), half_ns};
    return {};
  }

  struct Letter {
    unsigned to;
    std::vector<std::byte> message;
  };
  struct Flying {
    MPI_Request request;
    std::vector<std::byte> message;
  };
  struct Addition {
    unsigned counter;
    std::uint64_t amount;
    std::promise<std::uint64_t> before;
  };

  /// Ends when every rank is stopping and has received what the others sent before.
  void run() {
    auto nap = nap_min;
    MPI_Request barrier = MPI_REQUEST_NULL;
    bool at_barrier = false;
    while (true) {
      bool busy = add();
      busy |= post();
      busy |= receive();
      nap = busy ? nap_min : std::min(nap * 2, std::chrono::duration_cast<decltype(nap)>(nap_max));
      if (at_barrier) {
        int done = 0;
        MPI_Test(&barrier, &done, MPI_STATUS_IGNORE);
        if (done && !busy) break;
      }
      std::unique_lock lock(mutex_);
      const bool idle = outbox_.empty() && additions_.empty();
      // Synchronous sends are over when they have been received: then nothing is on its way from here.
      if (stopping_ && !at_barrier && idle && flying_.empty()) {
        at_barrier = true;
        lock.unlock();
        MPI_Ibarrier(world_, &barrier);
      } else if (idle && !busy) {
        wake_.wait_for(lock, nap);
      }
    }
    std::lock_guard lock(mutex_);
    ended_ = true;
  }

  bool add() {
    std::deque<Addition*> additions;
    {
      std::lock_guard lock(mutex_);
      additions.swap(additions_);
    }
    for (auto* addition : additions) {
      std::uint64_t before = 0;
      MPI_Fetch_and_op(&addition->amount, &before, MPI_UINT64_T, static_cast<int>(lead),
                       static_cast<MPI_Aint>(addition->counter), MPI_SUM, window_);
      MPI_Win_flush(static_cast<int>(lead), window_);
      auto promise = std::move(addition->before);  // the addition goes away as soon as it is told
      promise.set_value(before);
    }
    return !additions.empty();
  }

  bool post() {
    std::deque<Letter> letters;
    {
      std::lock_guard lock(mutex_);
      letters.swap(outbox_);
    }
    for (auto& letter : letters) {
      if (letter.message.size() > message_bytes_max) std::terminate();  // our own messages are far smaller
      auto& flying = flying_.emplace_back(Flying{MPI_REQUEST_NULL, std::move(letter.message)});
      MPI_Issend(flying.message.data(), static_cast<int>(flying.message.size()), MPI_BYTE, static_cast<int>(letter.to),
                 tag, world_, &flying.request);
    }
    const auto before = flying_.size();
    std::erase_if(flying_, [](Flying& flying) {
      int done = 0;
      MPI_Test(&flying.request, &done, MPI_STATUS_IGNORE);
      return done != 0;
    });
    return !letters.empty() || flying_.size() != before;
  }

  bool receive() {
    bool any = false;
    while (true) {
      int there = 0;
      MPI_Message matched;
      MPI_Status status;
      MPI_Improbe(MPI_ANY_SOURCE, tag, world_, &there, &matched, &status);
      if (there == 0) return any;
      int bytes = 0;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      std::vector<std::byte> message(static_cast<std::size_t>(bytes));
      MPI_Mrecv(message.data(), bytes, MPI_BYTE, &matched, MPI_STATUS_IGNORE);
      handler_(static_cast<unsigned>(status.MPI_SOURCE), std::move(message));
      any = true;
    }
  }

  unsigned rank_ = 0;
  unsigned ranks_ = 1;
  MPI_Comm world_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  std::uint64_t* values_ = nullptr;  ///< the lead's memory of the counters
  Handler handler_;
  std::deque<Flying> flying_;  // of the thread

  std::mutex mutex_;
  std::condition_variable wake_;
  // guarded by mutex_
  std::deque<Letter> outbox_;
  std::deque<Addition*> additions_;
  bool stopping_ = false;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Job>> join_mpi(int& argc, char**& argv, Calls calls) {
  auto job = std::make_unique<MpiJob>();
  PEN_TRY(job->join(argc, argv, calls));
  return std::unique_ptr<Job>(std::move(job));
}

}  // namespace penstock::job
