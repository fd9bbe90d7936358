#include "load/plan.hpp"

#include <gtest/gtest.h>

#include <string>

namespace penstock::load {
namespace {

Json frames_plan() {
  return Json::parse(R"({
    "backend": {"kind": "posix", "folder": "/data/run", "direct": true, "sync": "each", "queue_depth": 1},
    "workload": {"kind": "frames", "frames": 1000, "frame_bytes": 1048576, "rate_hz": 100,
                 "seconds_max": 0, "writers": 4, "buffer_frames": 100, "late_after_s": 0.5, "layout": "file_a_writer",
                 "record": false, "rename": false, "ring_frames": 20, "image": null},
    "content": "zeros", "content_ratio": 1.0, "content_file": "", "seed": 7, "prefix": "frame-", "interval_s": 0.5,
    "drain_timeout_s": 5, "folders": ["/data/run", "/second/run"], "log_level": "debug"})");
}

Json stream_plan() {
  return Json::parse(R"({
    "backend": {"kind": "posix", "folder": "/data/run"},
    "workload": {"kind": "stream", "threads": 2, "thread_bytes": 8388608, "transfer_bytes": 1048576, "verify": true,
                 "shared": true, "segments": 4, "order": "random"}})");
}

Json metadata_plan() {
  return Json::parse(R"({
    "backend": {"kind": "posix", "folder": "/data/run", "direct": false, "sync": "none"},
    "workload": {"kind": "metadata", "threads": 4, "items": 10, "depth": 5, "branch": 5, "shared": true, "shift": 3,
                 "iterations": 5, "folders": false, "files": true, "file_bytes": 4096, "rename": true,
                 "remove": false}})");
}

Json image_plan() {
  auto plan = frames_plan();
  plan["workload"].update(Json::parse(R"({
    "layout": "file_a_frame", "rename": true,
    "image": {"template": "/tmp/one.cbf", "images": 1, "suffix": "cbf", "pixels_at": 800,
              "pixels_bytes": 1000000, "differences": true}})"));
  return plan;
}

Json mpiio_plan() {
  auto plan = stream_plan();
  plan["workload"].update({{"threads", 1}, {"shared", false}, {"segments", 1}});
  plan["backend"] = Json::parse(R"({"kind": "mpiio", "folder": "/data/run", "sync": "end", "shared": true,
                                    "collective": true, "block_bytes": 2097152, "hints": {"cb_nodes": "2"}})");
  return plan;
}

Json hdf5_plan() {
  auto plan = mpiio_plan();
  plan["backend"] = Json::parse(R"({"kind": "hdf5", "folder": "/data/run", "sync": "each", "shared": true,
                                    "collective": true, "chunk_bytes": 524288, "deflate": 3})");
  return plan;
}

/// The first one.
std::string error_of(const Json& plan) {
  const auto result = LoadPlan::from_json(plan.dump());
  return result ? "no error" : result.error().message().substr(0, result.error().message().find('\n'));
}

TEST(LoadPlan, ReadsAllOfIt) {
  const auto plan = LoadPlan::from_json(frames_plan().dump());
  ASSERT_TRUE(plan) << plan.error().message();
  const auto& frames = std::get<FramesPlan>(plan->workload);
  EXPECT_EQ(frames.frames, 1000U);
  EXPECT_EQ(frames.frame_bytes, 1048576U);
  EXPECT_EQ(frames.rate_hz, 100);
  EXPECT_EQ(frames.writers, 4U);
  EXPECT_EQ(frames.buffer_frames, 100U);
  EXPECT_EQ(frames.late_after_ns, 500'000'000);
  EXPECT_EQ(frames.layout, Layout::file_a_writer);
  EXPECT_FALSE(frames.record);
  EXPECT_EQ(std::get<PosixPlan>(plan->backend).sync, Sync::each);
  EXPECT_EQ(plan->content, ContentKind::zeros);
  EXPECT_EQ(plan->seed, 7U);
  EXPECT_EQ(file_name(*plan, 42), "frame-000000042.bin");
}

TEST(LoadPlan, ComesOutAsItWentIn) {
  for (const auto& given : {frames_plan(), stream_plan(), metadata_plan(), image_plan(), mpiio_plan(), hdf5_plan()}) {
    const auto plan = LoadPlan::from_json(given.dump());
    ASSERT_TRUE(plan) << plan.error().message();
    const auto written = plan->to_json();
    EXPECT_EQ(LoadPlan::from_json(written.dump())->to_json(), written);
    for (const auto& [name, value] : given["workload"].items()) EXPECT_EQ(written["workload"][name], value) << name;
  }
  EXPECT_EQ(LoadPlan::from_json(frames_plan().dump())->to_json(), frames_plan());
}

