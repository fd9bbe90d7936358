// One flipped bit anywhere in a closed file: either the check finds it, or every reader reads what it read before.

#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "../support/hdf5_content.hpp"
#include "../support/rounds.hpp"
#include "check_fixture.hpp"
#include "store/places.hpp"

namespace penstock::check {
namespace {

using namespace testing;
using penstock::testing::Content;
using penstock::testing::content_of_file;

enum class Kind { log, gathered, scan, slots, assembled, split };
constexpr const char* kind_names[] = {"log", "gathered", "scan", "slots", "assembled", "split"};

unsigned long from_environment(const char* name, unsigned long otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::strtoul(text, nullptr, 10) : otherwise;
}

store::FileLayout layout_of(Kind kind) {
  store::FileLayout layout;
  layout.groups = {{"/entry", {{"NX_class", std::string("NXentry")}}},
                   {"/entry/data", {{"signal", std::string("data")}}}};
  store::ArrayValue mask{{ElementType::u32, {70, 70}}, std::vector<std::byte>(19'600, std::byte{3})};
  layout.values.push_back({"/entry/pixel_mask", mask, {{"meaning", std::string("bits")}}});
  layout.values.push_back({"/entry/name", std::string("an instrument"), {}});
  layout.values.push_back({"/entry/distance", store::scalar(0.25), {{"units", std::string("m")}}});
  layout.values.push_back({"/entry/penstock/frames_announced", store::scalar(std::uint64_t{12}), {}});
  store::ChunkedNode data;
  data.path = "/entry/data/data";
  data.frame_shape = {16, 32};
  data.frames_max = 12;
  data.fill = {std::byte{0xff}, std::byte{0xff}};
  if (kind == Kind::gathered) data.chunk_shape = {4, 16, 32};
  if (kind == Kind::scan) data.scan_shape = {4, 3};
  if (kind == Kind::slots) data.places.placement = store::Placement::slots;
  if (kind == Kind::assembled) {
    data.path = "/entry/data/parts";
    data.assembled = store::Assembled{"/entry/data/data", {3}, {}};
  }
  layout.chunked.push_back(data);
  layout.columns.push_back({"/entry/penstock/frame_state", ElementType::u8, {}, {}});
  if (kind == Kind::scan)
    layout.columns.push_back(
        {"/entry/penstock/place", ElementType::i64, std::vector<std::byte>(8, std::byte{0xff}), {}});
  layout.links.push_back({"/entry/same", data.path});
  if (kind == Kind::split) layout.members = store::Members{.stem = "a_member_", .suffix = ".h5", .frames = 6};
  return layout;
}

/// The frame of every third is missing.
class Rows final : public store::Listener {
 public:
  explicit Rows(Kind kind) : kind_(kind) {}
  void placed(std::span<const store::PlacedChunk> chunks, store::RowWriter& rows_out) override {
    const std::uint8_t received = 1;
    for (const auto& chunk : chunks) {
      for (std::uint64_t i = 0; i < (kind_ == Kind::gathered ? 4u : 1u); ++i) {
        const auto frame = kind_ == Kind::gathered ? chunk.head.index * 4 + i : chunk.head.index;
        EXPECT_TRUE(rows_out.put(store::ColumnId{0}, {frame}, std::as_bytes(std::span(&received, 1))).ok());
        const auto place = static_cast<std::int64_t>(frame);
        if (kind_ != Kind::scan) continue;
        EXPECT_TRUE(rows_out.put(store::ColumnId{1}, {frame}, std::as_bytes(std::span(&place, 1))).ok());
      }
    }
  }
  void lost(std::span<const store::PlacedChunk>, const Error& why) override { ADD_FAILURE() << why.message(); }
  void tick(store::RowWriter&) override {}

 private:
  Kind kind_;
};

class BitFlipTest : public CheckTest, public ::testing::WithParamInterface<Kind> {
 protected:
  void record() {
    const auto kind = GetParam();
    store::StoreOptions options;
    options.segment_bytes = 8 << 10;
    options.extent_bytes = 64 << 10;
    options.buffer_bytes = 1 << 20;
    Rows listener(kind);
    auto made = store::Store::create(posix_env(), path(), layout_of(kind), options, &listener);
    ASSERT_TRUE(made.ok()) << made.error().message();
    std::uint64_t received = 0;
    {
      auto writer = (*made)->make_writer();
      const std::uint64_t of_chunk = kind == Kind::gathered ? 4 : 1;
      for (std::uint64_t frame = 0; frame < 12; frame += of_chunk) {
        if (frame % 3 == 1 && of_chunk == 1) continue;
        const std::vector<std::byte> pixels(1024 * of_chunk, static_cast<std::byte>(frame + 1));
        store::ChunkHead head{store::DatasetId{0}, frame / of_chunk, 0, 1, frame};
        head.frame = kind == Kind::gathered ? 15 : (kind == Kind::scan ? static_cast<std::uint32_t>(frame) : 0);
        ASSERT_TRUE(writer->put(head, pixels, nullptr, pixels.size()).ok());
        received += of_chunk;
      }
    }
    store::FinalValues values;
    values.frames = 12;
    for (const auto* name : {"received", "missing", "damaged", "dropped", "lost"}) {
      const auto number =
          name == std::string("received") ? received : (name == std::string("missing") ? 12 - received : 0);
      values.attributes.emplace_back("/entry/penstock/frame_state", store::Attribute{name, store::scalar(number)});
    }
    const auto finished = (*made)->finish(values);
    ASSERT_TRUE(finished.ok()) << finished.error().message();
  }

  /// A damaged file may crash HDF5, or keep it busy for ever.
  bool reads_as(const Content& expected) const {
    const auto child = ::fork();
    if (child == 0) ::_exit(content_of_file(path()) == expected ? 0 : 1);
    int status = 0;
    for (int waited = 0; ::waitpid(child, &status, WNOHANG) == 0; ++waited) {
      if (waited == 3000) ::kill(child, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(waited < 100 ? 1 : 10));
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
};
/// Those of the files in which something lies: between slots there is nothing.
std::vector<std::pair<std::string, std::uint64_t>> pages_of(const std::vector<std::string>& files) {
  std::vector<std::pair<std::string, std::uint64_t>> pages;
  for (const auto& file : files) {
    const auto bytes = bytes_of(file);
    for (std::uint64_t page = 0; (page + 1) * page_bytes <= bytes.size(); ++page) {
      const auto* first = bytes.data() + page * page_bytes;
      if (std::any_of(first, first + page_bytes, [](char byte) { return byte != 0; })) pages.emplace_back(file, page);
    }
  }
  return pages;
}

INSTANTIATE_TEST_SUITE_P(Files, BitFlipTest,
                         ::testing::Values(Kind::log, Kind::gathered, Kind::scan, Kind::slots, Kind::assembled,
                                           Kind::split),
                         [](const auto& parameter) { return kind_names[static_cast<int>(parameter.param)]; });

/// TORTURE_ROUNDS has more of them, and TORTURE_SEED repeats a run.
TEST_P(BitFlipTest, IsFoundOrHarmless) {
  record();
  const auto expected = content_of_file(path());
  const auto fine = check(path());
  ASSERT_TRUE(fine.ok()) << text(fine);
  ASSERT_FALSE(has(fine, "the file was changed since it was closed")) << text(fine);
  std::vector<std::string> files{path()};
  if (GetParam() == Kind::split) files.insert(files.end(), {path("a_member_0.h5"), path("a_member_1.h5")});
  const auto seed = from_environment("TORTURE_SEED", std::random_device{}());
  std::mt19937_64 random(seed);
  std::uint64_t found = 0, harmless = 0;
  const auto pages = pages_of(files);
  const auto flips = from_environment("TORTURE_ROUNDS", penstock::testing::rounds(25));
  for (unsigned long round = 0; round < flips; ++round) {
    const auto& [file, page] = pages[random() % pages.size()];
    const auto at = page * page_bytes + random() % page_bytes;
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    const auto change = [&](int bits) {
      stream.seekg(static_cast<std::streamoff>(at));
      const auto byte = static_cast<char>(stream.get() ^ bits);
      stream.seekp(static_cast<std::streamoff>(at));
      stream.put(byte).flush();
    };
    const int bit = 1 << random() % 8;
    change(bit);
    const auto report = check(path(), {{"index_timeout_s", 5}});
    if (!report.ok())
      ++found;
    else if (reads_as(expected))
      ++harmless;
    else
      ADD_FAILURE() << "seed " << seed << ", round " << round << ": bit " << bit << " of byte " << at << " of " << file
                    << " changes what is read, and the check finds nothing: " << text(report);
    change(bit);
  }
  std::cout << fmt::format("{}: {} flips, {} found, {} harmless, seed {}\n", kind_names[static_cast<int>(GetParam())],
                           flips, found, harmless, seed);
}

}  // namespace
}  // namespace penstock::check
