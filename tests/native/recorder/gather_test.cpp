/// Chunks of several frames, from the recorder's sink to plain HDF5: every pixel, every state, every acknowledgement.

#include "gather_test.hpp"

namespace penstock::recorder::gathering {
namespace {

TEST_F(GatherTest, FramesInSomeDisorderLandInTheirPlaces) {
  struct Case {
    std::uint64_t frames, announced, total;
    std::vector<std::uint64_t> tile;
    Encoding encoding;
    unsigned threads;
  };
  const Case cases[] = {{2, 50, 50, {}, Encoding::none, 1},       {4, 50, 50, {}, Encoding::deflate, 3},
                        {7, 0, 50, {}, Encoding::deflate, 2},     {8, 50, 50, {5, 20}, Encoding::none, 3},
                        {3, 0, 50, {5, 7}, Encoding::deflate, 2}, {32, 70, 70, {12, 8}, Encoding::deflate, 4},
                        {32, 33, 33, {}, Encoding::none, 2}};
  for (const auto& each : cases) {
    std::filesystem::remove(folder_ / "s.h5");
    config_.chunk.frames = each.frames;
    config_.chunk.shape = each.tile;
    config_.codec.encoding = each.encoding;
    config_.threads = each.threads;
    std::vector<std::uint64_t> order(each.total);
    for (std::uint64_t n = 0; n < each.total; ++n) order[n] = n;
    std::mt19937 random(static_cast<unsigned>(each.frames));
    // Neighbours of a few places; always within the blocks that may be open at once.
    for (std::size_t first = 0; first < order.size(); first += 2 * each.frames)
      std::shuffle(order.begin() + static_cast<std::ptrdiff_t>(first),
                   order.begin() + static_cast<std::ptrdiff_t>(std::min(order.size(), first + 2 * each.frames)),
                   random);
    const auto recorder = start();
    ASSERT_TRUE(recorder->begin(series(each.announced), nullptr).ok());
    for (const auto n : order) ASSERT_TRUE(recorder->put(frame(n)).ok());
    finish(*recorder);
    EXPECT_EQ(states(), std::vector<std::uint8_t>(each.total, 1));
    expect_pixels(each.total);
  }
}

TEST_F(GatherTest, AnyOrderAtAllLosesNoFrameWithoutAWord) {
  const auto seed =
      ::getenv("PENSTOCK_TEST_SEED") ? std::stoul(::getenv("PENSTOCK_TEST_SEED")) : std::random_device()();
  SCOPED_TRACE("PENSTOCK_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(static_cast<unsigned>(seed));
  for (int round = 0; round < 12; ++round) {
    std::filesystem::remove(folder_ / "s.h5");
    config_.chunk.frames = 2 + random() % 9;
    config_.chunk.shape = random() % 2 ? std::vector<std::uint64_t>{5, 9} : std::vector<std::uint64_t>{};
    config_.threads = 1 + random() % 4;
    constexpr std::uint64_t total = 60;
    std::vector<std::uint64_t> order;
    for (std::uint64_t n = 0; n < total; ++n)
      if (random() % 8 != 0) order.push_back(n);
    for (std::size_t i = 0; i < order.size(); ++i) std::swap(order[i], order[random() % order.size()]);
    const auto session = std::make_shared<Acks>();
    const auto recorder = start();
    ASSERT_TRUE(recorder->begin(series(total), session).ok());
    std::vector<bool> refused(total);
    for (const auto n : order) {
      refused[n] = !recorder->put(frame(n, session)).ok();
      if (random() % 5 == 0) (void)recorder->put(frame(n, session));  // a copy of it
    }
    finish(*recorder);
    expect_pixels(total);
    const auto state = states();
    for (std::uint64_t n = 0; n < total; ++n) {
      const bool came = std::find(order.begin(), order.end(), n) != order.end();
      EXPECT_EQ(state[n], !came ? 0 : refused[n] ? 3 : 1) << n;
    }
    EXPECT_EQ(session->safe, *std::max_element(order.begin(), order.end()) + 1) << "nothing is waited for";
    EXPECT_EQ(session->problem, "");
  }
}

TEST_F(GatherTest, AFrameIsNotAcknowledgedBeforeItsBlockIsWritten) {
  const auto session = std::make_shared<Acks>();
  const auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(0), session).ok());
  for (std::uint64_t n = 0; n < 7; ++n) ASSERT_TRUE(recorder->put(frame(n, session)).ok());
  EXPECT_TRUE(soon([&] { return session->safe == 4; }));
  std::this_thread::sleep_for(700ms);
  EXPECT_EQ(session->safe, 4u) << "a slow detector's frames wait for their neighbours";
  ASSERT_TRUE(recorder->put(frame(7, session)).ok());
  EXPECT_TRUE(soon([&] { return session->safe == 8; }));
  ASSERT_TRUE(recorder->put(frame(8, session)).ok());
  finish(*recorder);
  EXPECT_EQ(session->safe, 9u);
  expect_pixels(9);
}

TEST_F(GatherTest, AGapIsMissingAndAFrameThatComesAfterItsBlockIsDropped) {
  const auto session = std::make_shared<Acks>();
  const auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(40), session).ok());
  for (std::uint64_t n = 0; n < 24; ++n) {
    if (n == 2 || n == 3) continue;
    ASSERT_TRUE(recorder->put(frame(n, session)).ok());
  }
  EXPECT_TRUE(soon([&] { return session->safe == 0; }));
  EXPECT_EQ(session->safe, 0u) << "four blocks may be open, and this is the only one";
  // Its place is wanted once three more are open.
  for (std::uint64_t n : {24, 28, 32, 36}) ASSERT_TRUE(recorder->put(frame(n, session)).ok());
  EXPECT_TRUE(soon([&] { return session->safe == 24; }));
  const auto late = recorder->put(frame(2, session));
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.error().message().find("too late"), std::string::npos);
  for (std::uint64_t n = 25; n < 40; ++n) ASSERT_TRUE(recorder->put(frame(n, session)).ok());
  finish(*recorder);
  EXPECT_EQ(session->safe, 40u);
  const auto state = states();
  EXPECT_EQ(state[2], 3) << "dropped";
  EXPECT_EQ(state[3], 0) << "missing";
  expect_pixels(40);
}