struct Wrong {
  const char* where;
  Json value;
  const char* message;
};

std::string folder_of(const LoadPlan& plan) { return std::get<PosixPlan>(plan.backend).folder; }

TEST(LoadPlan, RanksUseFoldersInTurn) {
  auto plan = LoadPlan::from_json(stream_plan().dump()).value();
  EXPECT_EQ(folder_of(plan.for_rank(1)), "/data/run");
  plan.folders = {"/data/run", "/second/run"};
  EXPECT_EQ(folder_of(plan.for_rank(0)), "/data/run");
  EXPECT_EQ(folder_of(plan.for_rank(1)), "/second/run");
  EXPECT_EQ(folder_of(plan.for_rank(4)), "/data/run");
}

TEST(LoadPlan, NobodyReadsThroughTheFolderOfTheWriter) {
  auto plan = LoadPlan::from_json(stream_plan().dump()).value();
  EXPECT_EQ(reading_shift(plan, 3), 1U);
  for (unsigned folders = 2; folders <= 9; ++folders) {
    plan.folders.assign(folders, "/data/run");
    EXPECT_EQ(reading_shift(plan, 1), 1U);
    for (unsigned ranks = 2; ranks <= 40; ++ranks) {
      const auto shift = reading_shift(plan, ranks);
      EXPECT_EQ(shift.has_value(), folders > 2 || ranks % 2 == 0) << folders << " folders, " << ranks << " ranks";
      for (unsigned rank = 0; shift && rank < ranks; ++rank)
        EXPECT_NE(rank % folders, (rank + *shift) % ranks % folders) << folders << " folders, " << ranks << " ranks";
    }
  }
  plan.folders.resize(3);
  EXPECT_EQ(reading_shift(plan, 4), 2U) << "rank 3 and rank 0 use the same folder";
}

TEST(LoadPlan, FoldersAreOfAStorage) {
  auto plan = stream_plan();
  plan["folders"] = {"/data/run", ""};
  EXPECT_NE(error_of(plan).find("folders[1]"), std::string::npos) << error_of(plan);
  plan["folders"] = {"/elsewhere", "/data/run"};
  EXPECT_NE(error_of(plan).find("must start with backend.folder"), std::string::npos) << error_of(plan);
  plan["folders"] = {"/data/run"};
  plan["backend"] = {{"kind", "null"}};
  plan["workload"]["verify"] = false;
  EXPECT_NE(error_of(plan).find("folders"), std::string::npos) << error_of(plan);
}

TEST(LoadPlan, NamesWhatIsWrongWithMpiio) {
  const Wrong all[] = {
      {"/backend/shared", false, "backend.collective: true must be false unless all ranks share a file"},
      {"/backend/hints", 3, "backend.hints: 3 must be an object of at most 100 names and texts of 1 to 1000 bytes"},
      {"/backend/hints/cb_nodes", 2,
       "backend.hints: {\"cb_nodes\":2} must be an object of at most 100 names and texts of 1 to 1000 bytes"},
      {"/backend/block_bytes", 1048577, "backend.block_bytes: 1048577 must be a multiple of 1048576 (transfer_bytes)"},
      {"/backend/block_bytes", 3145728, "workload.thread_bytes: 8388608 must be a multiple of 3145728 (block_bytes)"},
      {"/workload/threads", 2, "workload.threads: 2 must be 1 with backend.kind mpiio; use more ranks"},
      {"/workload", frames_plan()["workload"], "workload.writers: 4 must be 1 with backend.kind mpiio; use more ranks"},
  };
  for (const auto& wrong : all) {
    auto plan = mpiio_plan();
    plan[Json::json_pointer(wrong.where)] = wrong.value;
    EXPECT_EQ(error_of(plan), wrong.message);
  }
  auto synced = mpiio_plan();
  synced["backend"]["collective"] = false;
  synced["backend"]["sync"] = "each";
  EXPECT_EQ(error_of(synced), "backend.sync: \"each\" must be none or end unless calls are collective");
}

