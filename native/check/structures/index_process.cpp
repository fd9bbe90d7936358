#include "check/structures/index_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/threads.hpp"
#include "base/time/clock.hpp"
#include "check/tree_json.hpp"

namespace penstock::check {
namespace {

using nlohmann::json;

enum class Message : std::uint8_t { group = 1, dataset, expect, chunks, value, unreadable, failed, complete };
constexpr std::size_t prefix_bytes = 5;  // the message's kind and the length of what follows
constexpr std::uint32_t message_bytes_max = std::uint32_t{1} << 30;
constexpr std::uint64_t silence_ms_max = 3'600'000;

/// The child's side: writes what the reader says to the pipe.
class PipeVisitor final : public store::TreeVisitor {
 public:
  explicit PipeVisitor(int fd) : fd_(fd) {}

  void group(const std::string& path, std::vector<store::Attribute> attributes) override {
    send(Message::group, json::array({path, to_json(attributes)}));
  }
  void dataset(store::DatasetInfo info) override { send(Message::dataset, to_json(info)); }
  void expect(std::chrono::milliseconds silence) override { send(Message::expect, json(silence.count())); }
  void chunks(std::span<const store::IndexedChunk> chunks) override { send(Message::chunks, std::as_bytes(chunks)); }
  void value(store::Value value) override { send(Message::value, to_json(value)); }
  void unreadable(const std::string& path, const Error& why) override {
    send(Message::unreadable, json::array({path, why.message(), static_cast<int>(why.code())}));
  }
  void failed(const Error& why) { send(Message::failed, json::array({why.message(), static_cast<int>(why.code())})); }
  void complete() { send(Message::complete, Bytes{}); }