TEST_F(GatherTest, IncompleteChunksMayBeWrittenWhileTheSeriesCloses) {
  auto one = series(40);
  one.channels = {"1", "2", "3", "4", "5", "6", "7", "8"};
  for (int round = 0; round < 20; ++round) {
    const auto path = folder_ / fmt::format("{}.h5", round);
    const auto file = SeriesFile::create(posix_env(), config_, team_, one, path).value();
    ChunkScratch scratch;
    for (std::uint32_t channel = 0; channel < 8; ++channel)
      file->encode(*file->admit(frame(0, nullptr, channel)).value(), 0, scratch);
    std::jthread writes([&] { (void)file->write_what_gathers(); });
    EXPECT_TRUE(file->close(series::EndedBy::message).ok());
    EXPECT_EQ(file->stats().frames_written, 1u);
  }
}

TEST_F(GatherTest, ChannelsGatherEachForItself) {
  auto two = series(10);
  two.channels = {"low", "high"};
  const auto recorder = start();
  ASSERT_TRUE(recorder->begin(two, nullptr).ok());
  for (std::uint64_t n = 0; n < 10; ++n)
    for (std::uint32_t channel : {1u, 0u}) ASSERT_TRUE(recorder->put(frame(n, nullptr, channel)).ok());
  finish(*recorder);
  EXPECT_EQ(states(), std::vector<std::uint8_t>(10, 1));
  expect_pixels(10, "/entry/data/data", 0);
  expect_pixels(10, "/entry/data/channel_1_high", 1);
}

