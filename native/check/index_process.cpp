#include "check/index_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "check/tree_json.hpp"

namespace penstock::check {
namespace {

using nlohmann::json;

enum class Message : std::uint8_t { group = 1, dataset, chunks, value, unreadable, failed, complete };
constexpr std::size_t prefix_bytes = 5;  // the message's kind and the length of what follows
constexpr std::uint32_t message_bytes_max = std::uint32_t{1} << 30;

/// The child's side: writes what the reader says to the pipe.
class PipeVisitor final : public store::TreeVisitor {
 public:
  explicit PipeVisitor(int fd) : fd_(fd) {}

  void group(const std::string& path, std::vector<store::Attribute> attributes) override {
    send(Message::group, json::array({path, to_json(attributes)}));
  }
  void dataset(store::DatasetInfo info) override { send(Message::dataset, to_json(info)); }
  void chunks(std::span<const store::IndexedChunk> chunks) override { send(Message::chunks, std::as_bytes(chunks)); }
  void value(store::Value value) override { send(Message::value, to_json(value)); }
  void unreadable(const std::string& path, const std::string& why) override {
    send(Message::unreadable, json::array({path, why}));
  }
  void failed(const std::string& why) { send(Message::failed, json(why)); }
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
    if (const auto read = store::read_tree(env, path, options, visitor); !read.ok())
      visitor.failed(read.error().message());
  } catch (const std::exception& error) {
    visitor.failed(error.what());
  }
  visitor.complete();
  ::_exit(0);
}

/// The parent's side: builds the tree from messages, which a crashing child may have garbled.
Result<void> take(Message kind, Bytes content, Tree& tree) {
  if (kind == Message::chunks) {
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
    case Message::unreadable: tree.unreadable.push_back({text_at(0), text_at(1)}); return {};
    case Message::failed:
      tree.failure = document.is_string() ? document.get<std::string>() : "HDF5 failed without a reason";
      return {};
    default: return make_error(Errc::malformed, "message {} from the reading process", static_cast<int>(kind));
  }
}

enum class Wait { ready, stalled, cancelled };

Wait wait_for(int fd, const IndexProcessOptions& options) {
  const auto until = monotonic_ns() + std::chrono::nanoseconds(options.stall).count();
  while (true) {
    if (options.cancelled && options.cancelled()) return Wait::cancelled;
    pollfd item{fd, POLLIN, 0};
    if (::poll(&item, 1, 100) > 0) return Wait::ready;
    if (monotonic_ns() > until) return Wait::stalled;
  }
}

/// Why the tree is not complete, or that it is.
enum class End { complete, closed, stalled, cancelled, garbled };

End receive(int fd, MutableBytes into, const IndexProcessOptions& options) {
  while (!into.empty()) {
    const auto wait = wait_for(fd, options);
    if (wait == Wait::stalled) return End::stalled;
    if (wait == Wait::cancelled) return End::cancelled;
    const auto count = ::read(fd, into.data(), into.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return End::closed;
    into = into.subspan(static_cast<std::size_t>(count));
  }
  return End::complete;
}

End receive_tree(int fd, const IndexProcessOptions& options, Tree& tree) {
  std::vector<std::byte> content;
  while (true) {
    std::array<std::byte, prefix_bytes> prefix;
    if (const auto end = receive(fd, prefix, options); end != End::complete) return end;
    const auto kind = static_cast<Message>(prefix[0]);
    const auto size = load_le<std::uint32_t>(prefix.data() + 1);
    if (kind == Message::complete) return End::complete;
    if (size > message_bytes_max) return End::garbled;
    content.resize(size);
    if (const auto end = receive(fd, content, options); end != End::complete) return end;
    if (!take(kind, content, tree).ok()) return End::garbled;
  }
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("HDF5 crashed on it (signal {}, {})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("the reading process ended with status {}", WIFEXITED(status) ? WEXITSTATUS(status) : status);
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

Result<Tree> read_tree_in_process(Env& env, const std::string& path, const IndexProcessOptions& options) {
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
  Tree tree;
  const auto end = receive_tree(ends[0], options, tree);
  ::close(ends[0]);
  if (end != End::complete && end != End::closed) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (end == End::cancelled) return make_error(Errc::cancelled, "stopped while reading the index");
  if (end == End::closed) tree.failure = how_it_ended(status);
  if (end == End::stalled)
    tree.failure = fmt::format("HDF5 said nothing for {} s and was ended", options.stall.count() / 1000);
  if (end == End::garbled) tree.failure = "the reading process told nonsense and was ended";
  return tree;
}

}  // namespace penstock::check
