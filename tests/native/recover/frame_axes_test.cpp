/// What a file lists of the values along its frames, right and hostile.

#include "store/frame_axes.hpp"

#include <gtest/gtest.h>

#include "base/bytes.hpp"

namespace penstock::recover {
namespace {

using store::FrameAxis;
using Rule = FrameAxis::Rule;

std::vector<store::ValueNode> listed(std::vector<std::string> lines) {
  return {{store::frame_axes_path, std::move(lines), {}}};
}

TEST(FrameAxes, LinesAreReadAsTheyWereWritten) {
  for (const auto& axis : {FrameAxis{.path = "/a b/omega", .first = 10.1, .step = -1.0 / 3},
                           FrameAxis{.rule = Rule::plot, .path = "/x", .first = -0.0, .step = 1e-300, .units = "s"},
                           FrameAxis{.rule = Rule::plot, .path = "/x", .units = ""},
                           FrameAxis{.rule = Rule::repeat, .path = "/scan/y", .frames_per_value = 7}}) {
    const auto again = store::frame_axis_from(store::line_of(axis));
    ASSERT_TRUE(again) << store::line_of(axis);
    EXPECT_EQ(again->path, axis.path);
    EXPECT_EQ(again->rule, axis.rule);
    EXPECT_EQ(again->first, axis.first);
    EXPECT_EQ(again->step, axis.step);
    EXPECT_EQ(again->units, axis.units);
    EXPECT_EQ(again->frames_per_value, axis.frames_per_value);
  }
}

TEST(FrameAxes, HostileLinesAreLeftOut) {
  for (const auto* line : {"", "\t", "/x", "/x\tsteps", "/x\tsteps\t1", "/x\tsteps\t1\t", "/x\tsteps\t1\t2\t3",
                           "/x\tsteps\tone\t2", "/x\tplot\t1\t2", "/x\trepeat\t0", "/x\trepeat\t-1", "/x\trepeat\t1\t1",
                           "/x\tother\t1\t2", "x\tsteps\t1\t2", "/\tsteps\t1\t2", "/x/\tsteps\t1\t2"})
    EXPECT_TRUE(store::frame_axes_in(listed({line})).empty()) << line;
  const auto axes = store::frame_axes_in(
      listed({"/a\tplot\t1\t2\ts", "/b\tplot\t1\t2\ts", "/c\trepeat\t2", "/d\trepeat\t2", "/e\tsteps\t1\t2"}));
  ASSERT_EQ(axes.size(), 3u) << "a file has one plot and one scan";
  EXPECT_EQ(axes[0].path, "/a");
  EXPECT_EQ(axes[1].path, "/c");
}

TEST(FrameAxes, NumberOfValuesIsBounded) {
  const auto huge = ~std::uint64_t{0};
  EXPECT_EQ(store::steps_of(huge, 1), store::axis_values_max);
  EXPECT_EQ(store::steps_of(huge, 4), store::axis_values_max / 4);
  EXPECT_EQ(store::steps_of(huge, huge), 1u);
  EXPECT_EQ(store::steps_of(0, 0), 1u);
  store::FinalValues values;
  store::add_plot_axis({.rule = Rule::plot, .path = "/x"}, store::axis_values_max + 1, 2, values);
  store::add_plot_axis({.rule = Rule::plot, .path = "/x"}, 0, 2, values);
  EXPECT_TRUE(values.values.empty());
  EXPECT_TRUE(values.attributes.empty());
  const store::ArrayValue twice{{ElementType::u8, {2}}, {std::byte{1}, std::byte{2}}};
  const FrameAxis scan{.rule = Rule::repeat, .path = "/y", .frames_per_value = 3};
  EXPECT_FALSE(store::repeated_length(scan, twice, huge));
  EXPECT_FALSE(store::repeated_length(scan, twice, 6));
  EXPECT_EQ(store::repeated_length(scan, twice, 7), 3u);
  EXPECT_EQ(store::repeated(twice, 3).data, (std::vector{std::byte{1}, std::byte{2}, std::byte{1}}));
  EXPECT_FALSE(store::repeated_length(scan, {{ElementType::u8, {}}, {std::byte{1}}}, 7));
  EXPECT_FALSE(store::repeated_length(scan, {{ElementType::u8, {0}}, {}}, 7));
}

}  // namespace
}  // namespace penstock::recover
