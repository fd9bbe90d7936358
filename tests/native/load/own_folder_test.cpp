/// Back ends that are led astray: a link or another file in the place of what they made.
#include "load/backends/own_folder.hpp"

#include <hdf5.h>

#include <fstream>
#include <iterator>

#include "../support/whole_file.hpp"
#include "load/workloads/content.hpp"
#include "load_fixture.hpp"
#include "load_hdf5/hdf5_backend.hpp"
#include "load_hdf5/store_backend.hpp"

namespace penstock::load {
namespace {

constexpr std::size_t transfer_bytes = 65536;
const std::string theirs = "somebody's own";

class OwnFolders : public LoadTest {
 protected:
  void SetUp() override {
    LoadTest::SetUp();
    std::filesystem::create_directories(given);
    std::filesystem::create_directories(users);
    std::ofstream(users / "a") << theirs;
  }
  void TearDown() override {
    EXPECT_EQ(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL), 0) << "HDF5 objects stay open";
    LoadTest::TearDown();
  }

  std::shared_ptr<Backend> make(const std::string& kind) {
    Json plan = {
        {"backend", {{"kind", kind}, {"folder", given.string()}}},
        {"workload", {{"kind", "stream"}, {"thread_bytes", 4 * transfer_bytes}, {"transfer_bytes", transfer_bytes}}}};
    const auto parsed = LoadPlan::from_json(plan.dump());
    EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message());
    if (kind == "store") return load_hdf5::make_store_backend(*parsed, no_team(), posix_env());
    if (kind == "hdf5") return load_hdf5::make_hdf5_backend(*parsed, no_team(), posix_env()).value();
    return make_backend(*parsed, posix_env());
  }
  /// Four transfers into a new file, which is then whole.
  static Result<void> fill(Backend& backend, const std::string& name) {
    PEN_ASSIGN(const auto file, backend.create(name));
    const auto memory = Memory::allocate(transfer_bytes).value();
    const auto bytes = memory.bytes().first(transfer_bytes);
    for (unsigned number = 0; number < 4; ++number) {
      if (file->depth() == 1) {
        PEN_TRY(file->write(bytes, number * transfer_bytes));
        continue;
      }
      PEN_TRY(file->begin_write(number, bytes, number * transfer_bytes));
      PEN_TRY(file->wait_for_one());
    }
    return file->close();
  }
  std::string users_file() const { return whole_file(users / "a"); }

  const std::filesystem::path given = folder_of_test() / "given", users = folder_of_test() / "users";
};

TEST_F(OwnFolders, ALinkOfAFilesNameIsNotFollowed) {
  for (const std::string kind : {"posix", "store", "hdf5"})
    for (const auto* leads_to : {"a", "not there"}) {
      std::filesystem::create_symlink(users / leads_to, given / "x");
      const auto filled = fill(*make(kind), "x");
      ASSERT_FALSE(filled.ok()) << kind;
      EXPECT_NE(filled.error().message().find((given / "x").string()), std::string::npos) << filled.error().message();
      EXPECT_EQ(filled.error().message().find("/proc/"), std::string::npos) << filled.error().message();
      EXPECT_EQ(users_file(), theirs) << kind;
      EXPECT_FALSE(std::filesystem::exists(users / "not there")) << kind;
      std::filesystem::remove(given / "x");
    }
}

TEST_F(OwnFolders, ALinkInTheFoldersPlaceLeadsNowhere) {
  for (const std::string kind : {"posix", "store", "hdf5"}) {
    const auto moved = folder_ / ("moved-" + kind);
    const auto backend = make(kind);
    ASSERT_TRUE(fill(*backend, "a").ok()) << kind;
    std::filesystem::rename(given, moved);
    std::filesystem::create_directory_symlink(users, given);
    const auto filled = fill(*backend, "b");
    EXPECT_TRUE(filled.ok()) << kind << ": " << (filled.ok() ? "" : filled.error().message());
    EXPECT_GE(std::filesystem::file_size(moved / "b"), 4 * transfer_bytes) << kind;
    EXPECT_TRUE(backend->open("a").ok()) << kind;
    EXPECT_TRUE(backend->cached_bytes("a").has_value()) << kind;
    EXPECT_EQ(users_file(), theirs) << kind;
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(users), {}), 1) << kind;
    EXPECT_FALSE(fill(*make(kind), "c").ok()) << kind << ": the folder is a link";
    std::filesystem::remove(given);
    std::filesystem::create_directories(given);
  }
}

/// Puts a file in the place of one that was just made.
class SwappedEnv final : public Env {
 public:
  explicit SwappedEnv(std::function<void()> swap) : swap_(std::move(swap)) {}
  Result<std::shared_ptr<File>> open(const std::string& path, OpenOptions options) override {
    if (options.direct) swap_();
    return posix_env().open(path, options);
  }
  Result<std::uint64_t> free_bytes(const std::string& path) override { return posix_env().free_bytes(path); }
  Result<std::vector<std::string>> list(const std::string& folder) override { return posix_env().list(folder); }
  Result<void> remove(const std::string& path) override { return posix_env().remove(path); }

 private:
  const std::function<void()> swap_;
};

TEST_F(OwnFolders, AFileThatIsReplacedBeforeItIsOpenedAgainIsNotWrittenTo) {
  // The store opens its file once more, for direct I/O; threads join one that they share.
  SwappedEnv env([this] {
    std::filesystem::remove(given / "x");
    std::filesystem::create_hard_link(users / "a", given / "x");
  });
  const Json plan = {
      {"backend", {{"kind", "store"}, {"folder", given.string()}}},
      {"workload", {{"kind", "stream"}, {"thread_bytes", transfer_bytes}, {"transfer_bytes", transfer_bytes}}}};
  const auto store = load_hdf5::make_store_backend(*LoadPlan::from_json(plan.dump()), no_team(), env);
  const auto made = store->create("x");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), Errc::mismatch) << made.error().message();
  EXPECT_EQ(users_file(), theirs);
}

TEST_F(OwnFolders, WhoeverJoinsTakesAnEmptyFileOfOneNameAlone) {
  const auto maker = make("posix"), joiner = make("posix");
  ASSERT_TRUE(maker->create("x"));
  EXPECT_TRUE(joiner->join("x")) << "another process, which knows nothing of it yet";
  joiner->expect("x", maker->mark_of("x"));
  EXPECT_TRUE(joiner->join("x"));
  joiner->expect("x", {{"inode", 1}});
  EXPECT_EQ(joiner->join("x").error().code(), Errc::mismatch);
  std::filesystem::create_hard_link(users / "a", given / "linked");
  EXPECT_NE(make("posix")->join("linked").error().message().find("2 hard links"), std::string::npos);
  std::filesystem::copy_file(users / "a", given / "filled");
  EXPECT_NE(make("posix")->join("filled").error().message().find("14 bytes"), std::string::npos);
  EXPECT_FALSE(make("posix")->join("not there"));
  EXPECT_TRUE(make("posix")->mark_of("not made").is_null());
}

}  // namespace
}  // namespace penstock::load
