// How fast ranks of a job compress frames into one file (or into one each): one JSON document on rank 0's
// stdout. Each rank compresses with one thread, straight into its segments.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <condition_variable>
#include <fstream>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/time/clock.hpp"
#include "codec/codec.hpp"
#include "job/job.hpp"
#include "store/store.hpp"

namespace penstock {
namespace {

struct Options {
  std::string path;
  std::string raw;  // frames one after another
  std::size_t element_bytes = 2;
  std::uint64_t frame_elements = 0;
  std::uint64_t frames = 0;
  std::string encoding = "bslz4";
  bool own_files = false;
  bool gate = false;
  store::StoreOptions store;

  std::size_t frame_bytes() const { return element_bytes * frame_elements; }
};

class SharedEnd final : public store::EndOfFile {
 public:
  explicit SharedEnd(job::Job& job) : job_(job) {}
  Result<std::uint64_t> advance(std::uint64_t bytes) override { return job_.fetch_add(0, bytes); }

 private:
  job::Job& job_;
};

/// The ranks' stores and the messages between them: the first byte tells which.
class Ranks {
 public:
  explicit Ranks(job::Job& job) : job_(job) {
    job_.start([this](unsigned from, const std::vector<std::byte>& message) { receive(from, message); });
  }

  store::Share share() {
    return {job_.rank(), job_.ranks(), std::make_shared<SharedEnd>(job_),
            [this](unsigned to, std::vector<std::byte> message) { send(to, of_store, message); }};
  }

  /// From now on messages for the store find it. The lead's comes before anybody else's knows of the file.
  void enter(store::Store& store) { store_ = &store; }

  void tell_file(const store::SharedFile& file) {
    const auto text = store::format::to_hex(file.id) + std::to_string(file.description_address);
    for (unsigned to = 1; to < job_.ranks(); ++to) send(to, of_file, std::as_bytes(std::span(text)));
  }
  Result<store::SharedFile> wait_for_file() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !file_.empty(); });
    store::SharedFile file;
    PEN_ASSIGN(file.id, store::format::file_id_of(file_.substr(0, id_digits)));
    file.description_address = std::stoull(file_.substr(id_digits));
    return file;
  }

  void tell_finished() { send(job::lead, of_end, {}); }
  void wait_for_the_others() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return finished_ + 1 == job_.ranks(); });
  }

 private:
  static constexpr std::byte of_store{1}, of_file{2}, of_end{3};
  static constexpr std::size_t id_digits = 32;

  void send(unsigned to, std::byte kind, Bytes content) {
    std::vector<std::byte> message{kind};
    message.insert(message.end(), content.begin(), content.end());
    job_.send(to, std::move(message));
  }

  void receive(unsigned from, Bytes message) {
    const auto content = message.subspan(1);
    if (message[0] == of_store) {
      if (auto taken = store_.load()->receive(from, content); !taken.ok()) std::cerr << taken.error().message() << '\n';
      return;
    }
    std::lock_guard lock(mutex_);
    if (message[0] == of_file) file_.assign(reinterpret_cast<const char*>(content.data()), content.size());
    if (message[0] == of_end) ++finished_;
    changed_.notify_all();
  }

  job::Job& job_;
  std::atomic<store::Store*> store_{nullptr};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string file_;       // guarded by mutex_
  unsigned finished_ = 0;  // guarded by mutex_
};

Result<std::vector<std::byte>> read_frames(const Options& options) {
  std::ifstream file(options.raw, std::ios::binary | std::ios::ate);
  if (!file) return make_error(Errc::not_found, "{} cannot be read", options.raw);
  const auto size = static_cast<std::size_t>(file.tellg()) / options.frame_bytes() * options.frame_bytes();
  if (size == 0) return make_error(Errc::truncated, "{} holds no frame", options.raw);
  std::vector<std::byte> frames(size);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(frames.data()), static_cast<std::streamsize>(size));
  return frames;
}

store::FileLayout layout_of(const Options& options, const CodecSpec& codec) {
  store::FileLayout layout;
  layout.chunked.push_back({"/data",
                            options.element_bytes == 2 ? ElementType::u16 : ElementType::i32,
                            {options.frame_elements},
                            0,
                            filters_of(codec, options.element_bytes),
                            {},
                            {}});
  return layout;
}

