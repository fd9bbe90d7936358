/// The ranks of a recorder: their questions and notices.
///
/// Questions go to the lead, which answers them on a thread of its own; notices go both ways and are heard on
/// the job's thread, which must not wait. Messages between the stores of one file pass through here too. A
/// recorder that runs alone has a team of one.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/queue.hpp"
#include "job/job.hpp"
#include "recorder/service/events.hpp"
#include "store/store.hpp"

namespace penstock::recorder {

class Team {
 public:
  /// `job` outlives the team.
  explicit Team(job::Job& job);
  ~Team();

  unsigned rank() const { return job_.rank(); }
  unsigned ranks() const { return job_.ranks(); }
  bool leads() const { return rank() == job::lead; }

  struct Handlers {
    /// The lead's: may wait, for other questions wait meanwhile too.
    std::function<Result<nlohmann::json>(unsigned from, const nlohmann::json& question)> answer;
    /// Must not wait.
    std::function<void(unsigned from, const nlohmann::json& notice)> hear;
  };
  void start(Handlers handlers);
  /// After the last question, notice and file; waits for the other ranks.
  void stop();

  /// Asks the lead, and waits up to `patience`.
  Result<nlohmann::json> ask(const nlohmann::json& question, std::chrono::seconds patience);
  void tell(unsigned to, const nlohmann::json& notice);
  void tell_all(const nlohmann::json& notice);
  /// Writes into `out`, or, of another rank, passes on to the coordinator.
  Events events(std::FILE* out);

  /// The lead's: a number for a new file, and where its counter stands.
  Result<std::pair<std::uint64_t, std::uint64_t>> new_file();
  /// What the store of file `file` shares with those of the other ranks.
  store::Share share(std::uint64_t file, std::uint64_t base);
  /// From now on messages for the file go to `store`, until leave() returns.
  void enter(std::uint64_t file, store::Store* store);
  void leave(std::uint64_t file);

 private:
  struct Question {
    unsigned from;
    std::uint64_t id;
    nlohmann::json content;
  };

  void receive(unsigned from, std::vector<std::byte> message);
  void receive_for_store(unsigned from, Bytes message);
  void answer_questions();
  void send(unsigned to, char kind, const nlohmann::json& content);

  job::Job& job_;
  Handlers handlers_;
  std::uint64_t next_file_ = 0;  // of the lead; guarded by mutex_

  std::mutex mutex_;
  std::map<std::uint64_t, std::promise<nlohmann::json>> asked_;  // guarded by mutex_
  std::uint64_t next_question_ = 0;                              // guarded by mutex_

  std::mutex stores_mutex_;
  std::map<std::uint64_t, store::Store*> stores_;  // guarded by stores_mutex_

  BoundedQueue<Question> questions_;
  std::thread thread_;
};

}  // namespace penstock::recorder