TEST_F(GatherTest, FramesThatComeCompressedAreExpandedAndABrokenOneIsDamaged) {
  config_.codec.encoding = Encoding::deflate;  // HDF5's own
  const auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(8), nullptr).ok());
  for (std::uint64_t n = 0; n < 8; ++n) {
    auto one = frame(n);
    const CodecSpec codec{.encoding = Encoding::bitshuffle_lz4};
    CodecScratch scratch;
    auto stored = std::make_shared<std::vector<std::byte>>(encoded_bound(codec, one.payload.size(), 2));
    const auto size = penstock::encode(codec, one.payload, 2, *stored, scratch);
    ASSERT_TRUE(size.ok());
    stored->resize(*size);
    if (n == 5) std::fill(stored->begin() + 16, stored->end(), std::byte{0xFF});
    one.encoding = Encoding::bitshuffle_lz4;
    one.payload = *stored;
    one.owner = stored;
    ASSERT_TRUE(recorder->put(std::move(one)).ok());
  }
  finish(*recorder);
  EXPECT_EQ(states(), (std::vector<std::uint8_t>{1, 1, 1, 1, 1, 2, 1, 1}));
  expect_pixels(8);
}

TEST_F(GatherTest, ALostBlockIsAskedForAndFormedAnew) {
  for (const bool tiled : {false, true}) {
    std::filesystem::remove(folder_ / "s.h5");
    config_.chunk.shape = tiled ? std::vector<std::uint64_t>{5, 9} : std::vector<std::uint64_t>{};
    config_.end_timeout_s = 10;
    config_.store.segment_bytes = 64 << 10;
    std::atomic<bool> full{false};
    env_.faults->on_write = [&](std::uint64_t, std::uint64_t bytes) -> Result<void> {
      return full && bytes > 4096 ? Result<void>(make_error(Errc::no_space, "full")) : Result<void>{};
    };
    const auto session = std::make_shared<Acks>();
    const auto recorder = start();
    ASSERT_TRUE(recorder->begin(series(40), session).ok());
    for (std::uint64_t n = 0; n < 8; ++n) ASSERT_TRUE(recorder->put(frame(n, session)).ok());
    ASSERT_TRUE(soon([&] { return session->safe == 8; }));
    full = true;
    for (std::uint64_t n = 8; n < 18; ++n) ASSERT_TRUE(recorder->put(frame(n, session)).ok());
    ASSERT_TRUE(soon([&] { return session->asked > 0; }));
    EXPECT_EQ(session->safe, 8u);
    full = false;
    // As a client does that comes back: all that was not acknowledged, and what follows.
    const auto back = std::make_shared<Acks>();
    for (std::uint64_t n = 8; n < 40; ++n) ASSERT_TRUE(recorder->put(frame(n, back)).ok()) << n;
    finish(*recorder);
    EXPECT_EQ(back->safe, 40u);
    EXPECT_EQ(states(), std::vector<std::uint8_t>(40, 1));
    expect_pixels(40);
    env_.faults->on_write = [](auto, auto) { return Result<void>{}; };
  }
}

TEST_F(GatherTest, ASenderThatCanSendNoMoreGetsTheBlockThatItWaitsFor) {
  const auto session = std::make_shared<Acks>(8);
  const auto recorder = start();
  ASSERT_TRUE(recorder->begin(series(0), session).ok());
  // Frame 1 never comes; fewer blocks are open than may be.
  for (std::uint64_t n : {0, 2, 3, 4, 5, 6, 7, 8}) ASSERT_TRUE(recorder->put(frame(n, session)).ok());
  EXPECT_TRUE(soon([&] { return session->safe == 8; })) << session->safe;
  ASSERT_TRUE(recorder->put(frame(9, session)).ok());
  finish(*recorder);
  EXPECT_EQ(states(), (std::vector<std::uint8_t>{1, 0, 1, 1, 1, 1, 1, 1, 1, 1}));
  expect_pixels(10);
}

