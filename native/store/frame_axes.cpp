#include "store/frame_axes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace penstock::store {
namespace {

using Rule = FrameAxis::Rule;
constexpr std::array rule_names{"steps", "plot", "repeat"};

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (std::size_t from = 0;;) {
    const auto tab = line.find('\t', from);
    fields.push_back(line.substr(from, tab - from));
    if (tab == std::string_view::npos) return fields;
    from = tab + 1;
  }
}

template <typename Number>
bool read(std::string_view text, Number& number) {
  const auto* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return read.ec == std::errc() && read.ptr == end;
}

bool is_dataset(std::string_view path) { return path.size() > 1 && path.front() == '/' && path.back() != '/'; }

}  // namespace

std::string line_of(const FrameAxis& axis) {
  const auto head = fmt::format("{}\t{}\t", axis.path, rule_names[static_cast<std::size_t>(axis.rule)]);
  if (axis.rule == Rule::repeat) return head + std::to_string(axis.frames_per_value);
  const auto steps = fmt::format("{}{}\t{}", head, axis.first, axis.step);
  return axis.rule == Rule::plot ? steps + '\t' + axis.units : steps;
}

std::optional<FrameAxis> frame_axis_from(std::string_view line) {
  const auto fields = fields_of(line);
  if (fields.size() < 3 || !is_dataset(fields[0])) return std::nullopt;
  FrameAxis axis;
  axis.path = fields[0];
  const auto rule = std::find(rule_names.begin(), rule_names.end(), fields[1]);
  if (rule == rule_names.end()) return std::nullopt;
  axis.rule = static_cast<Rule>(rule - rule_names.begin());
  if (axis.rule == Rule::repeat) {
    const bool right = fields.size() == 3 && read(fields[2], axis.frames_per_value) && axis.frames_per_value > 0;
    return right ? std::optional(std::move(axis)) : std::nullopt;
  }
  if (fields.size() != (axis.rule == Rule::plot ? 5u : 4u)) return std::nullopt;
  if (axis.rule == Rule::plot) axis.units = fields[4];
  return read(fields[2], axis.first) && read(fields[3], axis.step) ? std::optional(std::move(axis)) : std::nullopt;
}

std::vector<FrameAxis> frame_axes_in(const std::vector<ValueNode>& values) {
  std::vector<FrameAxis> axes;
  const auto has = [&](Rule rule) {
    return std::any_of(axes.begin(), axes.end(), [&](const auto& axis) { return axis.rule == rule; });
  };
  for (const auto& node : values) {
    const auto* lines = node.path == frame_axes_path ? std::get_if<std::vector<std::string>>(&node.value) : nullptr;
    if (lines == nullptr) continue;
    for (const auto& line : *lines)
      if (auto axis = frame_axis_from(line); axis && (axis->rule == Rule::steps || !has(axis->rule)))
        axes.push_back(std::move(*axis));
  }
  return axes;
}

std::uint64_t steps_of(std::uint64_t frames, std::size_t axes) {
  return std::clamp<std::uint64_t>(frames, 1,
                                   std::max<std::uint64_t>(1, axis_values_max / std::max<std::size_t>(1, axes)));
}

Value steps(const FrameAxis& axis, std::uint64_t count) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = axis.first + static_cast<double>(i) * axis.step;
  return vector_of(values);
}

std::optional<std::uint64_t> repeated_length(const FrameAxis& axis, const ArrayValue& values, std::uint64_t frames) {
  if (values.spec.shape.size() != 1 || values.spec.shape.front() == 0) return std::nullopt;
  const auto length = frames / axis.frames_per_value + (frames % axis.frames_per_value != 0 ? 1 : 0);
  return length > values.spec.shape.front() && length <= axis_values_max ? std::optional(length) : std::nullopt;
}

ArrayValue repeated(const ArrayValue& values, std::uint64_t length) {
  ArrayValue longer{{values.spec.type, {length}}, {}};
  const auto bytes = length * size_of(values.spec.type);
  longer.data.reserve(bytes);
  while (longer.data.size() < bytes && !values.data.empty()) {
    const auto more = std::min<std::uint64_t>(values.data.size(), bytes - longer.data.size());
    longer.data.insert(longer.data.end(), values.data.begin(), values.data.begin() + static_cast<std::ptrdiff_t>(more));
  }
  return longer;
}

void add_plot_axis(const FrameAxis& axis, std::uint64_t frames, std::size_t frame_dimensions, FinalValues& values) {
  if (frames == 0 || frames > axis_values_max) return;
  const auto last = axis.path.rfind('/');
  const auto group = last == 0 ? std::string("/") : axis.path.substr(0, last);
  const auto name = axis.path.substr(last + 1);
  values.values.push_back({axis.path, steps(axis, frames), {{"units", axis.units}}});
  std::vector<std::string> axes(1 + frame_dimensions, ".");
  axes.front() = name;
  values.attributes.emplace_back(group, Attribute{"axes", axes});
  values.attributes.emplace_back(group, Attribute{name + "_indices", scalar(std::int64_t{0})});
}

}  // namespace penstock::store
