/// Frames as files that image readers open: a whole file as a template, in which each frame has pixels of its own; or
/// several whole files, which are frames as they are, in turn.
#pragma once

#include <cstdint>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "load/workloads/content.hpp"
#include "load/workloads/image_plan.hpp"

namespace penstock::load {

/// Safe from several threads once it is there.
class Image {
 public:
  /// Reads the template; an error where its images do not have `frame_bytes`. With zeros they fill `stored_bytes`.
  static Result<Image> open(const ImagePlan& plan, std::uint64_t frame_bytes, std::uint64_t stored_bytes);

  bool is_whole() const { return plan_.is_whole(); }
  /// The image that a frame is as it is. All who write it share it.
  MutableBytes whole(std::uint64_t frame) const {
    return images_.bytes().subspan(frame % plan_.images * stored_bytes_, stored_bytes_);
  }

  /// Makes a block, at least as large as the template, what all frames have in common; zeros follow.
  void lay(const Content& content, MutableBytes block) const;
  /// Gives a block that was laid the pixels of one frame.
  void stamp(const Content& content, MutableBytes block, std::uint64_t frame) const;

 private:
  Image(ImagePlan plan, Memory images, std::uint64_t frame_bytes, std::uint64_t stored_bytes)
      : plan_(std::move(plan)), images_(std::move(images)), frame_bytes_(frame_bytes), stored_bytes_(stored_bytes) {}
  MutableBytes pixels(MutableBytes block) const { return block.subspan(plan_.pixels_at, plan_.pixels_bytes); }
  /// Makes possible pixels of random ones.
  void admit(MutableBytes random) const;

  ImagePlan plan_;
  Memory images_;
  std::uint64_t frame_bytes_;
  std::uint64_t stored_bytes_;
};

}  // namespace penstock::load
