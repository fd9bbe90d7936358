#include "load/plan.hpp"

#include <gtest/gtest.h>

#include <string>

namespace penstock::load {
namespace {

Json frames_plan() {
  return Json::parse(R"({
    "backend": {"kind": "posix", "folder": "/data/run", "direct": true, "sync": "each", "queue_depth": 1},
    "workload": {"kind": "frames", "frames": 1000, "frame_bytes": 1048576, "rate_hz": 100, "writers": 4,
                 "buffer_frames": 100, "late_after_s": 0.5, "layout": "file_a_writer", "record": false, "rename": false,
                 "image": null},
    "content": "zeros", "content_ratio": 1.0, "content_file": "", "seed": 7, "prefix": "frame-", "interval_s": 0.5,
    "drain_timeout_s": 5, "log_level": "debug"})");
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

std::string error_of(const Json& plan) {
  const auto result = LoadPlan::from_json(plan.dump());
  return result ? "no error" : result.error().message();
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

TEST(LoadPlan, NamesWhatIsWrongWithMpiio) {
  const Wrong all[] = {
      {"/backend/shared", false, "backend.collective is true, expected false where each rank has a file of its own"},
      {"/backend/hints", 3, "backend.hints is 3, expected an object of at most 100 texts"},
      {"/backend/hints/cb_nodes", 2, "backend.hints is {\"cb_nodes\":2}, expected names and texts of 1 to 1000 bytes"},
      {"/backend/block_bytes", 1048577,
       "backend.block_bytes is 1048577, expected a multiple of 1048576 (transfer_bytes)"},
      {"/backend/block_bytes", 3145728,
       "workload.thread_bytes is 8388608, expected a multiple of 3145728 (block_bytes)"},
      {"/workload/threads", 2, "workload.threads is 2, expected 1 with backend.kind mpiio: more ranks"},
      {"/workload", frames_plan()["workload"], "workload.writers is 4, expected 1 with backend.kind mpiio: more ranks"},
  };
  for (const auto& wrong : all) {
    auto plan = mpiio_plan();
    plan[Json::json_pointer(wrong.where)] = wrong.value;
    EXPECT_EQ(error_of(plan), wrong.message);
  }
  auto synced = mpiio_plan();
  synced["backend"]["collective"] = false;
  synced["backend"]["sync"] = "each";
  EXPECT_EQ(error_of(synced),
            "backend.sync is \"each\", expected none or end where ranks write one file independently");
}

TEST(LoadPlan, NamesWhatIsWrongWithHdf5) {
  const Wrong all[] = {
      {"/backend/folder", nullptr, "backend.folder is missing"},
      {"/backend/shared", false, "backend.collective is true, expected false where each rank has a file of its own"},
      {"/backend/deflate", 10, "backend.deflate is 10, expected a whole number from 0 to 9"},
      {"/backend/chunk_bytes", 0, "backend.deflate is 3, expected 0 without chunk_bytes"},
      {"/backend/chunk_bytes", 2097152,
       "workload.transfer_bytes is 1048576, expected a multiple of 2097152 (chunk_bytes)"},
      {"/backend/collective", false,
       "backend.deflate is 3, expected 0 where ranks write one file independently: HDF5 compresses only together"},
      {"/workload/threads", 2, "workload.threads is 2, expected 1 with a shared HDF5 file: more ranks"},
      {"/workload", frames_plan()["workload"], "backend.kind is \"hdf5\", which this workload cannot use"},
  };
  for (const auto& wrong : all) {
    auto plan = hdf5_plan();
    plan[Json::json_pointer(wrong.where)] = wrong.value;
    EXPECT_EQ(error_of(plan), wrong.message);
  }
}

TEST(LoadPlan, NamesWhatIsWrongWithFrames) {
  const Wrong all[] = {
      {"/backend", nullptr, "backend is missing"},
      {"/backend", 3, "backend is 3, expected an object"},
      {"/backend/kind", "tape", "backend.kind is \"tape\", expected null, posix, mpiio, hdf5 or store"},
      {"/backend/folder", "", "backend.folder is \"\", expected a path"},
      {"/backend/folder", std::string("a\0b", 3), "backend.folder is \"a\\u0000b\", expected a path"},
      {"/backend/sync", "always", "backend.sync is \"always\", expected none, end or each"},
      {"/backend/odirect", true, "backend.odirect is not a field that is known here"},
      {"/workload/kind", "waves",
       "workload.kind is \"waves\", expected frames, stream, metadata, network or network_server"},
      {"/workload/frames", 0, "workload.frames is 0, expected a whole number from 1 to 1000000000"},
      {"/workload/frames", -1, "workload.frames is -1, expected a whole number of at least 0"},
      {"/workload/frames", 1e3, "workload.frames is 1000.0, expected a whole number of at least 0"},
      {"/workload/frame_bytes", nullptr, "workload.frame_bytes is missing"},
      {"/workload/frame_bytes", 1ULL << 40,
       "workload.frame_bytes is 1099511627776, expected a whole number from 1 to "
       "4294967296"},
      {"/workload/rate_hz", -1, "workload.rate_hz is -1, expected a number from 0 to 10000000"},
      {"/workload/rate_hz", 1e-9,
       "workload.rate_hz is 1e-09, expected a rate at which 1000 frames take at most 30 days"},
      {"/workload/writers", 257, "workload.writers is 257, expected a whole number from 1 to 256"},
      {"/workload/buffer_frames", 0, "workload.buffer_frames is 0, expected a whole number from 1 to 10000000"},
      {"/workload/layout", "heap", "workload.layout is \"heap\", expected file_a_frame or file_a_writer"},
      {"/content", "noise", "content is \"noise\", expected random, zeros, compressible or file"},
      {"/content", "file", "content_file is \"\", expected a path, with content file"},
      {"/content_file", "image.raw", "content_file is \"image.raw\", expected empty, unless content is file"},
      {"/content_ratio", 17, "content_ratio is 17, expected a number from 1 to 10"},
      {"/content_ratio", 0.5, "content_ratio is 0.5, expected a number from 1 to 10"},
      {"/prefix", "../up-",
       "prefix is \"../up-\", expected the beginning of file names, without '/', not with '.' in "
       "front"},
      {"/prefix", ".hidden",
       "prefix is \".hidden\", expected the beginning of file names, without '/', not with '.' in "
       "front"},
      {"/interval_s", 0.001, "no error"},
      {"/interval_s", 0, "interval_s is 0, expected a number from 0.001 to 3600"},
      {"/surprise", 1, "surprise is not a field that is known here"},
  };
  for (const auto& [where, value, message] : all) {
    auto plan = frames_plan();
    plan[Json::json_pointer(where)] = value;
    EXPECT_EQ(error_of(plan), message) << where;
  }
}

TEST(LoadPlan, NamesWhatIsWrongWithImages) {
  const Wrong all[] = {
      {"/workload/layout", "file_a_writer", "workload.rename is true, expected false where layout is file_a_writer"},
      {"/workload/image/template", "", "workload.image.template is \"\", expected a path"},
      {"/workload/image/suffix", "a/b", "workload.image.suffix is \"a/b\", expected 1 to 10 small letters and digits"},
      {"/workload/image/pixels_at", 1048577,
       "workload.image.pixels_at is 1048577, expected a whole number from 0 to 1048576"},
      {"/workload/image/pixels_bytes", 1047777,
       "workload.image.pixels_bytes is 1047777, expected a whole number from 0 to 1047776"},
      {"/workload/image/pixels_bytes", nullptr, "workload.image.pixels_bytes is missing"},
      {"/workload/image/suffix", "cbf.",
       "workload.image.suffix is \"cbf.\", expected 1 to 10 small letters and digits"},
      {"/workload/image/suffix", ".gz", "workload.image.suffix is \".gz\", expected 1 to 10 small letters and digits"},
      {"/workload/image/images", 2, "workload.image.images is 2, expected a whole number from 1 to 1"},
      {"/workload/image/colour", "red", "workload.image.colour is not a field that is known here"},
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
       "workload.thread_bytes is 8388609, expected a multiple of transfer_bytes, 1048576"},
      {"/workload/transfer_bytes", 1000,
       "workload.thread_bytes is 8388608, expected a multiple of transfer_bytes, 1000"},
      {"/workload/segments", 3, "workload.segments is 3, expected a divisor of the 8 transfers of a thread"},
      {"/workload/segments", 0, "workload.segments is 0, expected a whole number from 1 to 18446744073709551615"},
      {"/workload/order", "reverse", "workload.order is \"reverse\", expected sequential or random"},
      {"/workload/read", false, "workload.verify is true, expected false where nothing is read"},
      {"/workload/seconds_max", "long", "workload.seconds_max is \"long\", expected a number from 0 to 2592000"},
      {"/backend", {{"kind", "null"}}, "workload.verify is true, expected false with backend.kind null"},
  };
  for (const auto& [where, value, message] : all) {
    auto plan = stream_plan();
    plan[Json::json_pointer(where)] = value;
    EXPECT_EQ(error_of(plan), message) << where;
  }
  auto plan = stream_plan();
  plan["workload"]["transfer_bytes"] = 1024;
  EXPECT_EQ(error_of(plan), "workload.transfer_bytes is 1024, expected a multiple of 4096 with backend.direct");
}

TEST(LoadPlan, NamesWhatIsWrongWithMetadata) {
  const Wrong all[] = {
      {"/workload/items", nullptr, "workload.items is missing"},
      {"/workload/items", 0, "workload.items is 0, expected a whole number from 1 to 10000000"},
      {"/workload/items", 100'000,
       "workload.items is 100000, expected so few that a run makes at most 1000000000 files and folders, not "
       "7812019530"},
      {"/workload/branch", 100, "workload.branch is 100, expected a tree of at most 1000000 folders at depth 5"},
      {"/workload/shift", 65536, "workload.shift is 65536, expected a whole number from 0 to 65535"},
      {"/workload/files", false, "workload.files is false, expected true where folders is false"},
      {"/workload/file_bytes", 1 << 27, "workload.file_bytes is 134217728, expected a whole number from 0 to 67108864"},
      {"/backend/direct", true, "backend.direct is true, expected false with workload.kind metadata"},
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
  EXPECT_NE(error_of(plan).find("hold 1099511627776 bytes in memory together"), std::string::npos);
  plan = frames_plan();
  plan["workload"]["rate_hz"] = 0.01;
  EXPECT_NE(error_of(plan).find("interval_s is 0.5, expected a time that 100000 s have at most"), std::string::npos);
  plan = frames_plan();
  plan["workload"]["frames"] = 2'000'000;
  plan["workload"]["rate_hz"] = 1000;
  plan["workload"]["record"] = true;
  EXPECT_EQ(error_of(plan), "workload.record is true, expected false for more than 1000000 frames");
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
  EXPECT_NE(error_of(plan).find("8589934588 of them in a file"), std::string::npos) << error_of(plan);
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
  EXPECT_EQ(LoadPlan::from_json("[]").error().message(), "the document is [], expected an object");
  EXPECT_EQ(LoadPlan::from_json(std::string_view("\xff\xfe\0{", 4)).error().code(), Errc::malformed);
}

}  // namespace
}  // namespace penstock::load
