#include "recorder/team/team.hpp"

#include <spdlog/spdlog.h>

#include <cstring>

#include "base/threads.hpp"

namespace penstock::recorder {
namespace {

using nlohmann::json;

// What a message is, in its first byte.
constexpr char question = 'q';
constexpr char answer = 'a';
constexpr char note = 'n';
constexpr char of_store = 's';

constexpr std::size_t questions_max = 1024;
constexpr std::size_t store_head_bytes = 1 + sizeof(std::uint64_t);

class SharedEnd final : public store::EndOfFile {
 public:
  SharedEnd(job::Job& job, std::uint64_t file, std::uint64_t base)
      : job_(job), counter_(static_cast<unsigned>(file % job::counters)), base_(base) {}
  Result<std::uint64_t> advance(std::uint64_t bytes) override {
    PEN_ASSIGN(const auto before, job_.fetch_add(counter_, bytes));
    return before - base_;
  }

 private:
  job::Job& job_;
  const unsigned counter_;
  const std::uint64_t base_;
};

}  // namespace

Team::Team(job::Job& job) : job_(job), questions_(questions_max) {}

Team::~Team() {
  questions_.close();
  if (thread_.joinable()) thread_.join();
}

void Team::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  if (leads() && ranks() > 1)
    thread_ = std::thread([this] {
      begin_thread("pen-team", Role::other);
      answer_questions();
    });
  job_.start([this](unsigned from, std::vector<std::byte> message) { receive(from, std::move(message)); });
}

void Team::stop() {
  job_.stop();
  questions_.close();
  if (thread_.joinable()) thread_.join();
}

void Team::send(unsigned to, char kind, const json& content) {
  const auto bytes = json::to_cbor(content);
  std::vector<std::byte> message(1 + bytes.size());
  message[0] = static_cast<std::byte>(kind);
  std::memcpy(message.data() + 1, bytes.data(), bytes.size());
  job_.send(to, std::move(message));
}

Result<json> Team::ask(const json& content, std::chrono::seconds patience) {
  std::future<json> reply;
  std::uint64_t id = 0;
  {
    std::lock_guard lock(mutex_);
    id = next_question_++;
    reply = asked_[id].get_future();
  }
  send(job::lead, question, {{"id", id}, {"content", content}});
  if (reply.wait_for(patience) != std::future_status::ready) {
    std::lock_guard lock(mutex_);
    asked_.erase(id);
    return make_error(Errc::timed_out, "rank 0 has not answered within {} s", patience.count());
  }
  auto told = reply.get();
  if (told.contains("error"))
    return Error(static_cast<Errc>(told.value("code", static_cast<int>(Errc::internal))),
                 told["error"].get<std::string>());
  return told;
}

void Team::tell(unsigned to, const json& content) { send(to, note, content); }

void Team::tell_all(const json& content) {
  for (unsigned to = 0; to < ranks(); ++to)
    if (to != rank()) tell(to, content);
}

Events Team::events(std::FILE* out) {
  if (leads()) return Events(out);
  return Events([this](const std::string& line) { tell(job::lead, {{"tell", "event"}, {"line", line}}); });
}

Result<std::pair<std::uint64_t, std::uint64_t>> Team::new_file() {
  std::uint64_t number = 0;
  {
    std::lock_guard lock(mutex_);
    number = next_file_++;
  }
  PEN_ASSIGN(const auto base, job_.fetch_add(static_cast<unsigned>(number % job::counters), 0));
  return std::pair{number, base};
}

store::Share Team::share(std::uint64_t file, std::uint64_t base) {
  if (ranks() == 1) return {};
  store::Share share;
  share.rank = rank();
  share.ranks = ranks();
  share.end = std::make_shared<SharedEnd>(job_, file, base);
  share.send = [this, file](unsigned to, std::vector<std::byte> bytes) {
    std::vector<std::byte> message(store_head_bytes + bytes.size());
    message[0] = static_cast<std::byte>(of_store);
    std::memcpy(message.data() + 1, &file, sizeof file);
    std::memcpy(message.data() + store_head_bytes, bytes.data(), bytes.size());
    job_.send(to, std::move(message));
  };
  return share;
}

void Team::enter(std::uint64_t file, store::Store* store) {
  std::lock_guard lock(stores_mutex_);
  stores_[file] = store;
}

void Team::leave(std::uint64_t file) {
  std::lock_guard lock(stores_mutex_);
  stores_.erase(file);
}

/// On the job's thread. What cannot be understood can only be a mistake of ours: it is logged.
void Team::receive(unsigned from, std::vector<std::byte> message) {
  if (message.empty()) return;
  const auto kind = static_cast<char>(message[0]);
  if (kind == of_store) return receive_for_store(from, message);
  const auto* text = reinterpret_cast<const std::uint8_t*>(message.data());
  auto content = json::from_cbor(text + 1, text + message.size(), true, false);
  if (content.is_discarded() || !content.is_object()) {
    spdlog::error("rank {} sent {} bytes that are not a message", from, message.size());
  } else if (kind == question) {
    (void)questions_.push_now({from, content.value("id", std::uint64_t{0}), content["content"]});
  } else if (kind == answer) {
    std::lock_guard lock(mutex_);
    if (auto asked = asked_.extract(content.value("id", ~std::uint64_t{0})); !asked.empty())
      asked.mapped().set_value(std::move(content["content"]));
  } else if (handlers_.hear) {
    handlers_.hear(from, content);
  }
}

void Team::receive_for_store(unsigned from, Bytes message) {
  if (message.size() < store_head_bytes) return;
  std::uint64_t file = 0;
  std::memcpy(&file, message.data() + 1, sizeof file);
  const auto content = message.subspan(store_head_bytes);
  std::lock_guard lock(stores_mutex_);
  if (const auto found = stores_.find(file); found != stores_.end()) {
    if (auto taken = found->second->receive(from, content); !taken.ok()) spdlog::error("{}", taken.error().message());
  } else if (auto refusal = store::refusal_of(content, "the file is closed")) {
    share(file, 0).send(from, std::move(*refusal));
  }
}

void Team::answer_questions() {
  while (auto asked = questions_.pop()) {
    auto found = handlers_.answer(asked->from, asked->content);
    json reply = found.ok()
                     ? std::move(*found)
                     : json{{"error", found.error().message()}, {"code", static_cast<int>(found.error().code())}};
    send(asked->from, answer, {{"id", asked->id}, {"content", std::move(reply)}});
  }
}

}  // namespace penstock::recorder
