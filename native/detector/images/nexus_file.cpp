#include "detector/images/nexus_file.hpp"

#include "base/time/clock.hpp"
#include "store/store.hpp"

namespace penstock::detector {
namespace {

using store::Attribute;

Attribute nx_class(const char* name) { return {"NX_class", std::string(name)}; }

store::FileLayout layout_of(const Series& series, const Frame& frame, const CodecSpec& codec) {
  store::FileLayout layout;
  layout.groups = {{"/", {nx_class("NXroot"), {"default", std::string("entry")}}},
                   {"/entry", {nx_class("NXentry"), {"default", std::string("data")}}},
                   {"/entry/data", {nx_class("NXdata"), {"signal", std::string("data")}}},
                   {"/entry/instrument", {nx_class("NXinstrument")}},
                   {"/entry/instrument/detector", {nx_class("NXdetector")}}};
  const std::string detector = "/entry/instrument/detector/";
  const auto metres = [&](const char* name, const std::optional<double>& value) {
    if (value) layout.values.push_back({detector + name, store::scalar(*value), {{"units", std::string("m")}}});
  };
  metres("x_pixel_size", series.pixel_size_x_m);
  metres("y_pixel_size", series.pixel_size_y_m);
  metres("sensor_thickness", series.sensor_thickness_m);
  layout.values.push_back({detector + "description", series.detector_description.value_or("unknown"), {}});
  layout.values.push_back({detector + "frame_number", store::scalar(value(frame.number)), {}});
  layout.values.push_back({"/entry/start_time", series.arm_date, {}});
  store::ChunkedNode data;
  data.path = "/entry/data/data";
  data.type = frame.spec.type;
  data.frame_shape = frame.spec.shape;
  data.frames_max = 1;
  data.filters = filters_of(codec, size_of(frame.spec.type));
  layout.chunked.push_back(std::move(data));
  return layout;
}

}  // namespace

Result<void> write_nexus_file(Env& env, const Series& series, const Frame& frame, const std::string& path) {
  const CodecSpec codec{Encoding::bitshuffle_lz4, 0, 0};
  const auto element_bytes = size_of(frame.spec.type);
  const auto bound = encoded_bound(codec, frame.payload.size(), element_bytes);
  store::StoreOptions options;
  // One chunk and no readers while it is written: the least that the store can do with.
  options.write_threads = 1;
  options.direct = false;
  options.swmr = false;
  options.segment_bytes = align_up(bound + 65536, 1 << 16);
  options.extent_bytes = options.segment_bytes;
  options.buffer_bytes = 2 * options.segment_bytes;
  PEN_ASSIGN(const auto file, store::Store::create(env, path, layout_of(series, frame, codec), options, nullptr));
  {
    const auto writer = file->make_writer();
    PEN_ASSIGN(const auto room, writer->reserve(bound), "{}", path);
    CodecScratch scratch;
    PEN_ASSIGN(const auto bytes, encode(codec, frame.payload, element_bytes, room, scratch), "{}", path);
    store::ChunkHead head;
    head.received_ns = realtime_ns();
    PEN_TRY(writer->commit(head, bytes), "{}", path);
    PEN_TRY(writer->flush(), "{}", path);
  }
  store::FinalValues final_values;
  final_values.frames = 1;
  PEN_TRY(file->finish(final_values), "{}", path);
  return {};
}

}  // namespace penstock::detector
