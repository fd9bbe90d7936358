/// A file with a flipped bit anywhere, or cut off anywhere: the check finds it, or what can be read is what was
/// recorded; check and recovery come to an end, and no recovered frame is false.
///
/// PENSTOCK_TORTURE_ROUNDS tries every byte that is not a pixel, and every cut at 512 bytes; without it a sample.
/// PENSTOCK_TORTURE_SEED sets which bits.

#include <cstdlib>

#include "check/structures/index_process.hpp"
#include "check/structures/superblock.hpp"
#include "check/tree_json.hpp"
#include "check_fixture.hpp"

namespace penstock::check::testing {
namespace {

bool all() { return std::getenv("PENSTOCK_TORTURE_ROUNDS") != nullptr; }
std::uint64_t seed() {
  const char* text = std::getenv("PENSTOCK_TORTURE_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

class Damage : public CheckTest {
 protected:
  /// Everything that a reader sees, as one text.
  std::string content(const std::string& file) const {
    IndexProcessOptions options;
    options.stall = std::chrono::seconds(20);
    options.read.wants_value = [](const auto&) { return true; };
    const auto tree = read_tree_in_process(posix_env(), file, options);
    if (!tree.ok()) return "unreadable";
    const auto bytes = bytes_of(file);
    std::string all = tree->failure;
    for (const auto& group : tree->groups) all += group.path + to_json(group.attributes).dump();
    for (const auto& dataset : tree->datasets) {
      auto info = to_json(dataset.info);
      info.erase("address");
      all += info.dump() + (dataset.value ? to_json(*dataset.value).dump() : "");
      if (dataset.info.paths.front() != "/entry/data/data") continue;
      for (const auto& chunk : dataset.chunks) {
        if (chunk.address + chunk.size > bytes.size()) return "unreadable";
        all += std::to_string(chunk.number) + " " + std::to_string(chunk.filter_mask);
        all.append(bytes.data() + chunk.address, chunk.size);
      }
    }
    return all;
  }

  std::vector<char> whole_file() {
    write_recorded(path("whole.h5"), {.frames = 24, .announced = 24});
    content_ = content(path("whole.h5"));
    EXPECT_TRUE(check(path("whole.h5")).ok());
    return bytes_of(path("whole.h5"));
  }

  /// Found, or nothing that can be read is different.
  void expect_found_or_harmless(const std::string& what) {
    const auto report = check(path());
    const bool found = std::any_of(report.findings.begin(), report.findings.end(),
                                   [](const auto& finding) { return finding.level != Level::info; });
    if (found) {
      ++found_;
    } else {
      ++harmless_;
      EXPECT_TRUE(content(path()) == content_) << what << " changes what is read, and the check says nothing";
    }
  }

  std::string content_;
  int found_ = 0;
  int harmless_ = 0;
};

/// Bytes of pages that hold anything, but not of pixels.
std::vector<std::uint64_t> bytes_of_structure(const std::vector<char>& file) {
  constexpr std::uint64_t block = 256;
  std::vector<std::uint64_t> bytes;
  for (std::uint64_t at = 0; at < file.size(); at += block) {
    const auto end = std::min<std::uint64_t>(file.size(), at + block);
    const auto empty =
        std::all_of(file.begin() + static_cast<std::ptrdiff_t>(at), file.begin() + static_cast<std::ptrdiff_t>(end),
                    [](char byte) { return byte == 0; });
    for (auto byte = at; byte < end && !empty; ++byte) bytes.push_back(byte);
  }
  return bytes;
}

TEST_F(Damage, AFlippedBitIsFoundOrHarmless) {
  const auto whole = whole_file();
  std::mt19937_64 random(seed());
  auto places = bytes_of_structure(whole);
  if (!all()) {
    std::shuffle(places.begin(), places.end(), random);
    places.resize(60);
  }
  for (const auto at : places) {
    auto bytes = whole;
    const auto bit = random() % 8;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
    write_bytes(path(), bytes);
    expect_found_or_harmless("bit " + std::to_string(bit) + " of byte " + std::to_string(at));
  }
  RecordProperty("found", found_);
  RecordProperty("harmless", harmless_);
  EXPECT_GT(found_, 0);
}

/// As a write leaves it that the storage did not take, of a chunk that came again.
TEST_F(Damage, ACopyThatTheIndexDoesNotNameMayBeBroken) {
  FileSpec spec;
  spec.twice = {5};
  write_recorded(path(), spec);
  auto bytes = bytes_of(path());
  std::vector<std::byte> encoded(2 * frame_bytes);
  CodecScratch scratch;
  const auto size = encode({.encoding = spec.encoding}, simulated(5), 2, encoded, scratch);
  ASSERT_TRUE(size.ok());
  const auto* chunk = reinterpret_cast<const char*>(encoded.data());
  const auto first = std::search(bytes.begin(), bytes.end(), chunk, chunk + *size);
  const auto second = std::search(first + 1, bytes.end(), chunk, chunk + *size);
  ASSERT_NE(second, bytes.end());
  second[10] = static_cast<char>(~second[10]);
  write_bytes(path(), bytes);
  const auto report = check(path());
  EXPECT_TRUE(report.ok()) << text(report);
  EXPECT_TRUE(has(report, "a copy of a chunk was not completely written")) << text(report);

  second[10] = static_cast<char>(~second[10]);
  first[10] = static_cast<char>(~first[10]);
  write_bytes(path(), bytes);
  EXPECT_FALSE(check(path()).ok()) << "that one readers see";
}

TEST_F(Damage, AFileThatWasCutOffIsFound) {
  const auto whole = whole_file();
  const auto structures_end =
      read_superblock(*posix_env().open(path("whole.h5"), {}).value()).value().value().end_of_file;
  std::mt19937_64 random(seed());
  const auto is_found = [&](std::uint64_t size) {
    write_bytes(path(), std::span(whole).first(size));
    const auto report = check(path());
    // Where HDF5's structures end, the file is as another program leaves it that has opened it for writing.
    return !report.ok() || (size == structures_end && has(report, "the file was changed since it was closed"));
  };
  EXPECT_TRUE(is_found(structures_end));
  for (std::uint64_t size = 0; size < whole.size(); size += all() ? 512 : 512 * (1 + random() % 32))
    EXPECT_TRUE(is_found(size)) << "cut off at " << size;
}

}  // namespace
}  // namespace penstock::check::testing
