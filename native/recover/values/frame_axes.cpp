#include "recover/values/frame_axes.hpp"

#include <algorithm>

#include "recover/completion.hpp"
#include "recover/layout.hpp"
#include "store/frame_axes.hpp"

namespace penstock::recover {
namespace {

using store::FrameAxis;
using Rule = FrameAxis::Rule;

class FrameAxes {
 public:
  FrameAxes(File& file, const RecoveredFile& recovered, store::FinalValues& values)
      : file_(file), recovered_(recovered), values_(values) {}

  void add() {
    const auto axes = store::frame_axes_in(recovered_.description.values);
    const auto with_steps =
        std::count_if(axes.begin(), axes.end(), [](const auto& a) { return a.rule == Rule::steps; });
    const auto steps = store::steps_of(recovered_.frames, static_cast<std::size_t>(with_steps));
    for (const auto& axis : axes) {
      if (axis.rule == Rule::steps) add_steps(axis, steps);
      if (axis.rule == Rule::plot) add_plot(axis);
      if (axis.rule == Rule::repeat) add_repeated(axis);
    }
  }

 private:
  bool is_final(const FrameAxis& axis, std::uint64_t length) const {
    const auto* dataset = recovered_.was_completed ? recovered_.tree.find(axis.path) : nullptr;
    return dataset != nullptr && dataset->info.shape == std::vector<std::uint64_t>{length};
  }

  const store::ValueNode* described(const std::string& path) const {
    const auto& values = recovered_.description.values;
    const auto found = std::find_if(values.begin(), values.end(), [&](const auto& node) { return node.path == path; });
    return found == values.end() ? nullptr : &*found;
  }

  void add_steps(const FrameAxis& axis, std::uint64_t count) {
    if (described(axis.path) == nullptr || is_final(axis, count)) return;
    replace_value(recovered_.description, axis.path, store::steps(axis, count), values_);
  }

  void add_plot(const FrameAxis& axis) {
    const auto group = axis.path.substr(0, std::max<std::size_t>(1, axis.path.rfind('/')));
    const auto& datasets = recovered_.description.datasets;
    if (is_final(axis, recovered_.frames) || !recovered_.has_object(group)) return;
    store::add_plot_axis(axis, recovered_.frames, datasets.front().frame_shape.size(), values_);
  }

  void add_repeated(const FrameAxis& axis) {
    const auto* node = described(axis.path);
    const auto* array = node != nullptr ? std::get_if<store::ArrayValue>(&node->value) : nullptr;
    const auto length = array != nullptr ? store::repeated_length(axis, *array, recovered_.frames_end) : std::nullopt;
    if (!length || is_final(axis, *length)) return;
    auto once = *node;
    if (!load_value(file_, once).ok()) return;  // a corrupt value is reported where it is left out
    const auto& loaded = std::get<store::ArrayValue>(once.value);
    if (loaded.data.size() != loaded.spec.shape.front() * size_of(loaded.spec.type)) return;
    replace_value(recovered_.description, axis.path, store::repeated(loaded, *length), values_);
  }

  File& file_;
  const RecoveredFile& recovered_;
  store::FinalValues& values_;
};

}  // namespace

void add_frame_axes(File& file, const RecoveredFile& recovered, store::FinalValues& values) {
  FrameAxes(file, recovered, values).add();
}

}  // namespace penstock::recover