TEST(LoadPlan, NamesWhatIsWrongWithHdf5) {
  const Wrong all[] = {
      {"/backend/folder", nullptr, "backend.folder: this field is required"},
      {"/backend/shared", false, "backend.collective: true must be false unless all ranks share a file"},
      {"/backend/deflate", 10, "backend.deflate: 10 exceeds the maximum of 9"},
      {"/backend/chunk_bytes", 0, "backend.deflate: 3 must be 0 without chunk_bytes"},
      {"/backend/chunk_bytes", 2097152, "workload.transfer_bytes: 1048576 must be a multiple of 2097152 (chunk_bytes)"},
      {"/backend/collective", false,
       "backend.deflate: 3 must be 0 unless calls are collective; HDF5 compresses only in collective "
       "calls"},
      {"/workload/threads", 2, "workload.threads: 2 must be 1 with a shared HDF5 file; use more ranks"},
      {"/workload", frames_plan()["workload"],
       "backend.kind: \"hdf5\" must be another one unless workload.kind is stream"},
  };
  for (const auto& wrong : all) {
    auto plan = hdf5_plan();
    plan[Json::json_pointer(wrong.where)] = wrong.value;
    EXPECT_EQ(error_of(plan), wrong.message);
  }
}

TEST(LoadPlan, NamesWhatIsWrongWithFrames) {
  const Wrong all[] = {
      {"/backend", nullptr, "backend: this field is required"},
      {"/backend", 3, "backend: 3 is not an object"},
      {"/backend/kind", "tape", "backend.kind: \"tape\" is not one of null, posix, mpiio, hdf5, store, remote"},
      {"/backend/folder", "", "backend.folder: \"\" must not be empty"},
      {"/backend/folder", std::string("a\0b", 3), "backend.folder: \"a\\u0000b\" has a zero byte"},
      {"/backend/sync", "always", "backend.sync: \"always\" is not one of none, end, each"},
      {"/backend/odirect", true, "backend.odirect: unknown field; did you mean \"direct\"?"},
      {"/workload/kind", "waves",
       "workload.kind: \"waves\" is not one of frames, stream, metadata, network, network_server, remove"},
      {"/workload/frames", 0, "workload.frames: 0 is below the minimum of 1"},
      {"/workload/frames", -1, "workload.frames: -1 is below the minimum of 1"},
      {"/workload/frames", 1e3, "workload.frames: 1000.0 is not a whole number"},
      {"/workload/frame_bytes", nullptr, "workload.frame_bytes: this field is required"},
      {"/workload/frame_bytes", 1ULL << 40, "workload.frame_bytes: 1099511627776 exceeds the maximum of 4294967296"},
      {"/workload/rate_hz", -1, "workload.rate_hz: -1 is below the minimum of 0"},
      {"/workload/rate_hz", 1e-9, "workload.rate_hz: 1e-09 must be a rate at which 1000 frames take at most 30 days"},
      {"/workload/seconds_max", 2, "workload.seconds_max: 2 must be 0 with a rate"},
      {"/workload/writers", 257, "workload.writers: 257 exceeds the maximum of 256"},
      {"/workload/buffer_frames", 0, "workload.buffer_frames: 0 is below the minimum of 1"},
      {"/workload/layout", "heap", "workload.layout: \"heap\" is not one of file_a_frame, file_a_writer"},
      {"/content", "noise", "content: \"noise\" is not one of random, zeros, compressible, file"},
      {"/content", "file", "content_file: \"\" must be a path with content file"},
      {"/content_file", "image.raw", "content_file: \"image.raw\" must be empty unless content is file"},
      {"/content_ratio", 17, "content_ratio: 17 exceeds the maximum of 10"},
      {"/content_ratio", 0.5, "content_ratio: 0.5 is below the minimum of 1"},
      {"/prefix", "../up-",
       "prefix: \"../up-\" must be the start of file names, without '/', and not start with "
       "'.'"},
      {"/prefix", ".hidden",
       "prefix: \".hidden\" must be the start of file names, without '/', and not start with "
       "'.'"},
      {"/interval_s", 0.001, "no error"},
      {"/interval_s", 0, "interval_s: 0 is below the minimum of 0.001"},
      {"/surprise", 1, "surprise: unknown field"},
  };
  for (const auto& [where, value, message] : all) {
    auto plan = frames_plan();
    plan[Json::json_pointer(where)] = value;
    EXPECT_EQ(error_of(plan), message) << where;
  }
}

