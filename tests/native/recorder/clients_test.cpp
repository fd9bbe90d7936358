/// The client library and the recorder in one process, with a storage that does as it is told.

#include <gtest/gtest.h>

#include <thread>

#include "../support/full_disk.hpp"
#include "client/penstock.hpp"
#include "recorder_fixture.hpp"
#include "stream/tcp.hpp"

namespace penstock::recorder {
namespace {

using namespace std::chrono_literals;

class ClientsTest : public RecorderFixture {
 protected:
  void start(Env& env) {
    recorder_ = std::make_unique<Recorder>(env, small_config(), *events_, team_);
    ASSERT_TRUE(recorder_->start().ok());
    stream::TcpSourceOptions options;
    options.port = 0;
    source_ = stream::make_tcp_source(options).value();
    ASSERT_TRUE(source_->start(*recorder_).ok());
  }
  void stop() {
    source_->stop();
    recorder_->stop();
  }
  void TearDown() override {
    source_.reset();
    recorder_.reset();
    RecorderFixture::TearDown();
  }

  client::Options options() const {
    const auto address = source_->address();
    return {address.substr(address.find("//") + 2), "s", client::type_of<std::uint16_t>(), {40, 50}};
  }
  static std::vector<std::uint16_t> image(std::uint64_t number) {
    return std::vector<std::uint16_t>(40 * 50, static_cast<std::uint16_t>(number + 1));
  }

  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<Source> source_;
};

TEST_F(ClientsTest, AStorageThatWasFullIsNoProblemOnceAllFramesAreThere) {
  penstock::testing::FullDisk disk(false);
  start(disk.env());
  auto wanted = options();
  wanted.frames = 20;
  client::Series series(wanted);
  series.send(image(0));
  series.wait_acknowledged(10'000);
  disk.fill();
  for (std::uint64_t number = 1; number < 20; ++number) series.send(image(number));
  std::thread later([&] {
    std::this_thread::sleep_for(1s);
    disk.make_room();
  });
  EXPECT_NO_THROW(series.wait_acknowledged(60'000));
  later.join();
  EXPECT_NO_THROW(series.end());
  EXPECT_EQ(series.acknowledged(), 20u);
  EXPECT_GT(series.resent(), 0u) << "the storage was full";
  stop();
  EXPECT_EQ(recorder_->failed_series(), 0u);
  EXPECT_EQ(recorder_->snapshot().complete_series, 1u);
}

}  // namespace
}  // namespace penstock::recorder
