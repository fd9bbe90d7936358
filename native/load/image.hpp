/// Frames as files that image readers open: a whole file as a template, in which each frame has pixels of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/fields.hpp"
#include "base/result.hpp"

namespace penstock::load {

class Content;

struct ImagePlan {
  std::string path;  ///< of a file with one frame; what each frame is but for its pixels
  std::string suffix;
  std::uint64_t pixels_at = 0;  ///< the first byte of the pixels
  std::uint64_t pixels_bytes = 0;
  /// Each byte of the pixels is a difference to the one before, as CBF has it: any value but 0x80, which announces a
  /// larger difference.
  bool differences = false;
  /// Two pixels in each byte, as load/packed_pixels.hpp has them; the file ends with the checksum of gzip.
  bool packed = false;
  std::uint64_t bytes_after = 0;  ///< that follow the pixels in the unpacked file

  /// `frame_bytes`: of the template.
  static Result<ImagePlan> read(Fields& fields, std::uint64_t frame_bytes);
  Json to_json() const;
};

/// Safe from several threads once it is there.
class Image {
 public:
  /// Reads the template; an error where it does not have `frame_bytes`.
  static Result<Image> open(const ImagePlan& plan, std::uint64_t frame_bytes);

  /// Makes a block, at least as large as the template, what all frames have in common; zeros follow.
  void lay(const Content& content, MutableBytes block) const;
  /// Gives a block that was laid the pixels of one frame.
  void stamp(const Content& content, MutableBytes block, std::uint64_t frame) const;

 private:
  Image(ImagePlan plan, std::vector<std::byte> file) : plan_(std::move(plan)), file_(std::move(file)) {}
  MutableBytes pixels(MutableBytes block) const { return block.subspan(plan_.pixels_at, plan_.pixels_bytes); }
  /// Makes possible pixels of random ones.
  void admit(MutableBytes random) const;
  void change_checksum(MutableBytes block, std::uint32_t by) const;

  ImagePlan plan_;
  std::vector<std::byte> file_;
};

}  // namespace penstock::load