TEST_F(GatherTest, ASenderThatComesBackAndHasSentAllBeforeIsNotHeldUp) {
  const auto recorder = start();
  const auto first = std::make_shared<Acks>(8), back = std::make_shared<Acks>(8);
  ASSERT_TRUE(recorder->begin(series(0), first).ok());
  for (std::uint64_t n : {0, 2, 3, 4, 5, 6, 7}) ASSERT_TRUE(recorder->put(frame(n, first)).ok());
  for (std::uint64_t n : {0, 2, 3, 4, 5, 6, 7, 8}) ASSERT_TRUE(recorder->put(frame(n, back)).ok());
  EXPECT_TRUE(soon([&] { return back->safe >= 8; })) << back->safe;
  finish(*recorder);
}

TEST_F(GatherTest, AClientThatIsAheadWaitsForTheOther) {
  for (const std::uint64_t window : {0, 8}) {
    std::filesystem::remove(folder_ / "s.h5");
    const auto recorder = start();
    const auto ahead = std::make_shared<Acks>(window), behind = std::make_shared<Acks>(window);
    ASSERT_TRUE(recorder->begin(series(0), ahead).ok());
    recorder->expect("s", behind);  // it has put nothing yet
    constexpr std::uint64_t total = 200;
    std::atomic<std::uint64_t> put_ahead{0};
    std::thread fast([&] {
      for (std::uint64_t n = 0; n < total; n += 2, ++put_ahead) EXPECT_TRUE(recorder->put(frame(n, ahead)).ok()) << n;
    });
    std::this_thread::sleep_for(300ms);
    EXPECT_LE(put_ahead, window == 0 ? 8u : 7u) << "of each of four blocks two frames, or as many as it keeps";
    for (std::uint64_t n = 1; n < total; n += 2) EXPECT_TRUE(recorder->put(frame(n, behind)).ok()) << n;
    fast.join();
    finish(*recorder);
    EXPECT_EQ(states(), std::vector<std::uint8_t>(total, 1));
    expect_pixels(total);
  }
}

TEST_F(GatherTest, AClientThatHasEndedIsNotWaitedFor) {
  const Log log;
  const auto recorder = start();
  const auto goes_on = std::make_shared<Acks>(), ended = std::make_shared<Acks>();
  ASSERT_TRUE(recorder->begin(series(0), goes_on).ok());
  ASSERT_TRUE(recorder->put(frame(1, ended)).ok());
  ended->ended = true;
  for (std::uint64_t n = 0; n < 40; n += 2) ASSERT_TRUE(recorder->put(frame(n, goes_on)).ok());
  EXPECT_EQ(log.text().find(gave_up), std::string::npos) << log.text();
  finish(*recorder);
  expect_pixels(39);
}

TEST_F(GatherTest, AFrameThatIsTooLateAndFillsTheWindowLetsItsSenderGoOn) {
  const auto recorder = start();
  const auto hasty = std::make_shared<Acks>(1), session = std::make_shared<Acks>(8);
  ASSERT_TRUE(recorder->begin(series(0), session).ok());
  ASSERT_TRUE(recorder->put(frame(8, hasty)).ok());  // the third block is written with this frame alone
  for (std::uint64_t n : {0, 2, 3, 4, 5, 6}) ASSERT_TRUE(recorder->put(frame(n, session)).ok());
  for (std::uint64_t n : {9, 10}) EXPECT_FALSE(recorder->put(frame(n, session)).ok());
  EXPECT_TRUE(soon([&] { return session->safe == 4; })) << session->safe;
  finish(*recorder);
}

