#include <tiffio.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "detector/images/image_file.hpp"

namespace penstock::detector {
namespace {

/// The file that libtiff believes it writes: bytes in memory.
struct TiffInput {
  std::vector<std::byte>* bytes;
  std::size_t position = 0;
};

TiffInput& of(thandle_t handle) { return *static_cast<TiffInput*>(handle); }

tmsize_t read_memory(thandle_t handle, void* into, tmsize_t size) {
  auto& file = of(handle);
  const auto left = file.bytes->size() - std::min(file.position, file.bytes->size());
  const auto taken = std::min(left, static_cast<std::size_t>(size));
  std::memcpy(into, file.bytes->data() + file.position, taken);
  file.position += taken;
  return static_cast<tmsize_t>(taken);
}

tmsize_t write_memory(thandle_t handle, void* from, tmsize_t size) {
  auto& file = of(handle);
  const auto end = file.position + static_cast<std::size_t>(size);
  if (end > file.bytes->size()) file.bytes->resize(end);
  std::memcpy(file.bytes->data() + file.position, from, static_cast<std::size_t>(size));
  file.position = end;
  return size;
}

toff_t seek_memory(thandle_t handle, toff_t offset, int whence) {
  auto& file = of(handle);
  const std::size_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? file.position : file.bytes->size();
  file.position = base + offset;
  return file.position;
}

int close_memory(thandle_t) { return 0; }
toff_t size_of_memory(thandle_t handle) { return of(handle).bytes->size(); }

std::uint16_t sample_format(ElementType type) {
  switch (type) {
    case ElementType::f32:
    case ElementType::f64: return SAMPLEFORMAT_IEEEFP;
    case ElementType::i8:
    case ElementType::i16:
    case ElementType::i32:
    case ElementType::i64: return SAMPLEFORMAT_INT;
    default: return SAMPLEFORMAT_UINT;
  }
}

}  // namespace

Result<void> encode_tiff(const Series& series, const Frame& frame, std::vector<std::byte>& into) {
  if (frame.spec.shape.size() != 2)
    return make_error(Errc::unsupported, "a TIFF file holds two dimensions, not {}", frame.spec.shape.size());
  const auto rows = frame.spec.shape[0];
  const auto columns = frame.spec.shape[1];
  const auto row_bytes = columns * size_of(frame.spec.type);
  if (rows > UINT32_MAX || columns > UINT32_MAX || rows * row_bytes > UINT32_MAX - 65536)
    return make_error(Errc::too_large, "a frame of {} bytes does not fit a TIFF file's 4 GiB", rows * row_bytes);
  into.clear();
  into.reserve(rows * row_bytes + 4096);
  TiffInput file{&into};
  const std::unique_ptr<TIFF, void (*)(TIFF*)> tiff(
      TIFFClientOpen("frame", "wl", &file, read_memory, write_memory, seek_memory, close_memory, size_of_memory,
                     nullptr, nullptr),
      TIFFClose);
  if (!tiff) return make_error(Errc::internal, "libtiff does not open a file in memory");
  auto* const handle = tiff.get();
  const auto description = series.detector_description.value_or("");
  TIFFSetField(handle, TIFFTAG_IMAGEWIDTH, static_cast<std::uint32_t>(columns));
  TIFFSetField(handle, TIFFTAG_IMAGELENGTH, static_cast<std::uint32_t>(rows));
  TIFFSetField(handle, TIFFTAG_BITSPERSAMPLE, static_cast<int>(8 * size_of(frame.spec.type)));
  TIFFSetField(handle, TIFFTAG_SAMPLEFORMAT, static_cast<int>(sample_format(frame.spec.type)));
  TIFFSetField(handle, TIFFTAG_SAMPLESPERPIXEL, 1);
  TIFFSetField(handle, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
  TIFFSetField(handle, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
  TIFFSetField(handle, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
  TIFFSetField(handle, TIFFTAG_ROWSPERSTRIP, static_cast<std::uint32_t>(rows));
  TIFFSetField(handle, TIFFTAG_SOFTWARE, "Penstock");
  TIFFSetField(handle, TIFFTAG_IMAGEDESCRIPTION, description.c_str());
  const auto written = TIFFWriteRawStrip(handle, 0, const_cast<std::byte*>(frame.payload.data()),
                                         static_cast<tmsize_t>(rows * row_bytes));
  if (written != static_cast<tmsize_t>(rows * row_bytes) || TIFFWriteDirectory(handle) != 1)
    return make_error(Errc::internal, "libtiff wrote {} of {} bytes", written, rows * row_bytes);
  return {};
}

}  // namespace penstock::detector
