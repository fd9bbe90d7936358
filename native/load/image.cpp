#include "load/image.hpp"

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
  PEN_ASSIGN(plan.images, fields.whole("images", 1, 1, plan.is_whole() ? images_max : 1));
  PEN_TRY(fields.refuse_others());
  return plan;
}

Json ImagePlan::to_json() const {
  return {{"template", path},
          {"images", images},
          {"suffix", suffix},
          {"pixels_at", pixels_at},
          {"pixels_bytes", pixels_bytes},
          {"differences", differences}};
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