Result<void> write_frames(store::ChunkWriter& writer, const Options& options, const CodecSpec& codec, Bytes raw,
                          const job::Job& job) {
  CodecScratch scratch;
  const auto bytes = options.frame_bytes();
  const auto images = raw.size() / bytes;
  for (std::uint64_t number = job.rank(); number < options.frames; number += job.ranks()) {
    const auto frame = raw.subspan(number / job.ranks() % images * bytes, bytes);
    const store::ChunkHead head{.index = number};
    if (codec.encoding == Encoding::none) {
      PEN_TRY(writer.put(head, frame, nullptr, bytes));
      continue;
    }
    PEN_ASSIGN(const auto room, writer.reserve(encoded_bound(codec, bytes, options.element_bytes)));
    PEN_ASSIGN(const auto size, encode(codec, frame, options.element_bytes, room, scratch));
    PEN_TRY(writer.commit(head, size));
  }
  return writer.flush();
}

Result<std::unique_ptr<store::Store>> open_store(const Options& options, const store::FileLayout& layout, Ranks& ranks,
                                                 job::Job& job) {
  using store::Store;
  const auto own = options.path + "." + std::to_string(job.rank());
  if (options.own_files) return Store::create(posix_env(), own, layout, options.store, nullptr);
  if (job.ranks() == 1) return Store::create(posix_env(), options.path, layout, options.store, nullptr);
  if (job.rank() == job::lead) {
    PEN_ASSIGN(auto store, Store::create(posix_env(), options.path, layout, options.store, nullptr, ranks.share()));
    ranks.enter(*store);
    ranks.tell_file(store->shared_file());
    return store;
  }
  PEN_ASSIGN(const auto file, ranks.wait_for_file());
  PEN_ASSIGN(auto store, Store::join(posix_env(), options.path, layout, options.store, nullptr, ranks.share(), file));
  ranks.enter(*store);
  return store;
}

/// From before the file is made until it is closed and synced, by the lead's clock.
Result<nlohmann::json> measure(const Options& options, job::Job& job) {
  const auto encoding = encoding_of(options.encoding);
  if (!encoding) return make_error(Errc::invalid_argument, "--encoding is {}", options.encoding);
  const CodecSpec codec{.encoding = *encoding, .level = 1};
  PEN_ASSIGN(const auto raw, read_frames(options));
  const bool leads = job.rank() == job::lead;
  if (options.gate && leads) {
    std::cout << "ready" << std::endl;
    std::string line;
    std::getline(std::cin, line);
  }
  PEN_TRY(job.share_text(""));  // the others are ready too
  Ranks ranks(job);
  const auto layout = layout_of(options, codec);
  const auto started = monotonic_ns();
  PEN_ASSIGN(const auto store, open_store(options, layout, ranks, job));
  auto writer = store->make_writer();
  PEN_TRY(write_frames(*writer, options, codec, raw, job));
  writer.reset();
  if (leads && !options.own_files) ranks.wait_for_the_others();
  PEN_TRY(store->finish({.values = {}, .attributes = {}, .frames = options.frames}));
  if (!leads) ranks.tell_finished();
  if (leads && options.own_files) ranks.wait_for_the_others();
  const auto seconds = 1e-9 * static_cast<double>(monotonic_ns() - started);
  job.stop();
  const auto stats = store->stats();
  return nlohmann::json{{"seconds", seconds},
                        {"chunks", stats.chunks},
                        {"raw_bytes", options.frames * options.frame_bytes()},
                        {"stored_bytes", stats.chunk_bytes},
                        {"ranks", job.ranks()}};
}

int run(int argc, char** argv) {
  auto job = job::join_mpi(argc, argv, job::Calls::of_the_job);
  if (!job.ok()) {
    std::cerr << job.error().message() << '\n';
    return 1;
  }
  Options options;
  options.store.overwrite = true;
  CLI::App app("Compresses frames into one file from all ranks and prints how long it took");
  app.add_option("--path", options.path, "The file to write; overwritten")->required();
  app.add_option("--raw", options.raw, "Frames one after another")->required();
  app.add_option("--element-bytes", options.element_bytes)->check(CLI::IsMember({2, 4}));
  app.add_option("--frame-elements", options.frame_elements)->required();
  app.add_option("--frames", options.frames, "To write, all ranks together")->required();
  app.add_option("--encoding", options.encoding);
  app.add_flag("--own-files", options.own_files, "A file for each rank");
  app.add_flag("!--buffered", options.store.direct, "Through the page cache");
  app.add_flag("--gate", options.gate, "Print a line and wait for one when everything is ready");
  CLI11_PARSE(app, argc, argv);
  const auto result = measure(options, **job);
  if (!result.ok()) {
    std::cerr << result.error().message() << '\n';
    return 1;  // MPI ends the job
  }
  if ((*job)->rank() == job::lead) std::cout << result->dump() << '\n';
  return 0;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) { return penstock::run(argc, argv); }
