/// Where a file that Penstock wrote has what the check and the recovery ask for (docs/reference/format.md).
#pragma once

namespace penstock::check {

inline constexpr const char* format_attribute = "penstock_format";
/// The root group's attribute with the file's id.
inline constexpr const char* file_id_attribute = "penstock_file_id";
inline constexpr const char* user_data_path = "/entry/penstock/user_data";
inline constexpr const char* state_path = "/entry/penstock/frame_state";
/// Attribute of the column of states: how many of the frames that are marked as lost may never have come, because the
/// file was cut off and no state of them was left.
inline constexpr const char* lost_or_never_came = "lost_or_never_came";
/// Where a complete master names its members.
inline constexpr const char* member_names_path = "/entry/penstock/members";
/// A finding: the file is marked as open for writing, and no recorder has it.
inline constexpr const char* unfinished_series = "the series is not finished";
/// A finding: a recovery ended while it rebuilt HDF5's structures.
inline constexpr const char* unfinished_recovery = "the recovery is not finished";
/// A finding: of one that the recorder made.
inline constexpr const char* missing_dataset = "a dataset of the description is missing from the file";
/// A finding: another program opened the finished file for writing, or cut it off.
inline constexpr const char* changed_file = "the file was changed since it was closed";
/// A finding: of a file without segments.
inline constexpr const char* no_checksums = "no checksums in this file";

}  // namespace penstock::check
