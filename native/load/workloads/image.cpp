#include "load/workloads/image.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>

namespace penstock::load {
namespace {

constexpr std::size_t suffix_bytes_max = 10;
constexpr std::uint64_t images_max = 100'000;
constexpr auto escape = std::byte{0x80};

/// "cbf", or "cbf.gz".
bool is_suffix(const std::string& text) {
  const auto is_plain = [](char each) { return (each >= 'a' && each <= 'z') || (each >= '0' && each <= '9'); };
  const auto dot = std::find(text.begin(), text.end(), '.');
  const auto rest = dot == text.end() ? dot : dot + 1;
  return text.size() <= suffix_bytes_max && dot != text.begin() && (dot == text.end() || rest != text.end()) &&
         std::all_of(text.begin(), dot, is_plain) && std::all_of(rest, text.end(), is_plain);
}

}  // namespace

void fields(Archive& archive, ImagePlan& plan) {
  archive.required("template", plan.path, not_empty);
  archive.required("suffix", plan.suffix);
  archive.check(plan.suffix.empty() || is_suffix(plan.suffix), "suffix",
                fmt::format("must be 1 to {} small letters and digits", suffix_bytes_max));
  archive.required("pixels_at", plan.pixels_at);
  archive.required("pixels_bytes", plan.pixels_bytes);
  archive.field("differences", plan.differences);
  archive.field("images", plan.images, between(1, plan.is_whole() ? images_max : 1));
}

Result<Image> Image::open(const ImagePlan& plan, std::uint64_t frame_bytes, std::uint64_t stored_bytes) {
  std::ifstream stream(plan.path, std::ios::binary | std::ios::ate);
  if (!stream) return errno_error(errno, fmt::format("open workload.image.template {}", plan.path));
  const auto size = static_cast<std::uint64_t>(stream.tellg());
  if (size != plan.images * frame_bytes)
    return make_error(Errc::mismatch, "workload.image.template {} has {} bytes, expected {}workload.frame_bytes, {}",
                      plan.path, size, plan.images == 1 ? "" : fmt::format("{} times ", plan.images), frame_bytes);
  PEN_ASSIGN(auto images, Memory::allocate(plan.images * stored_bytes));
  stream.seekg(0);
  for (std::uint64_t number = 0; number < plan.images; ++number) {
    const auto image = images.bytes().subspan(number * stored_bytes, stored_bytes);
    if (!stream.read(reinterpret_cast<char*>(image.data()), static_cast<std::streamsize>(frame_bytes)))
      return make_error(Errc::io, "workload.image.template {} cannot be read", plan.path);
    std::fill(image.begin() + static_cast<std::ptrdiff_t>(frame_bytes), image.end(), std::byte{0});
  }
  return Image(plan, std::move(images), frame_bytes, stored_bytes);
}

void Image::lay(const Content& content, MutableBytes block) const {
  const auto file = whole(0);
  std::copy(file.begin(), file.end(), block.begin());
  std::fill(block.begin() + static_cast<std::ptrdiff_t>(file.size()), block.end(), std::byte{0});
  const auto own = pixels(block);
  content.lay(own);
  admit(own);
}

void Image::stamp(const Content& content, MutableBytes block, std::uint64_t frame) const {
  const auto own = pixels(block);
  content.stamp(own, frame, 0);
  if (!plan_.differences) return;
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= own.size(); at += sector_bytes)
    admit(own.subspan(at, sizeof(std::uint64_t)));
}

void Image::admit(MutableBytes random) const {
  if (plan_.differences) std::replace(random.begin(), random.end(), escape, std::byte{0x7F});
}

}  // namespace penstock::load