 private:
  void send(Message kind, const json& content) {
    const auto bytes = json::to_cbor(content);
    send(kind, std::as_bytes(std::span(bytes)));
  }
  void send(Message kind, Bytes content) {
    std::array<std::byte, prefix_bytes> prefix;
    prefix[0] = static_cast<std::byte>(kind);
    store_le(prefix.data() + 1, static_cast<std::uint32_t>(content.size()));
    write_all(prefix);
    write_all(content);
  }
  void write_all(Bytes bytes) {
    while (!bytes.empty()) {
      const auto count = ::write(fd_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) ::_exit(3);  // nobody listens any more
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }

  int fd_;
};

[[noreturn]] void run_child(int fd, Env& env, const std::string& path, const store::ReadTreeOptions& options) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  for (const int number : {SIGINT, SIGTERM, SIGPIPE}) ::signal(number, SIG_DFL);
  PipeVisitor visitor(fd);
  try {
    if (const auto read = store::read_tree(env, path, options, visitor); !read.ok()) visitor.failed(read.error());
  } catch (const std::bad_alloc&) {
    visitor.failed(make_error(Errc::out_of_memory, "not enough memory to read it"));
  } catch (const std::exception& error) {
    visitor.failed(make_error(Errc::hdf5, "{}", error.what()));
  }
  visitor.complete();
  ::_exit(0);
}

/// Whether an error tells nothing about the file: the storage failed, or a limit.
bool is_undecided(const json& code) {
  if (!code.is_number_integer()) return false;
  const auto number = code.get<int>();
  const bool of_system = number >= static_cast<int>(Errc::io) && number < static_cast<int>(Errc::corrupt);
  return of_system || number == static_cast<int>(Errc::too_large) || number == static_cast<int>(Errc::out_of_memory);
}

/// The parent's side: builds the tree from messages, which a crashing child may have garbled.
Result<void> take(Message kind, Bytes content, Tree& tree) {
  if (kind == Message::chunks) {
    if (content.empty()) return {};  // a sign of life
    if (tree.datasets.empty() || content.size() % sizeof(store::IndexedChunk) != 0)
      return make_error(Errc::malformed, "chunks without a dataset");
    auto& chunks = tree.datasets.back().chunks;
    const auto before = chunks.size();
    chunks.resize(before + content.size() / sizeof(store::IndexedChunk));
    std::memcpy(chunks.data() + before, content.data(), content.size());
    return {};
  }
  const auto* first = reinterpret_cast<const std::uint8_t*>(content.data());
  const auto document = json::from_cbor(first, first + content.size(), true, false);
  const auto text_at = [&](std::size_t index) -> std::string {
    const bool there = document.is_array() && index < document.size() && document[index].is_string();
    return there ? document[index].get<std::string>() : std::string();
  };
  switch (kind) {
    case Message::group: {
      if (!document.is_array() || document.size() != 2) return make_error(Errc::malformed, "a group");
      PEN_ASSIGN(auto attributes, attributes_of(document[1]));
      tree.groups.push_back({text_at(0), std::move(attributes)});
      return {};
    }
    case Message::dataset: {
      PEN_ASSIGN(auto info, dataset_of(document));
      tree.datasets.push_back({std::move(info), {}, {}});
      return {};
    }
    case Message::value: {
      PEN_ASSIGN(auto value, value_of(document));
      if (!tree.datasets.empty()) tree.datasets.back().value = std::move(value);
      return {};
    }
    case Message::unreadable:
      if (!document.is_array() || document.size() != 3) return make_error(Errc::malformed, "a part");
      tree.unreadable.push_back({text_at(0), text_at(1)});
      tree.undecided = tree.undecided || is_undecided(document[2]);
      return {};
    case Message::failed:
      if (!document.is_array() || document.size() != 2) return make_error(Errc::malformed, "a failure");
      tree.failure = text_at(0).empty() ? "HDF5 failed without a reason" : text_at(0);
      tree.undecided = tree.undecided || is_undecided(document[1]);
      return {};
    default: return make_error(Errc::malformed, "message {} from the reading process", static_cast<int>(kind));
  }
}

/// Processor time that a process has had; 0 where nobody can tell.
std::int64_t worked_ns(pid_t process) {
  clockid_t clock;
  timespec time{};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return 0;
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// The reading process, as its parent sees it.
struct Child {
  pid_t process = -1;
  int fd = -1;
  std::chrono::nanoseconds stall{0};  ///< it is ended when it has said nothing for so long
};

/// Why the tree is not complete, or that it is.
enum class End {
  complete,
  closed,
  stalled,  ///< it works, and says nothing
  idle,     ///< it does not even work: it waits for the storage
  cancelled,
  garbled
};

/// `complete` when there is something to read.
End wait_for(const Child& child, const IndexProcessOptions& options) {
  const auto stall_ns = child.stall.count();
  const auto until = monotonic_ns() + stall_ns;
  const auto worked_before = worked_ns(child.process);
  while (true) {
    if (options.cancelled && options.cancelled()) return End::cancelled;
    pollfd item{child.fd, POLLIN, 0};
    if (::poll(&item, 1, 100) > 0) return End::complete;
    // Of a machine with much other work it may get little.
    if (monotonic_ns() > until)
      return worked_ns(child.process) - worked_before < stall_ns / 20 ? End::idle : End::stalled;
  }
}

End receive(const Child& child, MutableBytes into, const IndexProcessOptions& options) {
  while (!into.empty()) {
    if (const auto end = wait_for(child, options); end != End::complete) return end;
    const auto count = ::read(child.fd, into.data(), into.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return End::closed;
    into = into.subspan(static_cast<std::size_t>(count));
  }
  return End::complete;
}

/// What it may be silent for until its next message.
std::chrono::nanoseconds stall_after(Message kind, Bytes content, const IndexProcessOptions& options) {
  if (kind != Message::expect) return options.stall;
  const auto* first = reinterpret_cast<const std::uint8_t*>(content.data());
  const auto said = json::from_cbor(first, first + content.size(), true, false);
  const auto ms = said.is_number_unsigned() ? std::min<std::uint64_t>(said.get<std::uint64_t>(), silence_ms_max) : 0;
  return options.stall + std::chrono::milliseconds(ms);
}

End receive_tree(Child child, const IndexProcessOptions& options, Tree& tree) {
  std::vector<std::byte> content;
  while (true) {
    std::array<std::byte, prefix_bytes> prefix;
    if (const auto end = receive(child, prefix, options); end != End::complete) return end;
    const auto kind = static_cast<Message>(prefix[0]);
    const auto size = load_le<std::uint32_t>(prefix.data() + 1);
    if (kind == Message::complete) return End::complete;
    if (size > message_bytes_max) return End::garbled;
    content.resize(size);
    if (const auto end = receive(child, content, options); end != End::complete) return end;
    child.stall = stall_after(kind, content, options);
    if (kind != Message::expect && !take(kind, content, tree).ok()) return End::garbled;
  }
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("HDF5 crashed on it (signal {}, {})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("the reading process ended with status {}", WIFEXITED(status) ? WEXITSTATUS(status) : status);
}

/// Reaps the process too.
Result<Tree> receive_from(Child child, const IndexProcessOptions& options) {
  Tree tree;
  const auto end = receive_tree(child, options, tree);
  ::close(child.fd);
  if (end != End::complete && end != End::closed) ::kill(child.process, SIGKILL);
  int status = 0;
  while (::waitpid(child.process, &status, 0) < 0 && errno == EINTR) {
  }
  if (end == End::cancelled) return make_error(Errc::cancelled, "stopped while reading the index");
  if (end == End::closed) {
    tree.failure = how_it_ended(status);
    tree.undecided = tree.undecided || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
  if (end == End::stalled)
    tree.failure = fmt::format("HDF5 did not respond for {} s and was ended", options.stall.count() / 1000);
  if (end == End::idle) {
    tree.failure = fmt::format("the storage did not respond for {} s", options.stall.count() / 1000);
    tree.undecided = true;
  }
  if (end == End::garbled) tree.failure = "the reading process sent invalid output and was ended";
  return tree;
}

}  // namespace

const TreeDataset* Tree::find(std::string_view path) const {
  for (const auto& dataset : datasets)
    for (const auto& name : dataset.info.paths)
      if (name == path) return &dataset;
  return nullptr;
}

const store::Value* Tree::root_attribute(std::string_view name) const {
  if (groups.empty() || groups.front().path != "/") return nullptr;
  for (const auto& attribute : groups.front().attributes)
    if (attribute.name == name) return &attribute.value;
  return nullptr;
}

/// The thread takes what the process says, so that its pipe is never full while the caller is busy.
struct TreeReading::Running {
  std::atomic<bool> given_up = false;
  std::optional<Result<Tree>> outcome;
  std::jthread receiver;
};

void TreeReading::GiveUp::operator()(Running* running) const {
  running->given_up = true;
  delete running;
}

Result<TreeReading> TreeReading::begin(Env& env, const std::string& path, IndexProcessOptions options) {
  TreeReading reading;
  auto* running = new Running;  // before there is a process that would have to be ended
  reading.running_.reset(running);
  options.cancelled = [running, asked = std::move(options.cancelled)] {
    return running->given_up || (asked && asked());
  };
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error(errno, "a pipe for the reading process");
  const auto child = ::fork();
  if (child < 0) {
    const int errnum = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    return errno_error(errnum, "start the reading process");
  }
  if (child == 0) {
    ::close(ends[0]);
    run_child(ends[1], env, path, options.read);
  }
  ::close(ends[1]);
  const Child started{child, ends[0], options.stall};
  try {
    running->receiver = std::jthread([running, started, options] {
      begin_thread("pen-tree", Role::other);
      running->outcome = receive_from(started, options);
    });
  } catch (const std::system_error& error) {
    running->given_up = true;
    (void)receive_from(started, options);
    return make_error(Errc::out_of_memory, "a thread for the reading process: {}", error.what());
  }
  return reading;
}

Result<Tree> TreeReading::finish() {
  const auto running = std::move(running_);
  running->receiver.join();
  return std::move(*running->outcome);
}

Result<Tree> read_tree_in_process(Env& env, const std::string& path, const IndexProcessOptions& options) {
  PEN_ASSIGN(auto reading, TreeReading::begin(env, path, options));
  return reading.finish();
}

}  // namespace penstock::check
