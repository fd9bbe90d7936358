// Stores with random sizes of chunks, segments and budgets, dense around the boundaries of segments, pages and the
// classes of the buffer pool. Each must accept every chunk, and plain HDF5 must read back what was written.
// PENSTOCK_SIZES_SECONDS sets how long each kind is tried, PENSTOCK_SIZES_SEED repeats one run.
#include <chrono>
#include <cstdlib>

#include "../support/rounds.hpp"
#include "store_fixture.hpp"

namespace penstock::store::testing {
namespace {

using Random = std::mt19937_64;

constexpr std::uint64_t kib = 1 << 10;
constexpr std::uint64_t mib = 1 << 20;

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::uint64_t between(Random& random, std::uint64_t first, std::uint64_t last) {
  return std::uniform_int_distribution<std::uint64_t>(first, last)(random);
}

struct Case {
  std::uint64_t seed;
  std::uint64_t frame_bytes, frames;
  StoreOptions options;
  bool reserves;               ///< reserve() and commit(); otherwise put()
  std::uint64_t bound_factor;  ///< reserve() asks for this many times the frame
  Placement placement;
};

std::ostream& operator<<(std::ostream& out, const Case& each) {
  return out << "PENSTOCK_SIZES_SEED=" << each.seed << ": " << each.frames << " frames of " << each.frame_bytes
             << " bytes, segments of " << each.options.segment_bytes << ", buffers of " << each.options.buffer_bytes
             << (each.reserves ? ", reserved " : ", put ") << each.bound_factor
             << (each.options.direct ? ", direct" : ", buffered")
             << (each.placement == Placement::slots ? ", slots" : "");
}

/// A size from 1 byte to `most`, near a boundary more often than not.
std::uint64_t draw_size(Random& random, std::uint64_t segment, std::uint64_t most) {
  const std::uint64_t boundaries[] = {8, 512, 4 * kib, segment / 16, segment / 2, segment, mib, 2 * mib, 5 * mib / 2};
  if (between(random, 0, 3) == 0) return between(random, 1, most);
  const auto boundary = boundaries[between(random, 0, std::size(boundaries) - 1)];
  const auto share = boundary / between(random, 1, 40);
  const auto size = between(random, 0, 1) == 0 ? boundary + between(random, 0, 32) : share + between(random, 0, 32);
  return std::clamp<std::uint64_t>(size < 16 ? size : size - 16, 1, most);
}

Case draw(std::uint64_t seed, bool reserves, Placement placement) {
  Random random(seed);
  Case drawn{seed, 0, 0, {}, reserves, between(random, 1, 4), placement};
  auto& options = drawn.options;
  options.segment_bytes =
      std::array{16 * kib, 64 * kib, mib, 8 * mib}[between(random, 0, 3)] + 4 * kib * between(random, 0, 3);
  options.extent_bytes = std::max<std::uint64_t>(mib, 2 * options.segment_bytes) / (4 * kib) * (4 * kib);
  options.buffer_bytes = options.segment_bytes * between(random, 3, 20);
  options.write_threads = static_cast<unsigned>(between(random, 1, 3));
  options.direct = between(random, 0, 1) == 0;
  options.flush_interval = std::chrono::milliseconds(between(random, 0, 1) == 0 ? 5 : 10'000);
  drawn.frame_bytes = draw_size(random, options.segment_bytes, between(random, 0, 40) == 0 ? 64 * mib : 3 * mib);
  // The budget has room for what one writer reserves beside a segment that is being written.
  options.buffer_bytes =
      std::max(options.buffer_bytes, 3 * (drawn.bound_factor * drawn.frame_bytes + options.segment_bytes + mib));
  const auto segments = between(random, 1, 4);
  drawn.frames = std::clamp<std::uint64_t>(segments * options.segment_bytes / drawn.frame_bytes, 1, 300);
  return drawn;
}

class StoreSizes : public StoreTest, public ::testing::WithParamInterface<std::tuple<bool, Placement>> {
 protected:
  void write(ChunkWriter& writer, const Case& each, std::uint64_t frame, std::vector<std::byte>& data) const {
    std::memcpy(data.data(), &frame, std::min<std::size_t>(sizeof frame, data.size()));
    if (!each.reserves) {
      const auto put = writer.put(head_of(frame), data, nullptr, data.size());
      ASSERT_TRUE(put.ok()) << put.error().message();
      return;
    }
    auto room = writer.reserve(each.bound_factor * each.frame_bytes);
    ASSERT_TRUE(room.ok()) << room.error().message();
    ASSERT_EQ(room->size(), each.bound_factor * each.frame_bytes);
    std::memset(room->data(), 0xA5, room->size());  // all of it belongs to the caller
    std::memcpy(room->data(), data.data(), data.size());
    const auto committed = writer.commit(head_of(frame), data.size());
    ASSERT_TRUE(committed.ok()) << committed.error().message();
  }

  void record(const Case& each) {
    auto layout = one_dataset(1, each.frame_bytes, ElementType::u8);
    if (each.placement == Placement::slots) {
      layout.chunked.front().frames_max = each.frames;
      layout.chunked.front().places.placement = Placement::slots;
    }
    const auto name = path();
    auto store = Store::create(posix_env(), name, layout, each.options, nullptr);
    ASSERT_TRUE(store.ok()) << store.error().message();
    auto data = content_of(each.seed, each.frame_bytes);
    auto writer = (*store)->make_writer();
    for (std::uint64_t frame = 0; frame < each.frames && !HasFatalFailure(); ++frame) write(*writer, each, frame, data);
    writer.reset();
    const auto finished = (*store)->finish({});
    ASSERT_TRUE(finished.ok()) << finished.error().message();
    EXPECT_EQ((*store)->stats().lost_chunks, 0u);
    const PlainReader reader(name);
    ASSERT_EQ(reader.shape("/entry/data/data"), (std::vector<hsize_t>{each.frames, 1, each.frame_bytes}));
    for (std::uint64_t frame = 0; frame < each.frames; ++frame) {
      std::memcpy(data.data(), &frame, std::min<std::size_t>(sizeof frame, data.size()));
      ASSERT_TRUE(reader.frame("/entry/data/data", frame) == data) << "frame " << frame << " differs";
    }
  }
};

TEST_P(StoreSizes, EveryChunkIsAcceptedAndReadBack) {
  const auto [reserves, placement] = GetParam();
  const auto seconds = number_from("PENSTOCK_SIZES_SECONDS", penstock::testing::rounds<std::uint64_t>(4, 4));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  auto seed = number_from("PENSTOCK_SIZES_SEED", std::random_device{}());
  std::uint64_t cases = 0;
  do {
    const auto each = draw(seed++, reserves, placement);
    SCOPED_TRACE(::testing::PrintToString(each));
    record(each);
    std::filesystem::remove(path());
    ++cases;
  } while (!HasFailure() && std::chrono::steady_clock::now() < end);
  RecordProperty("cases", std::to_string(cases));
}

INSTANTIATE_TEST_SUITE_P(Kinds, StoreSizes,
                         ::testing::Combine(::testing::Bool(), ::testing::Values(Placement::log, Placement::slots)),
                         [](const auto& kind) {
                           return std::string(std::get<0>(kind.param) ? "Reserved" : "Put") +
                                  (std::get<1>(kind.param) == Placement::slots ? "IntoSlots" : "");
                         });

}  // namespace
}  // namespace penstock::store::testing
