#include "store_fixture.hpp"

namespace penstock::store::testing {
namespace {

TEST_F(StoreTest, FramesReadBackWithPlainHdf5) {
  Recorder recorder;
  recorder.write_numbers = true;
  auto store = Store::create(posix_env(), path(), one_dataset(32, 40), small_options(), &recorder);
  ASSERT_TRUE(store.ok()) << store.error().message();
  auto writer = (*store)->make_writer();
  constexpr std::uint64_t frames = 200;
  for (std::uint64_t i = 0; i < frames; ++i) {
    const auto data = content_of(i, 32 * 40 * 2);
    const auto put = writer->put(head_of(i), data, nullptr, data.size());
    ASSERT_TRUE(put.ok()) << put.error().message();
  }
  ASSERT_TRUE(writer->flush().ok());
  FinalValues values;
  values.frames = frames;
  values.values.push_back({"/entry/end_time", std::string("now"), {}});
  values.values.push_back({"/entry/title", std::string("another"), {}});
  values.attributes.push_back({"/entry", {"complete", scalar(std::uint64_t{1})}});
  const auto finished = (*store)->finish(values);
  ASSERT_TRUE(finished.ok()) << finished.error().message();
  EXPECT_EQ(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL), 0);
  EXPECT_EQ((*store)->stats().chunks, frames);

  const PlainReader reader(path());
  ASSERT_TRUE(reader.open());
  EXPECT_EQ(reader.shape("/entry/data/data"), (std::vector<hsize_t>{frames, 32, 40}));
  for (std::uint64_t i = 0; i < frames; ++i)
    ASSERT_EQ(reader.frame("/entry/data/data", i), content_of(i, 32 * 40 * 2)) << i;
  EXPECT_EQ(reader.frame("/entry/same", 3), content_of(3, 32 * 40 * 2));
  const auto numbers = reader.numbers("/entry/number");
  ASSERT_EQ(numbers.size(), frames);
  for (std::uint64_t i = 0; i < frames; ++i) EXPECT_EQ(numbers[i], i + 1000);
  EXPECT_EQ(reader.text("/entry/end_time"), "now");
  EXPECT_EQ(reader.text("/entry/title"), "another");
  EXPECT_EQ(reader.text_attribute("/entry", "NX_class"), "NXentry");
  EXPECT_EQ(reader.text_attribute("/", "penstock_file_id").size(), 32u);
}

}  // namespace
}  // namespace penstock::store::testing
