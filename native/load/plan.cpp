#include "load/plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/bytes.hpp"
#include "load/plan_hdf5.hpp"
#include "load/plan_mpiio.hpp"

namespace penstock::load {
namespace {

constexpr double seconds_of_a_run_max = 30.0 * 86400;
constexpr std::uint64_t memory_max = std::uint64_t{1} << 36;
constexpr unsigned threads_max = 256;
constexpr std::size_t prefix_bytes_max = 100;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
constexpr std::array<std::string_view, 4> log_levels = {"debug", "info", "warning", "error"};

template <typename Value>
using Names = std::array<std::pair<std::string_view, Value>, 3>;

constexpr Names<Sync> sync_names = {{{"none", Sync::none}, {"end", Sync::end}, {"each", Sync::each}}};

std::string_view name(Sync sync) {
  return std::find_if(sync_names.begin(), sync_names.end(), [sync](const auto& named) { return named.second == sync; })
      ->first;
}

constexpr std::array<std::pair<std::string_view, ContentKind>, 4> content_names = {
    {{"random", ContentKind::random},
     {"zeros", ContentKind::zeros},
     {"compressible", ContentKind::compressible},
     {"file", ContentKind::file}}};

std::string_view name(ContentKind content) {
  return std::find_if(content_names.begin(), content_names.end(),
                      [content](const auto& named) { return named.second == content; })
      ->first;
}

std::string_view name(Layout layout) { return layout == Layout::file_a_frame ? "file_a_frame" : "file_a_writer"; }

std::int64_t nanoseconds_of(double seconds) { return static_cast<std::int64_t>(std::llround(seconds * 1e9)); }
double seconds_of(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

Result<std::int64_t> duration(Fields& fields, const std::string& name, double otherwise_s, double most_s) {
  PEN_ASSIGN(const auto seconds, fields.number(name, otherwise_s, 0, most_s));
  return nanoseconds_of(seconds);
}

Result<NullPlan> read_null(Fields& fields) {
  NullPlan plan;
  constexpr double most_s = 3600;
  PEN_ASSIGN(plan.delay_ns, duration(fields, "delay_s", 0, most_s));
  PEN_ASSIGN(plan.straggler_every, fields.whole("straggler_every", 0));
  PEN_ASSIGN(plan.straggler_ns, duration(fields, "straggler_s", 0, most_s));
  PEN_ASSIGN(plan.freeze_at_ns, duration(fields, "freeze_at_s", 0, most_s));
  PEN_ASSIGN(plan.freeze_ns, duration(fields, "freeze_s", 0, most_s));
  return plan;
}

Result<Sync> read_sync(Fields& fields, std::string_view otherwise) {
  PEN_ASSIGN(const auto text, fields.text("sync", std::string(otherwise)));
  for (const auto& [known, sync] : sync_names)
    if (known == text) return sync;
  return fields.wrong("sync", "none, end or each");
}

// Rings of io_uring take that many without asking for more memory than a user may lock.
constexpr std::uint64_t queue_depth_max = 1024;

Result<PosixPlan> read_posix(Fields& fields) {
  PosixPlan plan;
  PEN_ASSIGN(plan.folder, read_folder(fields));
  PEN_ASSIGN(plan.direct, fields.flag("direct", true));
  PEN_ASSIGN(plan.sync, read_sync(fields, "each"));
  PEN_ASSIGN(const auto depth, fields.whole("queue_depth", 1, 1, queue_depth_max));
  plan.queue_depth = static_cast<unsigned>(depth);
  if (depth > 1 && plan.sync == Sync::each)
    return fields.wrong("queue_depth", "1 with sync each: every write would wait for its own");
  return plan;
}

Result<StorePlan> read_store(Fields& fields) {
  StorePlan plan;
  PEN_ASSIGN(plan.folder, read_folder(fields));
  PEN_ASSIGN(plan.direct, fields.flag("direct", true));
  PEN_ASSIGN(plan.sync, read_sync(fields, "end"));
  if (plan.sync == Sync::each) return fields.wrong("sync", "none or end: a store has many transfers in a segment");
  PEN_ASSIGN(const auto depth, fields.whole("queue_depth", plan.queue_depth, 2, queue_depth_max));
  plan.queue_depth = static_cast<unsigned>(depth);
  return plan;
}

Result<MpiioPlan> read_mpiio_with_sync(Fields& fields) {
  PEN_ASSIGN(auto plan, read_mpiio(fields));
  PEN_ASSIGN(plan.sync, read_sync(fields, "end"));
  return plan;
}

Result<Hdf5Plan> read_hdf5_with_sync(Fields& fields) {
  PEN_ASSIGN(auto plan, read_hdf5(fields));
  PEN_ASSIGN(plan.sync, read_sync(fields, "end"));
  return plan;
}

Result<void> read_backend(Fields& fields, LoadPlan& plan) {
  PEN_TRY(fields.require("backend"));
  PEN_ASSIGN(auto backend, Fields::of(*fields.find("backend"), "backend"));
  PEN_ASSIGN(const auto kind, backend.text("kind", ""));
  if (kind == "null") {
    PEN_ASSIGN(plan.backend, read_null(backend));
  } else if (kind == "posix") {
    PEN_ASSIGN(plan.backend, read_posix(backend));
  } else if (kind == "store") {
    PEN_ASSIGN(plan.backend, read_store(backend));
  } else if (kind == "mpiio") {
    PEN_ASSIGN(plan.backend, read_mpiio_with_sync(backend));
  } else if (kind == "hdf5") {
    PEN_ASSIGN(plan.backend, read_hdf5_with_sync(backend));
  } else {
    return backend.wrong("kind", "null, posix, mpiio, hdf5 or store");
  }
  return backend.refuse_others();
}

Result<unsigned> read_threads(Fields& fields, const std::string& name) {
  PEN_ASSIGN(const auto threads, fields.whole(name, 1, 1, threads_max));
  return static_cast<unsigned>(threads);
}

/// Each thread holds what it writes in memory of its own.
Result<void> check_memory_of(const LoadPlan& plan) {
  const auto bytes = memory_bytes(plan, 1);
  if (bytes <= memory_max) return {};
  return make_error(
      Errc::invalid_argument,
      "workload.threads or writers hold {} bytes in memory together, more than {}: fewer of them, smaller "
      "blocks, or a lower backend.queue_depth",
      bytes, memory_max);
}

Result<FramesPlan> read_frames(Fields& fields) {
  FramesPlan plan;
  PEN_TRY(fields.require("frames"));
  PEN_ASSIGN(plan.frames, fields.whole("frames", 0, 1, 1'000'000'000));
  PEN_TRY(fields.require("frame_bytes"));
  PEN_ASSIGN(plan.frame_bytes, fields.whole("frame_bytes", 0, 1, std::uint64_t{1} << 32));
  PEN_TRY(fields.require("rate_hz"));
  PEN_ASSIGN(plan.rate_hz, fields.number("rate_hz", 0, 0, 1e7));
  if (plan.rate_hz > 0 && static_cast<double>(plan.frames) / plan.rate_hz > seconds_of_a_run_max)
    return fields.wrong("rate_hz", fmt::format("a rate at which {} frames take at most 30 days", plan.frames));
  PEN_ASSIGN(plan.writers, read_threads(fields, "writers"));
  PEN_ASSIGN(plan.buffer_frames, fields.whole("buffer_frames", 1, 1, 10'000'000));
  PEN_ASSIGN(plan.late_after_ns, duration(fields, "late_after_s", 0.01, 3600));
  PEN_ASSIGN(const auto layout, fields.text("layout", "file_a_frame"));
  if (layout != "file_a_frame" && layout != "file_a_writer")
    return fields.wrong("layout", "file_a_frame or file_a_writer");
  plan.layout = layout == "file_a_frame" ? Layout::file_a_frame : Layout::file_a_writer;
  PEN_ASSIGN(plan.record, fields.flag("record", true));
  if (plan.record && plan.frames > recorded_frames_max)
    return fields.wrong("record", fmt::format("false for more than {} frames", recorded_frames_max));
  const bool one_each = plan.layout == Layout::file_a_frame;
  PEN_ASSIGN(plan.rename, fields.flag("rename", false));
  if (plan.rename && !one_each) return fields.wrong("rename", "false where layout is file_a_writer");
  const auto* image = fields.find("image");
  if (image == nullptr) return plan;
  if (!one_each) return fields.wrong("image", "none where layout is file_a_writer");
  PEN_ASSIGN(auto of_image, Fields::of(*image, fields.path_of("image")));
  PEN_ASSIGN(plan.image, ImagePlan::read(of_image, plan.frame_bytes));
  return plan;
}

Result<StreamPlan> read_stream(Fields& fields) {
  StreamPlan plan;
  PEN_TRY(fields.require("transfer_bytes"));
  PEN_ASSIGN(plan.transfer_bytes, fields.whole("transfer_bytes", 0, 1, std::uint64_t{1} << 30));
  PEN_TRY(fields.require("thread_bytes"));
  PEN_ASSIGN(plan.thread_bytes, fields.whole("thread_bytes", 0, plan.transfer_bytes, std::uint64_t{1} << 50));
  if (plan.thread_bytes % plan.transfer_bytes != 0)
    return fields.wrong("thread_bytes", fmt::format("a multiple of transfer_bytes, {}", plan.transfer_bytes));
  PEN_ASSIGN(plan.threads, read_threads(fields, "threads"));
  PEN_ASSIGN(plan.shared, fields.flag("shared", false));
  PEN_ASSIGN(plan.segments, fields.whole("segments", 1, 1));
  if (plan.transfers() % plan.segments != 0)
    return fields.wrong("segments", fmt::format("a divisor of the {} transfers of a thread", plan.transfers()));
  PEN_ASSIGN(const auto order, fields.text("order", "sequential"));
  if (order != "sequential" && order != "random") return fields.wrong("order", "sequential or random");
  plan.order = order == "random" ? Order::random : Order::sequential;
  PEN_ASSIGN(plan.read, fields.flag("read", true));
  PEN_ASSIGN(plan.verify, fields.flag("verify", false));
  if (plan.verify && !plan.read) return fields.wrong("verify", "false where nothing is read");
  PEN_ASSIGN(plan.seconds_max, fields.number("seconds_max", 0, 0, seconds_of_a_run_max));
  return plan;
}

Result<void> read_workload(Fields& fields, LoadPlan& plan) {
  PEN_TRY(fields.require("workload"));
  PEN_ASSIGN(auto workload, Fields::of(*fields.find("workload"), "workload"));
  PEN_ASSIGN(const auto kind, workload.text("kind", ""));
  if (kind == "frames") {
    PEN_ASSIGN(plan.workload, read_frames(workload));
  } else if (kind == "stream") {
    PEN_ASSIGN(plan.workload, read_stream(workload));
  } else if (kind == "metadata") {
    PEN_ASSIGN(plan.workload, MetadataPlan::read(workload));
  } else if (kind == "network") {
    PEN_ASSIGN(plan.workload, read_network(workload));
  } else if (kind == "network_server") {
    PEN_ASSIGN(plan.workload, read_network_server(workload));
  } else {
    return workload.wrong("kind", "frames, stream, metadata, network or network_server");
  }
  return workload.refuse_others();
}

bool over_network(const LoadPlan& plan) {
  return std::holds_alternative<NetworkPlan>(plan.workload) || std::holds_alternative<NetworkServerPlan>(plan.workload);
}

Result<void> read_content(Fields& fields, LoadPlan& plan) {
  PEN_ASSIGN(const auto text, fields.text("content", "random"));
  const auto* const named = std::find_if(content_names.begin(), content_names.end(),
                                         [&text](const auto& each) { return each.first == text; });
  if (named == content_names.end()) return fields.wrong("content", "random, zeros, compressible or file");
  plan.content = named->second;
  const bool is_file = plan.content == ContentKind::file;
  PEN_ASSIGN(plan.content_ratio,
             fields.number("content_ratio", plan.content_ratio, 1, is_file ? 1e9 : content_ratio_max));
  PEN_ASSIGN(plan.content_file, fields.text("content_file", ""));
  if (is_file && (plan.content_file.empty() || plan.content_file.find('\0') != std::string::npos))
    return fields.wrong("content_file", "a path, with content file");
  if (!is_file && !plan.content_file.empty()) return fields.wrong("content_file", "empty, unless content is file");
  const auto* frames = std::get_if<FramesPlan>(&plan.workload);
  if (is_file && frames != nullptr && frames->image && !frames->image->is_whole())
    return fields.wrong("content", "another one with workload.image, which has pixels of its own");
  return {};
}

/// What one part of the plan allows only together with another.
Result<void> check_together(const Fields& fields, const LoadPlan& plan) {
  const auto* posix = std::get_if<PosixPlan>(&plan.backend);
  if (over_network(plan)) {
    if (std::holds_alternative<NullPlan>(plan.backend)) return {};
    return make_error(Errc::invalid_argument, "backend.kind is not null: a network workload stores nothing");
  }
  if (const auto* mpiio = std::get_if<MpiioPlan>(&plan.backend))
    PEN_TRY(std::visit([&](const auto& workload) { return check_workload(*mpiio, workload); }, plan.workload));
  if (const auto* hdf5 = std::get_if<Hdf5Plan>(&plan.backend))
    PEN_TRY(std::visit([&](const auto& workload) { return check_workload(*hdf5, workload); }, plan.workload));
  if (posix != nullptr && posix->queue_depth > 1 && !std::holds_alternative<StreamPlan>(plan.workload))
    return make_error(Errc::invalid_argument, "backend.queue_depth is {}, expected 1 unless workload.kind is stream",
                      posix->queue_depth);
  if (std::holds_alternative<StorePlan>(plan.backend) && !std::holds_alternative<StreamPlan>(plan.workload))
    return make_error(Errc::invalid_argument, "backend.kind is \"store\", which is for workload.kind stream");
  if (std::holds_alternative<MetadataPlan>(plan.workload)) {
    if (posix == nullptr || !posix->direct) return {};
    return make_error(Errc::invalid_argument, "backend.direct is true, expected false with workload.kind metadata");
  }
  if (const auto* stream = std::get_if<StreamPlan>(&plan.workload)) {
    PEN_TRY(check_store(plan, 1));
    if (std::holds_alternative<NullPlan>(plan.backend) && stream->verify)
      return make_error(Errc::invalid_argument, "workload.verify is true, expected false with backend.kind null");
    if (posix != nullptr && posix->direct && stream->transfer_bytes % page_bytes != 0)
      return make_error(Errc::invalid_argument,
                        "workload.transfer_bytes is {}, expected a multiple of {} with backend.direct",
                        stream->transfer_bytes, page_bytes);
    return {};
  }
  const auto& frames = std::get<FramesPlan>(plan.workload);
  const auto seconds = frames.rate_hz > 0 ? static_cast<double>(frames.frames) / frames.rate_hz : 0;
  if (seconds / plan.interval_s > static_cast<double>(intervals_max))
    return fields.wrong("interval_s", fmt::format("a time that {:.0f} s have at most {} of", seconds, intervals_max));
  return {};
}

Json backend_json(const std::variant<NullPlan, PosixPlan, MpiioPlan, Hdf5Plan, StorePlan>& backend) {
  if (const auto* store = std::get_if<StorePlan>(&backend))
    return {{"kind", "store"},
            {"folder", store->folder},
            {"direct", store->direct},
            {"sync", name(store->sync)},
            {"queue_depth", store->queue_depth}};
  if (const auto* hdf5 = std::get_if<Hdf5Plan>(&backend)) return to_json(*hdf5, name(hdf5->sync));
  if (const auto* mpiio = std::get_if<MpiioPlan>(&backend)) return to_json(*mpiio, name(mpiio->sync));
  if (const auto* posix = std::get_if<PosixPlan>(&backend))
    return {{"kind", "posix"},
            {"folder", posix->folder},
            {"direct", posix->direct},
            {"sync", name(posix->sync)},
            {"queue_depth", posix->queue_depth}};
  const auto& null = std::get<NullPlan>(backend);
  return {{"kind", "null"},
          {"delay_s", seconds_of(null.delay_ns)},
          {"straggler_every", null.straggler_every},
          {"straggler_s", seconds_of(null.straggler_ns)},
          {"freeze_at_s", seconds_of(null.freeze_at_ns)},
          {"freeze_s", seconds_of(null.freeze_ns)}};
}

Json workload_json(const LoadPlan& plan) {
  const auto& workload = plan.workload;
  if (const auto* metadata = std::get_if<MetadataPlan>(&workload)) return metadata->to_json();
  if (const auto* client = std::get_if<NetworkPlan>(&workload)) return to_json(*client);
  if (const auto* server = std::get_if<NetworkServerPlan>(&workload)) return to_json(*server);
  if (const auto* frames = std::get_if<FramesPlan>(&workload))
    return {{"kind", "frames"},
            {"frames", frames->frames},
            {"frame_bytes", frames->frame_bytes},
            {"rate_hz", frames->rate_hz},
            {"writers", frames->writers},
            {"buffer_frames", frames->buffer_frames},
            {"late_after_s", seconds_of(frames->late_after_ns)},
            {"layout", name(frames->layout)},
            {"record", frames->record},
            {"rename", frames->rename},
            {"image", frames->image ? frames->image->to_json() : Json()}};
  const auto& stream = std::get<StreamPlan>(workload);
  return {{"kind", "stream"},
          {"threads", stream.threads},
          {"thread_bytes", stream.thread_bytes},
          {"transfer_bytes", stream.transfer_bytes},
          {"shared", stream.shared},
          {"segments", stream.segments},
          {"order", stream.order == Order::random ? "random" : "sequential"},
          {"read", stream.read},
          {"verify", stream.verify},
          {"seconds_max", stream.seconds_max}};
}

}  // namespace

Result<std::string> read_folder(Fields& fields) {
  PEN_TRY(fields.require("folder"));
  PEN_ASSIGN(auto folder, fields.text("folder", ""));
  if (folder.empty() || folder.find('\0') != std::string::npos) return fields.wrong("folder", "a path");
  return folder;
}

Result<LoadPlan> LoadPlan::from_json(std::string_view text) {
  if (text.substr(0, byte_order_mark.size()) == byte_order_mark)
    return make_error(Errc::malformed, "the plan begins with a byte order mark: save it as UTF-8 without one");
  PEN_ASSIGN(const auto document, parse_json(text, "the plan"));
  PEN_ASSIGN(auto fields, Fields::of(document, ""));
  LoadPlan plan;
  PEN_TRY(read_backend(fields, plan));
  PEN_TRY(read_workload(fields, plan));
  PEN_TRY(read_content(fields, plan));
  PEN_ASSIGN(plan.seed, fields.whole("seed", plan.seed));
  PEN_ASSIGN(plan.prefix, fields.text("prefix", "load-"));
  const bool leaves = plan.prefix.find_first_of(std::string_view("/\0", 2)) != std::string::npos;
  if (plan.prefix.empty() || plan.prefix.size() > prefix_bytes_max || plan.prefix.front() == '.' || leaves)
    return fields.wrong("prefix", "the beginning of file names, without '/', not with '.' in front");
  PEN_ASSIGN(plan.interval_s, fields.number("interval_s", plan.interval_s, 0.001, 3600));
  PEN_ASSIGN(plan.drain_timeout_s, fields.number("drain_timeout_s", plan.drain_timeout_s, 0, 86400));
  PEN_ASSIGN(plan.log_level, fields.text("log_level", plan.log_level));
  if (std::find(log_levels.begin(), log_levels.end(), plan.log_level) == log_levels.end())
    return fields.wrong("log_level", "debug, info, warning or error");
  PEN_TRY(check_together(fields, plan));
  PEN_TRY(check_memory_of(plan));
  PEN_TRY(fields.refuse_others());
  return plan;
}

Json LoadPlan::to_json() const {
  return {{"backend", backend_json(backend)},
          {"workload", workload_json(*this)},
          {"content", name(content)},
          {"content_ratio", content_ratio},
          {"content_file", content_file},
          {"seed", seed},
          {"prefix", prefix},
          {"interval_s", interval_s},
          {"drain_timeout_s", drain_timeout_s},
          {"log_level", log_level}};
}

Result<void> check_store(const LoadPlan& plan, unsigned ranks) {
  const auto* stream = std::get_if<StreamPlan>(&plan.workload);
  if (stream == nullptr || !std::holds_alternative<StorePlan>(plan.backend)) return {};
  const auto transfers = blocks_of_file(*stream, ranks);
  if (transfers <= store_transfers_max) return {};
  return make_error(Errc::invalid_argument,
                    "workload.thread_bytes is {} in transfers of {}: {} of them in a file, and a store has {} at most; "
                    "larger transfer_bytes",
                    stream->thread_bytes, stream->transfer_bytes, transfers, store_transfers_max);
}

std::string file_name(const LoadPlan& plan, std::uint64_t number) {
  const auto* frames = std::get_if<FramesPlan>(&plan.workload);
  const bool is_image = frames != nullptr && frames->image;
  return fmt::format("{}{:09}.{}", plan.prefix, number, is_image ? frames->image->suffix : "bin");
}

std::string tree_name(const LoadPlan& plan, std::uint64_t number) {
  return fmt::format("{}{:09}", plan.prefix, number);
}

}  // namespace penstock::load
