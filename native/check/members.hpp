/// A master file and its members: which there should be, and what they hold together.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "check/compare/reference.hpp"
#include "check/findings.hpp"
#include "check/subject.hpp"

namespace penstock::check {

struct MemberFile {
  std::string name;
  std::string path;
  std::uint64_t number = 0;
  std::uint64_t first_frame = 0;  ///< the frame of the series that is row 0
  bool listed = true;             ///< the master names it, or names none
};

/// A finding: of a file that was begun and has no frame yet.
inline constexpr std::string_view half_made_member = "a file with frames was only begun";
/// Whether the file at `path` is such a member. Those of a complete master all have frames.
bool was_only_begun(Env& env, const Tree& master, const std::string& path);

/// Paths that members would have which their recorder has not completed: it was killed, or makes them at this moment.
/// They have no frames.
std::vector<std::string> begun_members(const std::string& master, const store::Members& members);

/// Whether the file shows frames that lie in others.
bool is_master(const Tree& tree);
/// Whether it is one of those others.
bool is_member(const Tree& tree);
/// Which one, by its attributes.
std::optional<store::MemberMark> mark_of(const Tree& tree);

/// What a finding says of a member that the master names and that is not there.
constexpr std::string_view member_is_gone = "a file with a part of the frames is not there";

/// A file that has the name of one member, and says that it is another one.
struct Misnamed {
  std::string name;
  std::string own_name;
  bool listed = true;  ///< the master names it, or names none
};

struct FoundMembers {
  std::vector<MemberFile> files;     ///< by rising number
  std::vector<std::string> missing;  ///< names of others that have, or may have, frames
  std::vector<Misnamed> misnamed;    ///< none of the files: their frames belong elsewhere
};

/// Which files of members' names are taken that a completed master does not list.
enum class Unlisted {
  none,
  own,  ///< those that say that they are its members
};

/// The members of the master at `path`. Missing ones, which become findings, are those that it lists; if it lists none,
/// being unfinished, those between others, and those whose frames it calls received. Of one with a file per rank
/// find_absent_ranks() adds the missing ones.
FoundMembers find_members(Env& env, const std::string& path, const Tree& tree, const store::Members& members,
                          Findings& findings, Unlisted unlisted = Unlisted::none);

/// Adds to `found` and to the findings which ranks' files are missing of an unfinished series with a file per rank.
/// Ranks have a file only if they got frames, so files are missing if frames that the master calls received are not
/// among `begun`, which rises: then it is one of those of ranks without a file.
void find_absent_ranks(const std::string& path, const Tree& tree, const store::Members& members,
                       const std::vector<std::uint64_t>& begun, FoundMembers& found, Findings& findings);

/// A finding where the member says in its attributes that it is another one; whether it does.
bool report_if_misnamed(const Tree& member, const MemberFile& file, Findings& findings);

/// A finding where the member is of another series than the master.
void compare_series(const Tree& master, const Tree& member, const std::string& name, Findings& findings);

/// `reference` as a member sees it, whose first frame is frame `first` of the series.
std::unique_ptr<Reference> shifted(std::unique_ptr<Reference> reference, std::uint64_t first);

/// The chunks of all members together, by the datasets of the master.
class MemberFrames {
 public:
  /// `paths` of the datasets, as the master's description has them.
  explicit MemberFrames(std::vector<std::string> paths);

  void add(const std::vector<std::unique_ptr<Subject>>& subjects, std::uint64_t first_frame);
  /// For accounting alone: datasets of `master` with the members' chunks in them. They live as long as this does.
  std::vector<const Subject*> channels(const Tree& master);

 private:
  std::vector<std::string> paths_;
  std::vector<std::vector<std::uint64_t>> frames_;
  std::vector<std::unique_ptr<TreeDataset>> trees_;
  std::vector<std::unique_ptr<Subject>> subjects_;
};

}  // namespace penstock::check
