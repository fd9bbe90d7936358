/// Filter plug-ins called beside HDF5: what is found, what its parameters become, and what its mistakes do.

#include "store/hdf5/plugins/filter_plugin.hpp"

#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <optional>
#include <thread>

#include "store/hdf5/handles.hpp"

namespace penstock::store {
namespace {

constexpr unsigned inverts = 0, refuses_odd = 1, boasts = 2, loses_its_buffer = 3, throws = 4, fails_silently = 5,
                   reports_and_inverts = 6, two_meet = 7, registers_itself = 8, refuses_blank = 10;

std::shared_ptr<const FilterPlugin> plugin(bool exclusive = false) {
  auto loaded =
      FilterPlugin::load({.id = 311, .name = "test", .folders = {PENSTOCK_TEST_FILTERS}, .exclusive = exclusive});
  EXPECT_TRUE(loaded.ok()) << loaded.error().message();
  return *loaded;
}

std::vector<std::byte> raw(std::size_t bytes, unsigned first = 0) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(first + i);
  return data;
}

TEST(FilterPlugin, IsFoundByItsNumberAndCompletesItsParameters) {
  const auto found = plugin();
  EXPECT_EQ(found->name(), "penstock test");
  const auto filter = found->settle({inverts}, ElementType::u32, {1, 4, 8});
  ASSERT_TRUE(filter.ok()) << filter.error().message();
  EXPECT_EQ(filter->values, (std::vector<unsigned>{4, inverts}));
  EXPECT_TRUE(found->settle({registers_itself}, ElementType::u32, {1, 4, 8}).ok());
  {
    hdf5::LibraryLock lock;
    EXPECT_EQ(H5Zfilter_avail(311), 0) << "HDF5 would complete its parameters a second time";
  }
  const auto listed = find_filters({PENSTOCK_TEST_FILTERS});
  EXPECT_EQ(std::count_if(listed.begin(), listed.end(), [](const auto& each) { return each.id == 311; }), 1);
}

TEST(FilterPlugin, AbsenceNamesTheFoldersAndARefusalThePlugInsReason) {
  const auto absent = FilterPlugin::load({.id = 312, .name = "", .folders = {PENSTOCK_TEST_FILTERS, "/nowhere"}});
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code(), Errc::not_found);
  for (const auto* word : {"312", "/nowhere", PENSTOCK_TEST_FILTERS, "HDF5_PLUGIN_PATH"})
    EXPECT_NE(absent.error().message().find(word), std::string::npos) << absent.error().message();

  const auto found = plugin();
  const auto two = found->settle({inverts, 7}, ElementType::u16, {1, 4, 8});
  ASSERT_FALSE(two.ok());
  EXPECT_EQ(two.error().code(), Errc::invalid_argument);
  EXPECT_NE(two.error().message().find("[0, 7]"), std::string::npos) << two.error().message();
  EXPECT_NE(two.error().message().find("one parameter is needed"), std::string::npos) << two.error().message();
  EXPECT_FALSE(found->settle({inverts}, ElementType::f32, {1, 4, 8}).ok()) << "it takes integers";
}

TEST(FilterPlugin, ThereAndBackThroughBuffersThatItReplaces) {
  const auto found = plugin();
  const FilterSpec filter{311, {2, inverts}};
  FilterScratch scratch, other;
  for (const std::size_t bytes : {64, 8, 4096, 1}) {
    const auto data = raw(bytes);
    ASSERT_TRUE(found->apply(filter, data, scratch).ok());
    ASSERT_EQ(scratch.bytes().size(), bytes);
    EXPECT_EQ(scratch.bytes()[0], std::byte{0xFF});
    ASSERT_TRUE(found->reverse(filter, scratch.bytes(), bytes, other).ok());
    EXPECT_TRUE(std::equal(data.begin(), data.end(), other.bytes().begin()));
    EXPECT_FALSE(found->reverse(filter, scratch.bytes(), bytes + 1, other).ok());
  }
}