TEST_F(GatherTest, AClientThatIsSlowIsWaitedForAsLongAsItGoesOn) {
  const auto recorder = start();
  const auto ahead = std::make_shared<Acks>(), behind = std::make_shared<Acks>();
  ASSERT_TRUE(recorder->begin(series(0), ahead).ok());
  recorder->expect("s", behind);
  std::thread fast([&] {
    for (std::uint64_t n = 0; n < 24; n += 2) EXPECT_TRUE(recorder->put(frame(n, ahead)).ok()) << n;
  });
  for (std::uint64_t n = 1; n < 8; n += 2) {
    std::this_thread::sleep_for(1300ms);  // more than five seconds altogether
    auto put = recorder->put(frame(n, behind));
    EXPECT_TRUE(put.ok()) << n << put.error().message();
  }
  behind->ended = true;
  fast.join();
  finish(*recorder);
}

TEST_F(GatherTest, AFrameThatNobodyHasCostsNoOther) {
  config_.chunk.frames = 8;
  const auto recorder = start();
  const auto ahead = std::make_shared<Acks>(), behind = std::make_shared<Acks>();
  ASSERT_TRUE(recorder->begin(series(0), ahead).ok());
  recorder->expect("s", behind);
  std::thread fast([&] {
    for (std::uint64_t n = 0; n < 64; n += 2) EXPECT_TRUE(recorder->put(frame(n, ahead)).ok()) << n;
  });
  std::this_thread::sleep_for(200ms);
  for (std::uint64_t n = 3; n < 64; n += 2) {  // the detector lost image 1
    auto put = recorder->put(frame(n, behind));
    EXPECT_TRUE(put.ok()) << n << ": " << put.error().message();
    std::this_thread::sleep_for(20ms);
  }
  behind->ended = true;
  fast.join();
  finish(*recorder);
}

TEST_F(GatherTest, FiveClientsOfWhichOneIsAheadLoseNothing) {
  const auto recorder = start();
  EXPECT_EQ(deal_among(*recorder, 5, 200), 0);
  finish(*recorder);
  expect_pixels(200);
}

TEST_F(GatherTest, ThreeClientsWithLittleMemoryLoseNothing) {
  config_.chunk.frames = 2;
  rows = 300;
  columns = 500;
  config_.pool_bytes = 64 << 20;  // two blocks may be open
  const auto recorder = start();
  EXPECT_EQ(deal_among(*recorder, 3, 120), 0);
  finish(*recorder);
  expect_pixels(120);
}

TEST_F(GatherTest, ABlockThatOpensLateTakesNothingFromThoseAbove) {
  const auto recorder = start();
  const auto a = std::make_shared<Acks>(), c = std::make_shared<Acks>();
  ASSERT_TRUE(recorder->begin(series(0), a).ok());
  recorder->expect("s", c);
  for (std::uint64_t n = 4; n < 20; n += 2) ASSERT_TRUE(recorder->put(frame(n, a)).ok());
  for (std::uint64_t n : {0, 1, 2, 3, 5, 7, 9, 11}) {
    auto put = recorder->put(frame(n, c));
    EXPECT_TRUE(put.ok()) << n << ": " << put.error().message();
  }
  finish(*recorder);
}

TEST_F(GatherTest, AClientThatCameBackWaitsNotLongForItself) {
  const Log log;
  const auto recorder = start();
  auto first = std::make_shared<Acks>();
  ASSERT_TRUE(recorder->begin(series(0), nullptr).ok());
  recorder->expect("s", first);
  for (std::uint64_t n = 0; n < 6; ++n) ASSERT_TRUE(recorder->put(frame(n, first)).ok());
  first.reset();
  std::this_thread::sleep_for(300ms);
  const auto again = std::make_shared<Acks>();
  recorder->expect("s", again);
  for (std::uint64_t n = 4; n < 100; ++n) {
    if (n == 9) continue;
    ASSERT_TRUE(recorder->put(frame(n, again)).ok());
  }
  EXPECT_EQ(log.text().find(gave_up), std::string::npos) << "it is forgotten earlier: " << log.text();
  finish(*recorder);
}
}  // namespace
}  // namespace penstock::recorder::gathering
