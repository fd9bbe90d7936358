/// Columns of which not all can stay open.
#include <atomic>
#include <random>
#include <thread>

#include "store/hdf5/column_memory.hpp"
#include "store/hdf5/handles.hpp"
#include "store_fixture.hpp"

namespace penstock::store::testing {
namespace {

using hdf5::ColumnMemory;

FileLayout with_columns(std::size_t count) {
  auto layout = one_dataset(32, 40);
  layout.columns.clear();
  for (std::size_t i = 0; i < count; ++i)
    layout.columns.push_back({"/entry/values/" + std::to_string(i), ElementType::u64, {}, {}});
  return layout;
}

/// Writes runs of random rows to random columns on each tick, and remembers what the columns contain.
class RandomRows final : public Listener {
 public:
  using Model = std::vector<std::vector<std::uint64_t>>;

  RandomRows(std::size_t columns, unsigned seed) : model_(columns), random_(seed) {}

  void placed(std::span<const PlacedChunk>, RowWriter&) override {}
  void lost(std::span<const PlacedChunk>, const Error&) override {}
  void tick(RowWriter& rows) override {
    const std::lock_guard lock(mutex_);
    if (ticks_ >= ticks_max) return;
    for (int run = 0; run < 10; ++run) put_run(rows);
    ++ticks_;
    ticks_.notify_all();
  }

  void wait_for_ticks(int count) {
    for (auto now = ticks_.load(); now < count; now = ticks_.load()) ticks_.wait(now);
  }
  Model model() {
    const std::lock_guard lock(mutex_);
    return model_;
  }
  std::size_t longest() const {
    std::size_t rows = 0;
    for (const auto& column : model_) rows = std::max(rows, column.size());
    return rows;
  }
  static constexpr int ticks_max = 10;

 private:
  void put_run(RowWriter& rows) {
    const auto column = random_() % model_.size();
    const RowRun run{random_() % 30000, random_() % 3 + 1};  // a chunk has 4096 rows
    std::vector<std::uint64_t> values(random_() % 50 + 1);
    auto& expected = model_[column];
    expected.resize(std::max<std::size_t>(expected.size(), run.first + (values.size() - 1) * run.stride + 1));
    for (std::size_t i = 0; i < values.size(); ++i) expected[run.first + i * run.stride] = values[i] = random_();
    EXPECT_TRUE(rows.put(ColumnId{static_cast<std::uint16_t>(column)}, run, std::as_bytes(std::span(values))).ok());
  }

  std::mutex mutex_;
  Model model_;
  std::mt19937_64 random_;
  std::atomic<int> ticks_{0};
};

class ColumnsTest : public StoreTest {
 protected:
  std::unique_ptr<Store> create(std::size_t columns, Listener* listener, bool swmr = true) {
    auto options = small_options();
    options.swmr = swmr;
    options.overwrite = true;
    return Store::create(posix_env(), path(), with_columns(columns), options, listener).value();
  }
  /// The rest of the memory, as if other files had many columns.
  void leave_bytes(std::uint64_t bytes) { ASSERT_TRUE(others_.take(ColumnMemory::bytes_max - bytes)); }

  ColumnMemory others_;
};

void expect_rows(const std::string& path, const RandomRows::Model& model, std::uint64_t rows) {
  const PlainReader reader(path);
  for (std::size_t i = 0; i < model.size(); ++i) {
    auto expected = model[i];
    expected.resize(rows);
    EXPECT_EQ(reader.numbers(("/entry/values/" + std::to_string(i)).c_str()), expected) << i;
  }
}

TEST_F(ColumnsTest, HaveTheSameRowsWhetherTheyStayOpenOrNot) {
  constexpr unsigned seed = 20261128;
  for (const bool stay : {false, true}) {
    for (const bool swmr : {true, false}) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << " stay " << stay << " swmr " << swmr);
      leave_bytes(stay ? ColumnMemory::bytes_max : 100 << 10);
      const auto before = ColumnMemory::used_bytes();
      RandomRows listener(20, seed);
      auto store = create(20, &listener, swmr);
      EXPECT_EQ(ColumnMemory::used_bytes() > before, stay);
      listener.wait_for_ticks(RandomRows::ticks_max);
      const auto model = listener.model();
      FinalValues values;
      values.frames = listener.longest();
      ASSERT_TRUE(store->finish(values).ok());
      expect_rows(path(), model, values.frames);
      others_.give_back();
    }
  }
}

