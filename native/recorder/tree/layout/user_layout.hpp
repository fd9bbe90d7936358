/// A layout of the user's: where in the file what a series brings is to stand.
///
/// The recorder knows one tree of its own (nexus.hpp). A user's layout is a list of objects, each with a path and with
/// what it is made of; applying it moves that tree's datasets and columns to these paths, and makes what it does not
/// have. /entry/penstock stays where it is, because check, recover and resume go by it. What a layout has no place for
/// is kept below it, so that nothing of a series is lost
/// (docs/explanation/decisions/0030-layouts-of-what-is-in-a-file.md).
///
/// Constant once made; all calls are safe from several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "frame/frame.hpp"
#include "frame/series.hpp"
#include "recorder/tree/metadata.hpp"
#include "store/layout.hpp"
#include "store/store.hpp"

namespace penstock::recorder {

/// Of Penstock's own tree: the entry, and the group that no layout moves.
inline constexpr const char* own_entry = "/entry";
inline constexpr const char* kept_group = "/entry/penstock";
/// Where what has no place in a layout goes: of the start message, and of frames.
inline constexpr const char* rest_path = "/entry/penstock/series";
inline constexpr const char* rest_metadata_path = "/entry/penstock/metadata";
/// What a file says of its layout: `name`, and with `end_time` the path of the time that marks a complete file.
inline constexpr const char* layout_path = "/entry/penstock/layout";
/// Where all frames are if a value of each chooses its dataset.
inline constexpr const char* all_frames_group = "/entry/penstock/frames";

/// Which of a frame's values a dataset or an attribute has.
enum class When { every, first, last };

/// A value that frames bring.
struct LayoutValue {
  std::string name;
  When when = When::every;
  /// A column is there with this type even if the first frame does not bring the value; else it follows the first
  /// value.
  std::optional<MetaColumn> declared;
};

struct LayoutAttribute {
  std::string name;
  std::optional<store::Value> constant;
  std::optional<LayoutValue> metadata;  ///< first or last
  std::string series;                   ///< the dataset of Penstock's own tree that has the value
};

struct LayoutNode {
  enum class Kind { group, frames, series, metadata, constant, link };
  Kind kind = Kind::group;
  std::string path;
  std::vector<LayoutAttribute> attributes;
  std::string from;           ///< of a group or of series: an object of Penstock's own tree; may be empty of groups
  std::uint64_t channel = 0;  ///< of frames, counted …
  std::string channel_name;   ///< … or named, where not empty
  bool is_default = false;    ///< of frames: it has those that name none of the layout's destinations
  LayoutValue metadata;       ///< of metadata
  std::optional<store::Value> value;  ///< of a constant
  std::string target;                 ///< of a link: an object, never another link
};

/// The first and the last frame's values, of the names that a layout puts into single values.
struct EdgeValues {
  struct Frame {
    std::uint64_t number = 0;
    Metadata metadata;
  };
  std::optional<Frame> first;
  std::optional<Frame> last;

  /// Takes `other`'s where they are further out.
  void merge(const EdgeValues& other);
};

class UserLayout {
 public:
  /// Checks the plan's `layout`: at most 65536 objects, each path once, absolute and outside of /entry/penstock. An
  /// error names the object and the value.
  static Result<UserLayout> from_json(const nlohmann::json& object);

  const std::string& name() const { return name_; }

  /// Adds what the layout requires and a source does not send by itself: the frame's number and the time of its
  /// arrival under areaDetector's names.
  void complete(Frame& frame) const;
  /// `columns`, behind them those that the layout declares, in the layout's types.
  std::vector<MetaColumn> complete(std::vector<MetaColumn> columns) const;
  /// Enters a frame's values, where the layout has single ones.
  void note(const Frame& frame, EdgeValues& edges) const;

  /// `own` is nexus_layout(): the same with its objects where this layout wants them. Positions of datasets and columns
  /// stay. `columns` are those of `own` that frames' values go to. `edges` are the values that are known.
  store::FileLayout apply(store::FileLayout own, const Series& series, const std::vector<MetaColumn>& columns,
                          const EdgeValues& edges) const;
  /// What is known at the end, by the paths of Penstock's own tree, moved likewise. `made` is what apply() made.
  store::FinalValues apply(store::FinalValues own, const store::FileLayout& made, const Series& series,
                           const std::vector<MetaColumn>& columns, const EdgeValues& edges) const;
  /// Where apply() puts a value of Penstock's own tree.
  std::string place_of(const std::string& path, const Series& series, const std::vector<MetaColumn>& columns) const;
  /// Whether a value of each frame chooses its dataset. apply() does not do it for a scan.
  bool has_destinations() const { return destinations_.size() > 1; }
  /// Where the axis of the frames' plot goes: into the group that takes over /entry/data, unless that has axes of its
  /// own, or a dataset of that name.
  std::optional<std::string> plot_axis_path(const Series& series, const std::vector<MetaColumn>& columns,
                                            const std::string& axis) const;
  /// The frames' value that a column at `path` has; nothing where it has none. (The inverse of where apply() puts it.)
  std::optional<std::string> metadata_at(const std::string& path) const;
  /// Where the column of a frames' value is, or would be …
  std::string column_path(const std::string& name) const { return metadata_path(name); }
  /// … and each of these.
  std::vector<std::string> column_paths(const std::vector<MetaColumn>& columns) const;

 private:
  Result<void> find_destinations();
  std::string metadata_path(const std::string& name) const;
  std::vector<store::LinkNode> links(const std::function<std::string(const std::string&)>& place) const;

  std::string name_;
  std::string metadata_group_;  ///< for values that no dataset names; empty: rest_metadata_path
  bool ndattributes_ = false;   ///< columns say of themselves what areaDetector's do
  std::string destination_;     ///< name of the value that chooses the dataset of a frame
  std::vector<LayoutNode> nodes_;
  std::vector<std::string> destinations_;       ///< paths of these datasets, the default one first; or none
  std::set<std::string> paths_;                 ///< of all nodes, with those above them
  std::map<std::string, std::string> columns_;  ///< values' names, with the path of the first dataset that has all
  std::set<std::string> edges_;                 ///< values' names of which the first or the last one is wanted
};

nlohmann::json to_json(const EdgeValues& edges);
/// Of another rank; what is not understood is left out.
EdgeValues edges_from(const nlohmann::json& object);

}  // namespace penstock::recorder
