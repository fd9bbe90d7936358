#include "load/image.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "load/content.hpp"

namespace penstock::load {
namespace {

constexpr std::size_t suffix_bytes_max = 10;
constexpr auto escape = std::byte{0x80};

bool is_suffix(const std::string& text) {
  const auto is_plain = [](char each) { return (each >= 'a' && each <= 'z') || (each >= '0' && each <= '9'); };
  return !text.empty() && text.size() <= suffix_bytes_max && std::all_of(text.begin(), text.end(), is_plain);
}

}  // namespace

Result<ImagePlan> ImagePlan::read(Fields& fields, std::uint64_t frame_bytes) {
  ImagePlan plan;
  PEN_TRY(fields.require("template"));
  PEN_ASSIGN(plan.path, fields.text("template", ""));
  if (plan.path.empty() || plan.path.find('\0') != std::string::npos) return fields.wrong("template", "a path");
  PEN_TRY(fields.require("suffix"));
  PEN_ASSIGN(plan.suffix, fields.text("suffix", ""));
  if (!is_suffix(plan.suffix)) return fields.wrong("suffix", "1 to 10 small letters and digits");
  PEN_TRY(fields.require("pixels_at"));
  PEN_ASSIGN(plan.pixels_at, fields.whole("pixels_at", 0, 0, frame_bytes));
  PEN_TRY(fields.require("pixels_bytes"));
  PEN_ASSIGN(plan.pixels_bytes, fields.whole("pixels_bytes", 0, 0, frame_bytes - plan.pixels_at));
  PEN_ASSIGN(plan.differences, fields.flag("differences", false));
  PEN_TRY(fields.refuse_others());
  return plan;
}

Json ImagePlan::to_json() const {
  return {{"template", path},
          {"suffix", suffix},
          {"pixels_at", pixels_at},
          {"pixels_bytes", pixels_bytes},
          {"differences", differences}};
}

Result<Image> Image::open(const ImagePlan& plan, std::uint64_t frame_bytes) {
  std::ifstream stream(plan.path, std::ios::binary | std::ios::ate);
  if (!stream) return errno_error(errno, fmt::format("open workload.image.template {}", plan.path));
  const auto size = static_cast<std::uint64_t>(stream.tellg());
  if (size != frame_bytes)
    return make_error(Errc::mismatch, "workload.image.template {} has {} bytes, expected workload.frame_bytes, {}",
                      plan.path, size, frame_bytes);
  std::vector<std::byte> file(size);
  stream.seekg(0);
  if (!stream.read(reinterpret_cast<char*>(file.data()), static_cast<std::streamsize>(size)))
    return make_error(Errc::io, "workload.image.template {} cannot be read", plan.path);
  return Image(plan, std::move(file));
}

void Image::lay(const Content& content, MutableBytes block) const {
  std::copy(file_.begin(), file_.end(), block.begin());
  std::fill(block.begin() + static_cast<std::ptrdiff_t>(file_.size()), block.end(), std::byte{0});
  const auto own = pixels(block);
  content.lay(own);
  if (plan_.differences) std::replace(own.begin(), own.end(), escape, std::byte{0x7F});
}

void Image::stamp(const Content& content, MutableBytes block, std::uint64_t frame) const {
  const auto own = pixels(block);
  content.stamp(own, frame, 0);
  if (!plan_.differences) return;
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= own.size(); at += sector_bytes) {
    const auto stamped = own.subspan(at, sizeof(std::uint64_t));
    std::replace(stamped.begin(), stamped.end(), escape, std::byte{0x7F});
  }
}

}  // namespace penstock::load
