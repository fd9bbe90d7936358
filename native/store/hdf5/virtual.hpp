/// Virtual datasets: those of a master file, whose frames lie in its members, and those with gaps or with some of the
/// frames, which lie in another dataset of the file. Only for files in this folder.
///
/// Members are named relative to the master, so that a folder can be moved. Nothing here opens a member.
#pragma once

#include <span>

#include "store/frame_runs.hpp"
#include "store/hdf5/handles.hpp"
#include "store/layout.hpp"
#include "store/members/member_map.hpp"

namespace penstock::store::hdf5 {

/// At the start of a series. Where each member follows the one before, the dataset grows as members appear; otherwise
/// the location of a frame is still unknown, and it is empty.
Result<void> make_virtual(hid_t file, const ChunkedNode& node, const Members& members);

/// In place of what make_virtual() made: `frames` frames, of which `runs` are in members and the others read as the
/// fill value. `links` are the dataset's other names.
Result<void> complete_virtual(hid_t file, const ChunkedNode& node, const Members& members,
                              std::span<const MemberRun> runs, std::uint64_t frames, std::span<const LinkNode> links);

/// A dataset that shows frames of the node, one run behind the other, in place of what is at its path. Without a run it
/// is empty. `links` are all of the file.
Result<void> make_subset(hid_t file, const ChunkedNode& node, const Subset& subset, std::span<const FrameRun> runs,
                         std::span<const LinkNode> links);

/// The node's frames with their gaps, of which it has some, under Assembled::path. It grows as they do.
Result<void> make_assembled(hid_t file, const ChunkedNode& node);

}  // namespace penstock::store::hdf5