TEST(FilterPlugin, WhatItDoesWrongIsAnErrorAndTheNextChunkGoesOn) {
  const auto found = plugin();
  FilterScratch scratch;
  const auto odd = raw(64, 1), even = raw(64);
  const auto refused = found->apply({311, {2, refuses_odd}}, odd, scratch);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("an odd chunk"), std::string::npos) << refused.error().message();
  EXPECT_TRUE(found->apply({311, {2, refuses_odd}}, even, scratch).ok());
  EXPECT_FALSE(found->apply({311, {2, boasts}}, even, scratch).ok());
  EXPECT_FALSE(found->apply({311, {2, loses_its_buffer}}, even, scratch).ok());
  EXPECT_FALSE(found->apply({311, {2, fails_silently}}, even, scratch).ok());
  EXPECT_TRUE(found->apply({311, {2, inverts}}, even, scratch).ok());
}

TEST(FilterPlugin, OneThatFailsOnAnyChunkIsFoundOut) {
  const auto found = plugin();
  EXPECT_TRUE(found->try_out({311, {2, inverts}}, 64).ok());
  EXPECT_TRUE(found->try_out({311, {2, refuses_blank}}, 64).ok());
  const auto tried = found->try_out({311, {2, fails_silently}}, 64);
  ASSERT_FALSE(tried.ok());
  EXPECT_EQ(tried.error().code(), Errc::invalid_argument);
  for (const auto* word : {"[2, 5]", "codec.parameters"})
    EXPECT_NE(tried.error().message().find(word), std::string::npos) << tried.error().message();
}

TEST(FilterPlugin, OneThatThrowsIsNotCalledAgain) {
  const auto found = plugin();
  FilterScratch scratch;
  EXPECT_FALSE(found->apply({311, {2, throws}}, raw(64), scratch).ok());
  const auto after = found->apply({311, {2, inverts}}, raw(64), scratch);
  ASSERT_FALSE(after.ok());
  EXPECT_NE(after.error().message().find("not called again"), std::string::npos);
}

TEST(FilterPlugin, TwoThreadsAreInsideAtOnceWhileAThirdHoldsHdf5) {
  const auto found = plugin();
  std::optional<hdf5::LibraryLock> held(std::in_place);
  const auto apply = [&] {
    FilterScratch scratch;
    return found->apply({311, {2, two_meet}}, raw(64), scratch).ok();
  };
  auto one = std::async(std::launch::async, apply), other = std::async(std::launch::async, apply);
  EXPECT_EQ(one.wait_for(std::chrono::seconds(5)), std::future_status::ready);
  EXPECT_EQ(other.wait_for(std::chrono::seconds(5)), std::future_status::ready);
  held.reset();
  EXPECT_TRUE(one.get() && other.get());
}

TEST(FilterPlugin, AnExclusiveOneWaitsUntilNobodyIsInHdf5) {
  const auto found = plugin(true);
  std::atomic<bool> applied{false};
  std::optional<hdf5::LibraryLock> held(std::in_place);
  std::thread thread([&] {
    FilterScratch scratch;
    EXPECT_TRUE(found->apply({311, {2, inverts}}, raw(64), scratch).ok());
    applied = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(applied);
  held.reset();
  thread.join();
}

TEST(FilterPlugin, ReportsOfThreadsDoNotReachTheLibrary) {
  for (const bool exclusive : {false, true}) {
    const auto found = plugin(exclusive);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] {
        FilterScratch scratch;
        for (int n = 0; n < 200; ++n) EXPECT_TRUE(found->apply({311, {2, reports_and_inverts}}, raw(64), scratch).ok());
      });
    for (int n = 0; n < 50; ++n) EXPECT_TRUE(found->settle({inverts}, ElementType::u16, {1, 4, 8}).ok());
    for (auto& thread : threads) thread.join();
  }
  EXPECT_EQ(H5Eget_num(H5E_DEFAULT), 0);
}

TEST(FilterPlugin, WhatAFilterKeepsIsOnlySaidOfThoseThatAreKnown) {
  EXPECT_TRUE(keeps_all_values({32008, {}}));
  for (const int id : {32013, 32017, 32024, 32026, 32028, 311}) EXPECT_FALSE(keeps_all_values({id, {}})) << id;
}

}  // namespace
}  // namespace penstock::store