TEST_F(ColumnsTest, AReaderSeesRowsOfThoseBeyondTheMemoryWhileTheFileGrows) {
  leave_bytes(0);
  RandomRows listener(5, 7);
  auto store = create(5, &listener);
  listener.wait_for_ticks(RandomRows::ticks_max);
  const auto model = listener.model();
  // The last tick is flushed a moment later.
  bool equal = false;
  for (int attempt = 0; attempt < 500 && !equal; ++attempt) {
    const PlainReader reader(path(), H5F_ACC_RDONLY | H5F_ACC_SWMR_READ);
    ASSERT_TRUE(reader.open());
    equal = true;
    for (std::size_t i = 0; i < model.size(); ++i)
      equal = equal && reader.numbers(("/entry/values/" + std::to_string(i)).c_str()) == model[i];
    if (!equal) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(equal);
  ASSERT_TRUE(store->finish({}).ok());
}

double number_of(hid_t file, const std::string& path) {
  double number = -1;
  const auto dataset = H5Dopen2(file, path.c_str(), H5P_DEFAULT);
  EXPECT_GE(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &number), 0) << path;
  EXPECT_GE(H5Dclose(dataset), 0);
  return number;
}

// HDF5's accumulator of structures overwrote values that are stored between two structures.
TEST_F(ColumnsTest, ValuesOfTheTreeKeepTheirNumbersWhenStructuresNextToThemAreWritten) {
  constexpr int numbers = 100;
  for (const bool stay : {false, true}) {
    SCOPED_TRACE(stay);
    leave_bytes(stay ? ColumnMemory::bytes_max : 0);
    auto layout = with_columns(20);
    FinalValues last;
    for (int i = 1; i <= numbers; ++i) {
      const auto number = std::to_string(i);
      layout.values.push_back({"/entry/first/" + number, scalar(double(i)), {{"units", std::string("m")}}});
      last.values.push_back({"/entry/last/" + number, scalar(double(i)), {{"units", std::string("m")}}});
      last.attributes.emplace_back("/entry/first", Attribute{"a" + number, scalar(double(i))});
      last.attributes.emplace_back("/entry/last/" + number, Attribute{"end", scalar(double(i))});
    }
    RandomRows listener(20, 11);
    auto options = small_options();
    options.overwrite = true;
    auto store = Store::create(posix_env(), path(), layout, options, &listener).value();
    listener.wait_for_ticks(RandomRows::ticks_max);
    last.frames = listener.longest();
    ASSERT_TRUE(store->finish(last).ok());
    expect_rows(path(), listener.model(), last.frames);
    const PlainReader reader(path());
    for (int i = 1; i <= numbers; ++i)
      for (const std::string group : {"/entry/first/", "/entry/last/"})
        EXPECT_EQ(number_of(reader.file(), group + std::to_string(i)), i) << group;
    others_.give_back();
  }
}

/// How many structures HDF5 keeps in memory for the only open file.
int cached_structures() {
  const hdf5::LibraryLock lock;
  hid_t file = -1;
  EXPECT_EQ(H5Fget_obj_ids(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_FILE, 1, &file), 1);
  int entries = -1;
  EXPECT_GE(H5Fget_mdc_size(file, nullptr, nullptr, nullptr, &entries), 0);
  return entries;
}

TEST_F(ColumnsTest, ClosedColumnsLeaveNothingInTheMemoryOfHdf5) {
  leave_bytes(0);
  RandomRows listener(300, 5);
  for (const bool swmr : {false, true}) {
    auto store = create(300, &listener, swmr);
    if (!swmr) listener.wait_for_ticks(RandomRows::ticks_max);
    EXPECT_LT(cached_structures(), 100) << swmr;
    ASSERT_TRUE(store->finish({}).ok());
  }
}

TEST_F(ColumnsTest, MemoryIsReturnedWhenTheFileCloses) {
  const auto before = ColumnMemory::used_bytes();
  {
    const auto unfinished = create(5, nullptr);
    EXPECT_GT(ColumnMemory::used_bytes(), before);
  }
  EXPECT_EQ(ColumnMemory::used_bytes(), before);
  auto store = create(5, nullptr);
  ASSERT_TRUE(store->finish({}).ok());
  EXPECT_EQ(ColumnMemory::used_bytes(), before);
}

TEST(ColumnMemoryTest, RefusesMoreThanIsLeft) {
  ColumnMemory one, other;
  ASSERT_TRUE(one.take(ColumnMemory::bytes_max - 10));
  EXPECT_FALSE(other.take(11));
  EXPECT_TRUE(other.take(10));
  one.give_back();
  EXPECT_EQ(ColumnMemory::used_bytes(), 10u);
}

}  // namespace
}  // namespace penstock::store::testing