TEST(LoadPlan, NamesWhatIsWrongWithImages) {
  const Wrong all[] = {
      {"/workload/layout", "file_a_writer", "workload.rename: true must be false with layout file_a_writer"},
      {"/workload/image/template", "", "workload.image.template: \"\" must not be empty"},
      {"/workload/image/suffix", "a/b", "workload.image.suffix: \"a/b\" must be 1 to 10 small letters and digits"},
      {"/workload/image/pixels_at", 1048577,
       "workload.image.pixels_at: 1048577 exceeds the maximum of 1048576 (frame_bytes)"},
      {"/workload/image/pixels_bytes", 1047777,
       "workload.image.pixels_bytes: 1047777 exceeds the maximum of 1047776 (the rest of frame_bytes)"},
      {"/workload/image/pixels_bytes", nullptr, "workload.image.pixels_bytes: this field is required"},
      {"/workload/image/suffix", "cbf.", "workload.image.suffix: \"cbf.\" must be 1 to 10 small letters and digits"},
      {"/workload/image/suffix", ".gz", "workload.image.suffix: \".gz\" must be 1 to 10 small letters and digits"},
      {"/workload/image/images", 2, "workload.image.images: 2 exceeds the maximum of 1"},
      {"/workload/image/colour", "red", "workload.image.colour: unknown field"},
  };
  for (const auto& [where, value, message] : all) {
    auto plan = image_plan();
    plan[Json::json_pointer(where)] = value;
    EXPECT_EQ(error_of(plan), message) << where;
  }
  EXPECT_EQ(file_name(*LoadPlan::from_json(image_plan().dump()), 42), "frame-000000042.cbf");
}

TEST(LoadPlan, NamesWhatIsWrongWithAStream) {
  const Wrong all[] = {
      {"/workload/thread_bytes", 8388609,
       "workload.thread_bytes: 8388609 must be a multiple of 1048576 (transfer_bytes)"},
      {"/workload/transfer_bytes", 1000, "workload.thread_bytes: 8388608 must be a multiple of 1000 (transfer_bytes)"},
      {"/workload/segments", 3, "workload.segments: 3 must be a divisor of the 8 transfers of a thread"},
      {"/workload/segments", 0, "workload.segments: 0 is below the minimum of 1"},
      {"/workload/order", "reverse", "workload.order: \"reverse\" is not one of sequential, random"},
      {"/workload/read", false, "workload.verify: true must be false unless data is read"},
      {"/workload/seconds_max", "long", "workload.seconds_max: \"long\" is not a number"},
      {"/backend", {{"kind", "null"}}, "workload.verify: true must be false with backend.kind null"},
  };
  for (const auto& [where, value, message] : all) {
    auto plan = stream_plan();
    plan[Json::json_pointer(where)] = value;
    EXPECT_EQ(error_of(plan), message) << where;
  }
  auto plan = stream_plan();
  plan["workload"]["transfer_bytes"] = 1024;
  EXPECT_EQ(error_of(plan), "workload.transfer_bytes: 1024 must be a multiple of 4096 with backend.direct");
}

TEST(LoadPlan, NamesWhatIsWrongWithMetadata) {
  const Wrong all[] = {
      {"/workload/items", nullptr, "workload.items: this field is required"},
      {"/workload/items", 0, "workload.items: 0 is below the minimum of 1"},
      {"/workload/items", 100'000,
       "workload.items: 100000 makes 7812019530 files and directories, which exceeds the maximum of 1000000000"},
      {"/workload/branch", 100, "workload.branch: 100 must be a tree of at most 1000000 folders at depth 5"},
      {"/workload/shift", 65536, "workload.shift: 65536 exceeds the maximum of 65535"},
      {"/workload/files", false, "workload.files: false must be true if folders is false"},
      {"/workload/file_bytes", 1 << 27, "workload.file_bytes: 134217728 exceeds the maximum of 67108864"},
      {"/backend/direct", true, "backend.direct: true must be false with workload.kind metadata"},
  };
  for (const auto& [where, value, message] : all) {
    auto plan = metadata_plan();
    plan[Json::json_pointer(where)] = value;
    EXPECT_EQ(error_of(plan), message) << where;
  }
}

