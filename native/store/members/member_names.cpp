#include "store/members/member_names.hpp"

#include <charconv>
#include <filesystem>

#include "store/recovery/find_description.hpp"

namespace penstock::store {
namespace {

/// A description lies behind the structures that HDF5 begins with, at a multiple of the alignment.
constexpr std::uint64_t looked_through_bytes_max = 256 << 20;

/// The master's path, taken apart.
struct Place {
  std::string folder;
  std::string name;

  explicit Place(const std::string& master) {
    const std::filesystem::path path(master);
    folder = path.has_parent_path() ? path.parent_path().string() : ".";
    name = path.filename().string();
  }
};

/// An error tells why the file is no member.
Result<format::Description> description_in(File& file) {
  PEN_ASSIGN(auto found,
             find_description(file, {.begin = 0, .end = looked_through_bytes_max, .file_id = {}, .cancelled = {}}));
  if (!found.description.member) return make_error(Errc::not_found, "it is a separate recording");
  return std::move(found.description);
}

/// The file of member `number`, locked so that nobody begins with it.
Result<std::shared_ptr<File>> open_member(Env& env, const std::string& path, const Place& master,
                                          std::uint64_t number) {
  PEN_ASSIGN(auto file, env.open(path, {.mode = OpenOptions::Mode::update}));
  PEN_TRY(file->lock(true));
  const auto own = description_in(*file);
  if (own.ok() && own->member == MemberMark{master.name, number}) return file;
  const auto why =
      own.ok() ? fmt::format("it is file {} of {}", own->member->number, own->member->master) : own.error().message();
  return make_error(Errc::already_exists,
                    "{} exists already and is not verifiably a part of {}: {}; remove it, or choose "
                    "another name",
                    path, master.name, why);
}

template <typename Do>
Result<void> for_each_name(Env& env, const Place& master, const Members& members, Do what) {
  PEN_ASSIGN(const auto names, env.list(master.folder));
  for (const auto& name : names)
    if (const auto number = member_number(name, members)) PEN_TRY(what(master.folder + "/" + name, *number));
  return {};
}

}  // namespace

std::optional<std::uint64_t> member_number(const std::string& name, const Members& members) {
  if (name.size() <= members.stem.size() + members.suffix.size() || !name.starts_with(members.stem) ||
      !name.ends_with(members.suffix))
    return std::nullopt;
  const auto* begin = name.data() + members.stem.size();
  const auto* end = name.data() + name.size() - members.suffix.size();
  std::uint64_t number = 0;
  const auto [read_to, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || read_to != end || std::to_string(number).size() != static_cast<std::size_t>(end - begin))
    return std::nullopt;
  return number;
}

Result<format::Description> description_of_member(Env& env, const std::string& path) {
  PEN_ASSIGN(const auto file, env.open(path, {}));
  return description_in(*file);
}

Result<std::vector<std::string>> member_paths(Env& env, const std::string& master, const Members& members) {
  std::vector<std::string> paths;
  const Place place(master);
  PEN_TRY(for_each_name(env, place, members, [&](const std::string& path, std::uint64_t number) {
    const auto own = description_of_member(env, path);
    if (own.ok() && own->member == MemberMark{place.name, number}) paths.push_back(path);
    return Result<void>{};
  }));
  return paths;
}

Result<void> check_member_names(Env& env, const std::string& master, const Members& members) {
  const Place place(master);
  return for_each_name(env, place, members, [&](const std::string& path, std::uint64_t number) -> Result<void> {
    if (!members.overwrite)
      return make_error(Errc::already_exists,
                        "{} exists already, and a part of {} may need that name; choose another name or allow "
                        "overwriting",
                        path, master);
    PEN_ASSIGN(const auto file, open_member(env, path, place, number));
    return {};
  });
}

Result<void> remove_members(Env& env, const std::string& master, const Members& members) {
  const Place place(master);
  return for_each_name(env, place, members, [&](const std::string& path, std::uint64_t number) -> Result<void> {
    PEN_ASSIGN(const auto file, open_member(env, path, place, number));
    return env.remove(path);
  });
}

}  // namespace penstock::store
