#include "recorder/series/series_spec.hpp"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "recorder/series/chunks/chunk_coding.hpp"
#include "recorder/tree/gaps.hpp"
#include "recorder/tree/possible.hpp"
#include "stream/element.hpp"

namespace penstock::recorder {
namespace {

constexpr std::uint64_t chunk_bytes_limit = (std::uint64_t{1} << 32) - 1;

/// Rather than lose a series whose frames cannot be cut as configured, its chunks are whole frames.
Result<Mosaic> mosaic_of(const Series& series, const std::vector<std::uint64_t>& tile) {
  const auto grid = series.element.value_or(ElementPlace{});
  auto mosaic = Mosaic::of(series.frame, grid, tile);
  if (!mosaic.ok() && grid.has_gaps() && mosaic.error().code() == Errc::too_large)
    return mosaic.error().with_context(fmt::format("user_data.penstock.element.gap is {}", stream::gap_text(grid)));
  if (mosaic.ok() || tile.empty()) return mosaic;
  spdlog::warn("series \"{}\": chunk.shape: {}; its chunks are whole {}", series.unique_id, mosaic.error().message(),
               grid.count() > 1 ? "elements" : "frames");
  return Mosaic::of(series.frame, grid, {});
}

/// The scan that the start message brings, or the configuration, if the series can have it.
Result<ScanConfig> scan_of(const Series& series, const Config& config, unsigned ranks, std::uint64_t chunks_a_frame) {
  PEN_ASSIGN(auto scan, ScanConfig::of_series(series.user_data_json, config.scan));
  if (!scan) return scan;
  PEN_TRY(config.check_chunks(chunks_a_frame > 1, true));
  const auto elements = series.element.value_or(ElementPlace{}).count();
  if (scan.order == ScanConfig::Order::given && elements > 1)
    return make_error(
        Errc::unsupported,
        "scan.order \"given\" does not support a detector with {} elements, which may disagree about a frame's point",
        elements);
  // A rank does not know which places the frames of others claim.
  if (scan.order == ScanConfig::Order::given && ranks > 1)
    return make_error(Errc::unsupported, "scan.order \"given\" does not support a recorder with {} ranks; use one rank",
                      ranks);
  if (scan.points() > chunks_max / chunks_a_frame)
    return make_error(Errc::too_large, "the scan has {} points; with {} chunks per frame the maximum is {}",
                      scan.points(), chunks_a_frame, chunks_max / chunks_a_frame);
  return scan;
}

/// Rather than lose a series that cannot have chunks of several frames, its chunks have one.
std::uint64_t gathered_frames(const Config& config, unsigned ranks, const Series& series, const Tiling& tiling,
                              const ScanConfig& scan) {
  const auto frames = series.frames > 0 ? std::min(config.chunk.frames, series.frames) : config.chunk.frames;
  if (frames == 1) return 1;
  const auto instead = [&](const std::string& why) {
    spdlog::warn("series \"{}\": chunk.frames is {}, but {}; its chunks have one frame", series.unique_id,
                 config.chunk.frames, why);
    return std::uint64_t{1};
  };
  if (ranks > 1) return instead(fmt::format("the recorder has {} ranks, each with some of the frames", ranks));
  if (series.element.value_or(ElementPlace{}).count() > 1) return instead("its frames come in elements");
  if (scan) return instead("its frames belong to the points of a scan");
  if (frames > chunk_bytes_limit / tiling.tile_bytes())
    return instead(fmt::format("a chunk would have {} times {} bytes; HDF5 has at most {}", frames, tiling.tile_bytes(),
                               chunk_bytes_limit));
  return frames;
}

}  // namespace

SeriesSpec::SeriesSpec(const Config& config, Series series, std::string path, Mosaic mosaic, ScanConfig scan)
    : config_(config),
      series_(std::move(series)),
      path_(std::move(path)),
      mosaic_(std::move(mosaic)),
      scan_(std::move(scan)) {}

Result<SeriesSpec> SeriesSpec::make(const Config& config, unsigned ranks, Series series, std::string path) {
  const auto elements = series.element.value_or(ElementPlace{}).count();
  if (series.channels.empty() || series.channels.size() * elements > 32)
    return make_error(Errc::unsupported, "channels has {} entries, expected 1 to {}{}", series.channels.size(),
                      32 / elements, elements > 1 ? fmt::format(" with {} elements", elements) : "");
  if (series.frame.shape.empty() || series.frame.shape.size() > 3)
    return make_error(Errc::unsupported, "frames have {} dimensions, expected 1 to 3", series.frame.shape.size());
  PEN_ASSIGN(const auto bytes, series.frame.bytes(config.frame_bytes_max), "frame");
  PEN_ASSIGN(auto mosaic, mosaic_of(series, config.chunk.shape));
  const auto chunks_a_frame = mosaic.tiles_a_frame();
  if (series.frames > chunks_max / chunks_a_frame)
    return make_error(Errc::too_large, "number_of_images: {} exceeds the maximum of {}", series.frames,
                      chunks_max / chunks_a_frame);
  PEN_TRY(config.check_chunks(chunks_a_frame > 1, false));
  auto scan = scan_of(series, config, ranks, chunks_a_frame);
  if (!scan.ok()) {
    if (!set_scan_aside(series, scan.error())) return std::move(scan).error();
    scan = ScanConfig();
  }
  SeriesSpec spec(config, std::move(series), std::move(path), std::move(mosaic), std::move(*scan));
  spec.part_bytes_ = bytes;
  spec.frames_a_chunk_ = gathered_frames(config, ranks, spec.series_, spec.tiling(), spec.scan_);
  if (!spec.maps_have_room(gap_mask_type))
    spec.series_.remarks.push_back(make_error(
        Errc::too_large,
        "masks of frames with {} pixels exceed tables_bytes ({}); the file gets no masks; increase tables_bytes",
        fmt::join(spec.mosaic_.assembled().shape, " × "), config.tables_bytes));
  return spec;
}

std::uint64_t SeriesSpec::segment_pool_bytes() const {
  return config_.segment_pool_bytes() - (gathers() ? config_.block_pool_bytes() : 0);
}

Result<void> SeriesSpec::check_segments() const {
  const auto raw = chunk_bytes();
  const auto encoded = !config_.filters.empty() ? ChunkCoding::filtered_bytes_max(raw)
                                                : encoded_bound(config_.codec, raw, size_of(series_.frame.type));
  const auto chunk = std::max<std::uint64_t>(encoded, raw);
  const auto room = segment_pool_bytes();
  if (chunk + 2 * page_bytes <= room) return {};
  return make_error(Errc::too_large, "chunks of {} bytes require pool_bytes of at least {}; it is {}: increase it", raw,
                    (chunk + 2 * page_bytes) * (config_.pool_bytes / room), config_.pool_bytes);
}

Ledger::Item SeriesSpec::item_of(const store::ChunkHead& head) const {
  const auto chunks_a_frame = mosaic_.tiles_a_frame();
  const auto number = scan_ ? head.frame : head.index / chunks_a_frame;
  const auto element = mosaic_.part(head.index % chunks_a_frame).element;
  return {FrameNumber{number}, part_of(static_cast<std::uint32_t>(head.dataset), element)};
}

/// The block that fills, and one more while that one is written.
std::uint64_t SeriesSpec::window_needed() const { return gathers() ? 2 * frames_a_chunk_ : 0; }

Result<void> SeriesSpec::check_window(std::uint64_t frames) const {
  if (frames == 0 || frames >= window_needed()) return {};
  return make_error(Errc::refused,
                    "the sender's window is {} frames, but a chunk has {} frames (chunk.frames) and requires a window "
                    "of at least {}; increase the window, or reduce chunk.frames",
                    frames, frames_a_chunk_, window_needed());
}

bool SeriesSpec::maps_have_room(ElementType type) const {
  return !mosaic_.grid().has_gaps() || gap_map_bytes(mosaic_, series_, type) <= config_.tables_bytes;
}

std::uint64_t SeriesSpec::filled(const LedgerCounts& counts) const {
  auto places = std::max(series_.frames, counts.end);
  // A scan has its grid, and grows by whole steps of its first axis.
  if (scan_) {
    const auto a_step = scan_.points() / scan_.axes.front().points;
    places = scan_.points();
    if (!scan_.names_places()) places = std::max(places, (counts.end + a_step - 1) / a_step * a_step);
  }
  return places - std::min(places, counts.received);
}

}  // namespace penstock::recorder
