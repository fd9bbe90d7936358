#include "load/plan.hpp"

#include <algorithm>

#include "base/bytes.hpp"

namespace penstock::load {
namespace {

constexpr double seconds_of_a_run_max = 30.0 * 86400;
constexpr std::uint64_t gibibyte = std::uint64_t{1} << 30;
constexpr std::uint64_t thread_bytes_max = std::uint64_t{1} << 50;
constexpr auto threads_limits = between(1, 256);
constexpr auto hour = between_reals(0, 3600);
constexpr std::size_t prefix_bytes_max = 100;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
// Rings of io_uring take that many without asking for more memory than a user may lock.
constexpr std::uint64_t queue_depth_max = 1024;
constexpr std::size_t folders_max = 256;
constexpr std::size_t hints_max = 100;
/// What every MPI takes is less, and its own to say; this bounds what is held here.
constexpr std::size_t hint_bytes_max = 1000;

constexpr std::pair<std::string_view, Sync> sync_names[] = {
    {"none", Sync::none}, {"end", Sync::end}, {"each", Sync::each}};
constexpr std::pair<std::string_view, ContentKind> content_names[] = {{"random", ContentKind::random},
                                                                      {"zeros", ContentKind::zeros},
                                                                      {"compressible", ContentKind::compressible},
                                                                      {"file", ContentKind::file}};
constexpr std::pair<std::string_view, Layout> layout_names[] = {{"file_a_frame", Layout::file_a_frame},
                                                                {"file_a_writer", Layout::file_a_writer}};
constexpr std::pair<std::string_view, Order> order_names[] = {{"sequential", Order::sequential},
                                                              {"random", Order::random}};

bool is_hint(const std::string& text) {
  return !text.empty() && text.size() <= hint_bytes_max && text.find('\0') == std::string::npos;
}

void hints_field(Archive& archive, std::map<std::string, std::string>& hints) {
  const auto read = [&](const Json& given) -> Result<void> {
    const auto problem =
        make_error(Errc::invalid_argument, "hints: {} must be an object of at most {} names and texts of 1 to {} bytes",
                   excerpt(given), hints_max, hint_bytes_max);
    if (!given.is_object() || given.size() > hints_max) return problem;
    for (const auto& [name, value] : given.items()) {
      if (!is_hint(name) || !value.is_string() || !is_hint(value.get<std::string>())) return problem;
      hints[name] = value.get<std::string>();
    }
    return {};
  };
  archive.custom("hints", "texts by name", read, [&] { return Json(hints); });
}

/// The times that go into the document are kept in memory.
void check_record(Archive& archive, const FramesPlan& plan) {
  archive.check(!plan.record || plan.frames <= recorded_frames_max, "record",
                fmt::format("must be false for more than {} frames", recorded_frames_max));
}

void check_image(Archive& archive, const FramesPlan& plan) {
  if (!plan.image) return;
  const auto& image = *plan.image;
  archive.check(plan.layout == Layout::file_a_frame, "image", "must be left out with layout file_a_writer");
  archive.check(image.pixels_at <= plan.frame_bytes, "image.pixels_at",
                fmt::format("exceeds the maximum of {} (frame_bytes)", plan.frame_bytes));
  const auto behind = plan.frame_bytes - std::min(plan.frame_bytes, image.pixels_at);
  archive.check(image.pixels_bytes <= behind, "image.pixels_bytes",
                fmt::format("exceeds the maximum of {} (the rest of frame_bytes)", behind));
}

}  // namespace

static Names<Sync> names_of(Sync) { return sync_names; }
static Names<ContentKind> names_of(ContentKind) { return content_names; }
static Names<Layout> names_of(Layout) { return layout_names; }
static Names<Order> names_of(Order) { return order_names; }

void fields(Archive& archive, NullPlan& plan) {
  archive.seconds("delay_s", plan.delay_ns, hour);
  archive.field("straggler_every", plan.straggler_every);
  archive.seconds("straggler_s", plan.straggler_ns, hour);
  archive.seconds("freeze_at_s", plan.freeze_at_ns, hour);
  archive.seconds("freeze_s", plan.freeze_ns, hour);
}

void fields(Archive& archive, PosixPlan& plan) {
  archive.required("folder", plan.folder, not_empty);
  archive.field("direct", plan.direct);
  archive.field("sync", plan.sync);
  archive.field("queue_depth", plan.queue_depth, between(1, queue_depth_max));
  archive.check(plan.queue_depth == 1 || plan.sync != Sync::each, "queue_depth", "must be 1 with sync each",
                "each write would wait for its own");
}

void fields(Archive& archive, StorePlan& plan) {
  archive.required("folder", plan.folder, not_empty);
  archive.field("direct", plan.direct);
  archive.choice<Sync>("sync", plan.sync, Names<Sync>(sync_names).first(2));
  archive.field("queue_depth", plan.queue_depth, between(2, queue_depth_max));
}

void fields(Archive& archive, MpiioPlan& plan) {
  archive.required("folder", plan.folder, not_empty);
  archive.field("sync", plan.sync);
  archive.field("shared", plan.shared);
  archive.field("collective", plan.collective);
  archive.field("block_bytes", plan.block_bytes, between(0, thread_bytes_max));
  hints_field(archive, plan.hints);
  archive.check(plan.shared || !plan.collective, "collective", "must be false unless all ranks share a file");
  archive.check(plan.shared || plan.block_bytes == 0, "block_bytes", "must be 0 unless all ranks share a file");
}

void fields(Archive& archive, Hdf5Plan& plan) {
  archive.required("folder", plan.folder, not_empty);
  archive.field("sync", plan.sync);
  archive.field("shared", plan.shared);
  archive.field("collective", plan.collective);
  archive.field("chunk_bytes", plan.chunk_bytes, between(0, gibibyte));
  archive.field("deflate", plan.deflate, between(0, 9));
  archive.check(plan.shared || !plan.collective, "collective", "must be false unless all ranks share a file");
  archive.check(plan.deflate == 0 || plan.chunk_bytes > 0, "deflate", "must be 0 without chunk_bytes");
  archive.check(plan.deflate == 0 || !plan.shared || plan.collective, "deflate",
                "must be 0 unless calls are collective", "HDF5 compresses only in collective calls");
}

void fields(Archive& archive, RemotePlan& plan) {
  archive.required("url", plan.url, not_empty);
  archive.field("sync", plan.sync);
}

void fields(Archive& archive, TreesPlan& plan) {
  archive.required("count", plan.count, between(0, 1'000'000'000));
  archive.field("depth", plan.depth, between(0, 20));
  archive.field("branch", plan.branch, between(1, 10'000));
  archive.field("threads", plan.threads, between(1, 65536));
  archive.required("items", plan.items, between(1, 1'000'000'000));
  archive.field("folders", plan.folders);
}

void fields(Archive& archive, RemovePlan& plan) {
  archive.required("files", plan.files, between(0, 1'000'000'000));
  archive.field("suffix", plan.suffix, not_empty);
  archive.field("trees", plan.trees);
  archive.field("folder", plan.folder);
}

void fields(Archive& archive, FramesPlan& plan) {
  archive.required("frames", plan.frames, between(1, 1'000'000'000));
  archive.required("frame_bytes", plan.frame_bytes, between(1, 4 * gibibyte));
  archive.required("rate_hz", plan.rate_hz, between_reals(0, 1e7));
  archive.field("seconds_max", plan.seconds_max, between_reals(0, seconds_of_a_run_max));
  archive.field("writers", plan.writers, threads_limits);
  archive.field("buffer_frames", plan.buffer_frames, between(1, 10'000'000));
  archive.seconds("late_after_s", plan.late_after_ns, hour);
  archive.field("layout", plan.layout);
  archive.field("record", plan.record);
  archive.field("ring_frames", plan.ring_frames, between(0, 1'000'000'000));
  archive.field("rename", plan.rename);
  archive.field("image", plan.image);
  if (!archive.sound()) return;
  archive.check(plan.rate_hz <= 0 || static_cast<double>(plan.frames) / plan.rate_hz <= seconds_of_a_run_max, "rate_hz",
                fmt::format("must be a rate at which {} frames take at most 30 days", plan.frames));
  archive.check(plan.rate_hz <= 0 || plan.seconds_max <= 0, "seconds_max", "must be 0 with a rate");
  check_record(archive, plan);
  archive.check(!plan.rename || plan.layout == Layout::file_a_frame, "rename",
                "must be false with layout file_a_writer");
  check_image(archive, plan);
}

void fields(Archive& archive, StreamPlan& plan) {
  archive.field("threads", plan.threads, threads_limits);
  archive.required("thread_bytes", plan.thread_bytes, between(1, thread_bytes_max));
  archive.required("transfer_bytes", plan.transfer_bytes, between(1, gibibyte));
  archive.field("shared", plan.shared);
  archive.field("segments", plan.segments, between(1, std::numeric_limits<std::uint64_t>::max()));
  archive.field("order", plan.order);
  archive.field("read", plan.read);
  archive.field("verify", plan.verify);
  archive.field("seconds_max", plan.seconds_max, between_reals(0, seconds_of_a_run_max));
  if (!archive.sound()) return;
  archive.check(plan.thread_bytes % plan.transfer_bytes == 0, "thread_bytes",
                fmt::format("must be a multiple of {} (transfer_bytes)", plan.transfer_bytes));
  archive.check(plan.transfers() % plan.segments == 0, "segments",
                fmt::format("must be a divisor of the {} transfers of a thread", plan.transfers()));
  archive.check(plan.read || !plan.verify, "verify", "must be false unless data is read");
}

static void content_fields(Archive& archive, LoadPlan& plan) {
  archive.field("content", plan.content);
  const bool is_file = plan.content == ContentKind::file;
  archive.field("content_ratio", plan.content_ratio, between_reals(1, is_file ? 1e9 : content_ratio_max));
  archive.field("content_file", plan.content_file);
  archive.check(!is_file || !plan.content_file.empty(), "content_file", "must be a path with content file");
  archive.check(is_file || plan.content_file.empty(), "content_file", "must be empty unless content is file");
}

void fields(Archive& archive, LoadPlan& plan) {
  archive.object(
      "backend", [&](Archive& backend) { backend.kind("kind", plan.backend); }, true);
  archive.object(
      "workload", [&](Archive& workload) { workload.kind("kind", plan.workload); }, true);
  content_fields(archive, plan);
  archive.field("seed", plan.seed);
  archive.field("prefix", plan.prefix, Length{1, prefix_bytes_max});
  archive.check(plan.prefix.front() != '.' && plan.prefix.find('/') == std::string::npos, "prefix",
                "must be the start of file names, without '/', and not start with '.'");
  archive.field("interval_s", plan.interval_s, between_reals(0.001, 3600));
  archive.field("drain_timeout_s", plan.drain_timeout_s, between_reals(0, 86400));
  archive.field("folders", plan.folders, Count{0, folders_max}, not_empty);
  archive.one_of("log_level", plan.log_level, log_levels);
  if (archive.sound()) check_together(archive, plan);
}

Result<LoadPlan> LoadPlan::from_json(std::string_view text) {
  if (text.substr(0, byte_order_mark.size()) == byte_order_mark)
    return make_error(Errc::malformed, "the job starts with a byte order mark: save it as UTF-8 without one");
  PEN_ASSIGN(const auto document, parse_json(text, "the plan"));
  return job_from<LoadPlan>(document);
}

Json LoadPlan::to_json() const {
  Json document;
  write_job(*this, document);
  return document;
}

LoadPlan LoadPlan::for_rank(unsigned rank) const {
  auto mine = *this;
  if (folders.empty()) return mine;
  const auto take_folder = [&](auto& storage) {
    if constexpr (requires { storage.folder; }) storage.folder = folders[rank % folders.size()];
  };
  std::visit(take_folder, mine.backend);
  return mine;
}

Json LoadPlan::description() {
  Json description;
  describe_job<LoadPlan>(description);
  return description;
}

std::optional<unsigned> reading_shift(const LoadPlan& plan, unsigned ranks) {
  const auto folders = plan.folders.size();
  if (folders < 2 || ranks < 2) return 1;
  for (unsigned shift = 1; shift < ranks; ++shift) {
    unsigned rank = 0;
    while (rank < ranks && rank % folders != (rank + shift) % ranks % folders) ++rank;
    if (rank == ranks) return shift;
  }
  return std::nullopt;
}

std::string file_name(const LoadPlan& plan, std::uint64_t number) {
  const auto* frames = std::get_if<FramesPlan>(&plan.workload);
  const bool is_image = frames != nullptr && frames->image;
  const auto* remove = std::get_if<RemovePlan>(&plan.workload);
  const std::string suffix = is_image ? frames->image->suffix : remove != nullptr ? remove->suffix : "bin";
  return fmt::format("{}{:09}.{}", plan.prefix, number, suffix);
}

std::string tree_name(const LoadPlan& plan, std::uint64_t number) {
  return fmt::format("{}{:09}", plan.prefix, number);
}

}  // namespace penstock::load
