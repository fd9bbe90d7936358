/// A job whose ranks are objects in one process: what ranks do to each other, under the
/// sanitizers, which see nothing of another process. The real thing is tested in tests/python/record/test_ranks.py.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/queue.hpp"
#include "job/job.hpp"

namespace penstock::testing {

/// What the ranks of a job share.
class ThreadWorld {
 public:
  explicit ThreadWorld(unsigned ranks) {
    for (unsigned i = 0; i < ranks; ++i) inboxes_.push_back(std::make_unique<Inbox>(1 << 20));
  }

  std::unique_ptr<job::Job> rank(unsigned number) { return std::make_unique<Rank>(*this, number); }

 private:
  struct Letter {
    unsigned from;
    std::vector<std::byte> message;
  };
  struct Addition {
    unsigned counter;
    std::uint64_t amount;
    std::shared_ptr<std::promise<std::uint64_t>> before;
  };
  using Inbox = BoundedQueue<std::variant<Letter, Addition>>;

  class Rank final : public job::Job {
   public:
    Rank(ThreadWorld& world, unsigned number) : world_(world), number_(number) {}
    ~Rank() override {
      world_.inboxes_[number_]->close();
      if (thread_.joinable()) thread_.join();
    }
    unsigned rank() const override { return number_; }
    unsigned ranks() const override { return static_cast<unsigned>(world_.inboxes_.size()); }
    std::string library() const override { return "threads"; }
    Result<std::string> share_text(std::string text) override { return text; }
    Result<job::ClockComparison> compare_clocks() override { return job::ClockComparison{}; }
    void start(Handler handler) override {
      thread_ = std::thread([this, handler = std::move(handler)] {
        while (auto item = world_.inboxes_[number_]->pop()) {
          if (auto* letter = std::get_if<Letter>(&*item)) {
            handler(letter->from, std::move(letter->message));
          } else {
            const auto& addition = std::get<Addition>(*item);
            addition.before->set_value(world_.values_[addition.counter].fetch_add(addition.amount));
          }
        }
      });
    }
    void send(unsigned to, std::vector<std::byte> message) override {
      (void)world_.inboxes_[to]->push(Letter{number_, std::move(message)});
    }
    /// By the rank's own thread, as MPI's calls are: whoever keeps that one waiting waits for ever.
    Result<std::uint64_t> fetch_add(unsigned counter, std::uint64_t amount) override {
      auto before = std::make_shared<std::promise<std::uint64_t>>();
      auto answer = before->get_future();
      (void)world_.inboxes_[number_]->push(Addition{counter, amount, std::move(before)});
      return answer.get();
    }
    /// When the last rank has come here, nobody sends any more.
    void stop() override {
      {
        std::unique_lock lock(world_.mutex_);
        ++world_.stopped_;
        world_.all_stopped_.notify_all();
        world_.all_stopped_.wait(lock, [&] { return world_.stopped_ == world_.inboxes_.size(); });
      }
      world_.inboxes_[number_]->close();
      if (thread_.joinable()) thread_.join();
    }

   private:
    ThreadWorld& world_;
    const unsigned number_;
    std::thread thread_;
  };

  std::vector<std::unique_ptr<Inbox>> inboxes_;
  std::array<std::atomic<std::uint64_t>, job::counters> values_{};
  std::mutex mutex_;
  std::condition_variable all_stopped_;
  std::size_t stopped_ = 0;  // guarded by mutex_
};

}  // namespace penstock::testing