TEST(LoadPlan, MemoryAndTheTimeSeriesAreBounded) {
  auto plan = frames_plan();
  plan["workload"]["frame_bytes"] = 1ULL << 32;
  plan["workload"]["writers"] = 256;
  EXPECT_NE(error_of(plan).find("hold 1099511627776 bytes in memory"), std::string::npos);
  plan = frames_plan();
  plan["workload"]["rate_hz"] = 0.01;
  EXPECT_NE(error_of(plan).find("interval_s: 0.5 must be a time that 100000 s have at most"), std::string::npos);
  plan = frames_plan();
  plan["workload"]["frames"] = 2'000'000;
  plan["workload"]["rate_hz"] = 1000;
  plan["workload"]["record"] = true;
  EXPECT_EQ(error_of(plan), "workload.record: true must be false for more than 1000000 frames");
}

TEST(LoadPlan, MemoryIsThatOfAllBlocksThatAreUnderWay) {
  Json plan = {
      {"backend", {{"kind", "posix"}, {"folder", "/tmp"}, {"queue_depth", 1024}, {"sync", "end"}}},
      {"workload", {{"kind", "stream"}, {"threads", 2}, {"thread_bytes", 1ULL << 40}, {"transfer_bytes", 1ULL << 26}}}};
  EXPECT_NE(error_of(plan).find("queue_depth"), std::string::npos) << "2 x 1024 x 64 MiB";
  plan["workload"]["thread_bytes"] = 1ULL << 27;  // no more transfers than two
  EXPECT_TRUE(LoadPlan::from_json(plan.dump()));
}

TEST(LoadPlan, MemoryIsThatOfStoresThatCopyToo) {
  Json plan = {{"backend", {{"kind", "store"}, {"folder", "/tmp"}}},
               {"workload", {{"kind", "stream"}, {"threads", 3}, {"thread_bytes", 40'000}, {"transfer_bytes", 1000}}}};
  const auto bytes = [&] { return memory_bytes(*LoadPlan::from_json(plan.dump()), 1); };
  EXPECT_GE(bytes(), 3 * store_buffer_bytes);
  plan["workload"]["shared"] = true;
  EXPECT_GE(bytes(), store_buffer_bytes);
  EXPECT_LT(bytes(), 2 * store_buffer_bytes);
  plan["workload"].update({{"thread_bytes", 40 * 4096}, {"transfer_bytes", 4096}});
  EXPECT_LT(bytes(), store_buffer_bytes) << "whole pages are written from where they lie";
}

TEST(LoadPlan, AStoreHasSoManyTransfers) {
  Json plan = {{"backend", {{"kind", "store"}, {"folder", "/tmp"}}},
               {"workload",
                {{"kind", "stream"}, {"threads", 2}, {"thread_bytes", 0xFFFF'FFFEULL * 512}, {"transfer_bytes", 512}}}};
  EXPECT_TRUE(LoadPlan::from_json(plan.dump()));
  plan["workload"]["shared"] = true;
  EXPECT_NE(error_of(plan).find("8589934588 transfers in a file"), std::string::npos) << error_of(plan);
  plan["workload"].update({{"shared", false}, {"thread_bytes", 0xFFFF'FFFFULL * 512}});
  EXPECT_NE(error_of(plan).find("workload.thread_bytes"), std::string::npos) << error_of(plan);
}

TEST(LoadPlan, LevelsOfTheLogAndMarksOfByteOrderAreChecked) {
  auto plan = frames_plan();
  for (const auto* level : {"foo", "warn", "critical", ""}) {
    plan["log_level"] = level;
    EXPECT_NE(error_of(plan).find("log_level"), std::string::npos) << level;
  }
  const auto marked = LoadPlan::from_json("\xEF\xBB\xBF" + frames_plan().dump());
  ASSERT_FALSE(marked);
  EXPECT_NE(marked.error().message().find("byte order mark"), std::string::npos);
}

TEST(LoadPlan, NestingAndNonsenseAreRefused) {
  const std::string deep(100'000, '[');
  EXPECT_EQ(LoadPlan::from_json(deep).error().message(), "the plan is nested deeper than 64 levels");
  EXPECT_EQ(LoadPlan::from_json("{\"a\": \"[[[").error().code(), Errc::malformed);
  EXPECT_EQ(LoadPlan::from_json("").error().code(), Errc::malformed);
  EXPECT_EQ(LoadPlan::from_json("[]").error().message(), "the document: [] is not an object");
  EXPECT_EQ(LoadPlan::from_json(std::string_view("\xff\xfe\0{", 4)).error().code(), Errc::malformed);
}

}  // namespace
}  // namespace penstock::load
