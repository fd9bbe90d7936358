#include "recorder/series/opening/same_series.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "stream/element.hpp"

namespace penstock::recorder {
namespace {

Result<void> check_same(const Series& begun, std::string_view field, const std::string& before,
                        const std::string& now) {
  if (before == now) return {};
  return make_error(Errc::out_of_order, "{} is {}; series \"{}\" started with {}", field, now, begun.unique_id, before);
}

Result<void> check_same_frame(const Series& begun, const Series& again) {
  const auto shape = [](const Series& series) { return fmt::format("[{}]", fmt::join(series.frame.shape, ", ")); };
  const auto channels = [](const Series& series) { return fmt::format("[{}]", fmt::join(series.channels, ", ")); };
  const auto grid = [](const Series& series) {
    const auto place = series.element.value_or(ElementPlace{});
    return fmt::format("[{}, {}]", place.rows, place.columns);
  };
  const auto gap = [](const Series& series) { return stream::gap_text(series.element.value_or(ElementPlace{})); };
  PEN_TRY(check_same(begun, "the images' shape", shape(begun), shape(again)));
  PEN_TRY(check_same(begun, "image_dtype", std::string(name(begun.frame.type)), std::string(name(again.frame.type))));
  PEN_TRY(check_same(begun, "channels", channels(begun), channels(again)));
  PEN_TRY(check_same(begun, "the grid of elements", grid(begun), grid(again)));
  return check_same(begun, "the gap between elements", gap(begun), gap(again));
}

}  // namespace

series::Announced announced(const Series& start) {
  const auto place = start.element.value_or(ElementPlace{});
  std::string form =
      fmt::format("{} {} {} {}", fmt::join(start.frame.shape, ","), name(start.frame.type), place.rows, place.columns);
  for (const auto& channel : start.channels) form += fmt::format(" {}:{}", channel.size(), channel);
  form += stream::gap_text(place);
  return {.id = start.id,
          .frames = start.frames,
          .elements = place.count(),
          .form = std::hash<std::string>()(form),
          .arm_date = start.arm_date};
}

std::string endpoint_of(const Series& start) { return start.endpoint.empty() ? "TCP" : start.endpoint; }

namespace {

/// Of a start that came over ZeroMQ, where one of the two has elements.
Result<void> check_elements_fit(const Series& begun, const Series& again) {
  const auto count = [](const Series& series) { return series.element ? series.element->count() : 1; };
  if (again.endpoint.empty() || std::max(count(begun), count(again)) == 1) return {};
  if (auto fits = check_same_frame(begun, again); !fits.ok())
    return make_error(Errc::mismatch, "{}", fits.error().message());
  return {};
}

}  // namespace

Result<void> check_same_series(const Series& begun, const Series& again) {
  PEN_TRY(check_elements_fit(begun, again));
  PEN_TRY(check_same(begun, "series_id", fmt::format("{}", begun.id), fmt::format("{}", again.id)));
  PEN_TRY(check_same_frame(begun, again));
  return check_same(begun, "number_of_images", fmt::format("{}", begun.frames), fmt::format("{}", again.frames));
}

}  // namespace penstock::recorder
