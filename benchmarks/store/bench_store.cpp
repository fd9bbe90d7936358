// How fast the store takes chunks: one run, one JSON document on stdout. Compared with its peers by
// the scripts beside it; figures of single runs mean little.
#include <sys/mman.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/time/clock.hpp"
#include "store/format/segment.hpp"
#include "store/hdf5/indexer.hpp"
#include "store/store.hpp"

namespace penstock::store {
namespace {

/// Between two looks at the clock.
constexpr std::uint64_t paced_chunks = 100;

struct Job {
  std::string path;
  std::uint64_t chunk_bytes = 1 << 20;
  std::uint64_t total_bytes = std::uint64_t{1} << 30;
  std::uint64_t ring_bytes = 256 << 20;
  unsigned writers = 1;
  bool copy = false;
  bool crc = true;
  bool abandon = false;
  std::uint64_t chunks_per_s = 0;  ///< of one writer; 0: as fast as it goes
  bool index_only = false;
  bool gate = false;
  std::uint64_t index_chunks = 1'000'000;
  Placement placement = Placement::log;
  std::uint64_t slot_bytes = 0;  ///< what a chunk could have had
  StoreOptions options;
};

double cpu_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Random bytes, page-aligned, larger than the caches, touched before the clock starts.
std::shared_ptr<std::byte> make_ring(std::uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  std::mt19937_64 random(1);
  auto* words = static_cast<std::uint64_t*>(memory);
  for (std::uint64_t i = 0; i < bytes / 8; ++i) words[i] = random();
  return {static_cast<std::byte*>(memory), [bytes](std::byte* gone) { ::munmap(gone, bytes); }};
}

FileLayout layout_of(const Job& job) {
  FileLayout layout;
  layout.chunked.push_back({"/data", ElementType::u8, {job.chunk_bytes}, 0, {}, {}, {}});
  auto& node = layout.chunked.back();
  node.places.placement = job.placement;
  if (job.placement != Placement::log) node.frames_max = job.total_bytes / job.chunk_bytes;
  node.chunk_bytes_max = job.slot_bytes;
  return layout;
}

Result<void> write_share(ChunkWriter& writer, const Job& job, const std::shared_ptr<std::byte>& ring, unsigned share) {
  const auto chunks = job.total_bytes / job.chunk_bytes;
  const auto step = align_up(job.chunk_bytes, page_bytes);
  const auto places = job.ring_bytes / step;
  const auto started = std::chrono::steady_clock::now();
  for (auto i = std::uint64_t{share}; i < chunks; i += job.writers) {
    if (job.chunks_per_s > 0 && i % paced_chunks == 0)
      std::this_thread::sleep_until(started + std::chrono::nanoseconds(1'000'000'000 * i / job.chunks_per_s));
    const Bytes data(ring.get() + i % places * step, job.chunk_bytes);
    std::shared_ptr<const void> owner;
    if (!job.copy) owner = ring;
    ChunkHead head{.index = i};
    if (!job.crc) head.crc = 0;  // as if it had cost nothing; the file fails its check
    PEN_TRY(writer.put(head, data, std::move(owner), step));
  }
  return writer.flush();
}

/// Whoever measures prepares the machine now.
void wait_at_gate() {
  std::cout << "ready" << std::endl;
  std::string line;
  std::getline(std::cin, line);
}

Result<nlohmann::json> write_chunks(const Job& job) {
  const auto ring = make_ring(job.ring_bytes);
  if (!ring) return make_error(Errc::out_of_memory, "no memory for a ring of {} bytes", job.ring_bytes);
  if (job.gate) wait_at_gate();
  const auto cpu_before = cpu_seconds();
  const auto started = monotonic_ns();
  PEN_ASSIGN(const auto store, Store::create(posix_env(), job.path, layout_of(job), job.options, nullptr));
  std::vector<Result<void>> results(job.writers);
  std::vector<std::thread> threads;
  for (unsigned share = 0; share < job.writers; ++share)
    threads.emplace_back([&, share] {
      const auto writer = store->make_writer();
      results[share] = write_share(*writer, job, ring, share);
    });
  for (auto& thread : threads) thread.join();
  for (auto& result : results) PEN_TRY(std::move(result));
  const auto put = monotonic_ns();
  if (job.abandon) {
    // As a recorder that is killed leaves its file: every segment on storage, the index as of its last flush.
    while (store->stats().chunks < job.total_bytes / job.chunk_bytes)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::cout << nlohmann::json{{"segments", store->stats().segments}}.dump() << std::endl;
    std::raise(SIGKILL);
  }
  FinalValues values;
  values.frames = job.total_bytes / job.chunk_bytes;
  PEN_TRY(store->finish(values));
  const auto ended = monotonic_ns();
  const auto stats = store->stats();
  const auto seconds = [](std::int64_t ns) { return 1e-9 * static_cast<double>(ns); };
  return nlohmann::json{{"seconds", seconds(ended - started)},
                        {"seconds_until_put", seconds(put - started)},
                        {"cpu_seconds", cpu_seconds() - cpu_before},
                        {"bytes", stats.chunk_bytes},
                        {"chunks", stats.chunks},
                        {"lost_chunks", stats.lost_chunks},
                        {"segments", stats.segments},
                        {"written_bytes", stats.written_bytes},
                        {"bytes_per_s", static_cast<double>(stats.chunk_bytes) / seconds(ended - started)},
                        {"write_s", seconds(stats.write_ns)},
                        {"sync_s", seconds(stats.sync_ns)},
                        {"index_s", seconds(stats.index_ns)},
                        {"flush_s", seconds(stats.flush_ns)}};
}

/// Chunks that exist only as records go through the indexer, as if they had just been written.
Result<nlohmann::json> index_chunks(const Job& job) {
  PEN_ASSIGN(const auto file, posix_env().open(job.path, {.mode = OpenOptions::Mode::create_or_truncate}));
  Space space(file, {job.options.extent_bytes, job.options.alignment_bytes});
  PEN_ASSIGN(auto index, hdf5::IndexFile::create(file, space, layout_of(job), format::make_file_id()));
  PEN_TRY(index->start(job.options.swmr));
  Counters counters;
  hdf5::Indexer indexer(std::move(index), job.options, nullptr, counters);
  const auto a_segment = std::max<std::uint64_t>(job.options.segment_bytes / job.chunk_bytes, 1);
  const auto cpu_before = cpu_seconds();
  const auto started = monotonic_ns();
  for (std::uint64_t next = 0; next < job.index_chunks;) {
    WrittenSegment segment;
    const auto count = std::min(a_segment, job.index_chunks - next);
    PEN_ASSIGN(const auto address, space.take_segment(align_up(count * job.chunk_bytes, page_bytes)));
    for (std::uint64_t i = 0; i < count; ++i, ++next)
      segment.chunks.push_back({{DatasetId{0}, next, 0, 0, 0},
                                address + i * job.chunk_bytes,
                                static_cast<std::uint32_t>(job.chunk_bytes),
                                0,
                                0});
    indexer.push(std::move(segment));
  }
  PEN_TRY(indexer.drain());
  const auto seconds = 1e-9 * static_cast<double>(monotonic_ns() - started);
  PEN_TRY(indexer.finish({}, {}));
  return nlohmann::json{{"seconds", seconds},
                        {"cpu_seconds", cpu_seconds() - cpu_before},
                        {"chunks", counters.chunks.load()},
                        {"chunks_per_s", static_cast<double>(counters.chunks) / seconds},
                        {"index_s", 1e-9 * static_cast<double>(counters.index_ns)},
                        {"flush_s", 1e-9 * static_cast<double>(counters.flush_ns)}};
}

int run(int argc, char** argv) {
  Job job;
  job.options.overwrite = true;
  CLI::App app("Writes chunks through the store and prints how long it took");
  bool direct = false;
  bool buffered = false;
  app.add_option("--path", job.path, "The file to write; overwritten")->required();
  app.add_option("--chunk-bytes", job.chunk_bytes)->check(CLI::Range(std::uint64_t{8}, std::uint64_t{1} << 31));
  app.add_option("--total-bytes", job.total_bytes);
  app.add_option("--ring-bytes", job.ring_bytes, "Memory that the chunks are taken from");
  app.add_option("--writers", job.writers)->check(CLI::Range(1u, 64u));
  app.add_option("--chunks-per-s", job.chunks_per_s, "As a detector gives them; by default as fast as it goes");
  app.add_option("--write-threads", job.options.write_threads);
  app.add_option("--segment-bytes", job.options.segment_bytes);
  app.add_option("--extent-bytes", job.options.extent_bytes);
  std::int64_t flush_ms = job.options.flush_interval.count();
  app.add_option("--flush-ms", flush_ms, "How often readers see new chunks");
  app.add_option("--index-chunks", job.index_chunks, "With --index-only: how many");
  const std::map<std::string, Placement> placements{{"log", Placement::log}, {"slots", Placement::slots}};
  app.add_option("--placement", job.placement)->transform(CLI::CheckedTransformer(placements));
  app.add_option("--slot-bytes", job.slot_bytes, "With slots: room for a chunk");
  app.add_flag("--direct", direct, "Past the page cache (the default)");
  app.add_flag("--buffered", buffered, "Through the page cache")->excludes("--direct");
  app.add_flag("--copy", job.copy, "Give the store no owner, so that it copies every chunk");
  app.add_flag("!--no-crc", job.crc, "Have no checksum made; such a file fails its check");
  app.add_flag("--abandon", job.abandon, "Die by SIGKILL when all chunks are written");
  app.add_flag("!--no-swmr", job.options.swmr, "Do not let readers in");
  app.add_flag("--gate", job.gate, "Print a line and wait for one when the memory is filled");
  app.add_flag("--index-only", job.index_only, "Measure the index alone, with chunks that are not written");
  CLI11_PARSE(app, argc, argv);
  job.options.direct = !buffered;
  job.options.flush_interval = std::chrono::milliseconds(flush_ms);
  job.ring_bytes = std::max(job.ring_bytes, 2 * align_up(job.chunk_bytes, page_bytes));
  const auto result = job.index_only ? index_chunks(job) : write_chunks(job);
  if (!result.ok()) {
    std::cerr << result.error().message() << '\n';
    return 1;
  }
  auto document = *result;
  document["chunk_bytes"] = job.chunk_bytes;
  document["direct"] = job.options.direct;
  document["swmr"] = job.options.swmr;
  document["writers"] = job.writers;
  std::cout << document.dump() << '\n';
  return 0;
}

}  // namespace
}  // namespace penstock::store

int main(int argc, char** argv) { return penstock::store::run(argc, argv); }
