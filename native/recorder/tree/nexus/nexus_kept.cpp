#include "recorder/tree/nexus/nexus_kept.hpp"

#include <spdlog/spdlog.h>

#include <limits>
#include <set>

#include "recorder/tree/expand.hpp"
#include "stream/messages/array_field.hpp"
#include "stream/messages/cbor_json.hpp"

namespace penstock::recorder {
namespace {

using stream::CborKind;
using stream::CborReader;

constexpr std::size_t values_max = 1024;
constexpr std::uint64_t bytes_max = 64 << 20;

class Keeper {
 public:
  Keeper(Tree& tree, std::string base, KeptValues which) : tree_(tree), base_(std::move(base)), which_(which) {
    limits_.frame_bytes_max = bytes_max;
  }

  Result<void> add(const std::string& path, CborReader& reader);

 private:
  Result<void> add_map(const std::string& path, CborReader& reader);
  Result<void> add_list(const std::string& path, CborReader& reader);
  Result<void> add_array(const std::string& path, CborReader& reader);
  Result<void> add_text_of(const std::string& path, CborReader& reader);
  Result<void> put(const std::string& path, store::Value value, std::uint64_t bytes);
  void add_folders(const std::string& path);

  Tree& tree_;
  const std::string base_;
  const KeptValues which_;
  stream::MessageLimits limits_;
  CodecScratch scratch_;
  std::set<std::string> folders_;  ///< that are in the tree
  std::size_t values_ = 0;
  std::uint64_t bytes_ = 0;
};

Result<void> Keeper::put(const std::string& path, store::Value value, std::uint64_t bytes) {
  if (++values_ > values_max) return make_error(Errc::too_large, "more than {} values are not kept", values_max);
  bytes_ += bytes;
  add_folders(path);
  tree_.value(path, std::move(value));
  return {};
}

/// Those that a value lies in, below the one that is there.
void Keeper::add_folders(const std::string& path) {
  for (auto cut = path.find('/', base_.size() + 1); cut != std::string::npos; cut = path.find('/', cut + 1))
    if (auto folder = path.substr(0, cut); folders_.insert(folder).second) tree_.group(folder, "NXcollection");
}

/// A list of numbers as a vector: whole ones where all of them are, and 64 bits hold them.
std::optional<store::Value> vector_in(CborReader reader) {
  std::vector<double> numbers;
  std::vector<std::int64_t> whole;
  auto container = reader.enter_array();
  if (!container.ok()) return std::nullopt;
  bool all_whole = true;
  for (;;) {
    const auto another = reader.more(*container);
    if (!another.ok()) return std::nullopt;
    if (!*another) break;
    if (reader.peek() == CborKind::floating) {
      all_whole = false;
      const auto number = reader.number();
      if (!number.ok()) return std::nullopt;
      numbers.push_back(*number);
      continue;
    }
    const auto integer = reader.integer();
    if (!integer.ok()) return std::nullopt;
    whole.push_back(*integer);
    numbers.push_back(static_cast<double>(*integer));
  }
  if (numbers.empty()) return std::nullopt;
  if (!all_whole) return store::vector_of(numbers);
  const auto bytes = std::as_bytes(std::span(whole));
  return store::ArrayValue{{ElementType::i64, {whole.size()}}, {bytes.begin(), bytes.end()}};
}

std::optional<store::Value> texts_in(CborReader reader) {
  std::vector<std::string> texts;
  auto container = reader.enter_array();
  if (!container.ok()) return std::nullopt;
  std::string scratch;
  for (;;) {
    const auto another = reader.more(*container);
    if (!another.ok()) return std::nullopt;
    if (!*another) break;
    const auto text = reader.text(scratch);
    if (!text.ok()) return std::nullopt;
    texts.emplace_back(*text);
  }
  if (texts.empty()) return std::nullopt;
  return store::Value(std::move(texts));
}

Result<void> Keeper::add_text_of(const std::string& path, CborReader& reader) {
  PEN_ASSIGN(auto text, stream::read_as_json(reader, limits_.text_bytes_max));
  const auto size = text.size();
  return put(path, std::move(text), size);
}

Result<void> Keeper::add_list(const std::string& path, CborReader& reader) {
  if (which_ == KeptValues::arrays) return reader.skip();
  auto value = vector_in(reader);
  if (!value) value = texts_in(reader);
  if (!value) return add_text_of(path, reader);
  PEN_TRY(reader.skip());
  return put(path, std::move(*value), 0);
}

Result<void> Keeper::add_array(const std::string& path, CborReader& reader) {
  PEN_ASSIGN(const auto field, stream::read_array(reader, {limits_, std::nullopt}));
  PEN_ASSIGN(const auto bytes, field.spec.bytes(bytes_max));
  if (bytes > bytes_max - bytes_)
    return make_error(Errc::too_large, "{} bytes; additional fields are limited to {} together", bytes, bytes_max);
  store::ArrayValue array{field.spec, std::vector<std::byte>(bytes)};
  if (field.encoding == Encoding::none && field.form.plain())
    array.data.assign(field.payload.begin(), field.payload.end());
  else if (auto expanded = expand({field.encoding, field.form}, field.spec, field.payload, array.data, scratch_);
           !expanded.ok()) {
    spdlog::warn("{} is left out: {}", path.substr(0, 256), expanded.error().message());
    return {};
  }
  return put(path, std::move(array), bytes);
}

Result<void> Keeper::add_map(const std::string& path, CborReader& reader) {
  const auto folder = tree_.take(path);
  if (which_ == KeptValues::all) add_folders(folder + "/");
  if (++values_ > values_max) return make_error(Errc::too_large, "more than {} values are not kept", values_max);
  PEN_ASSIGN(auto map, reader.enter_map());
  for (;;) {
    PEN_ASSIGN(const bool another, reader.more(map));
    if (!another) return {};
    PEN_ASSIGN(const auto key, stream::read_as_json(reader, limits_.text_bytes_max));
    const bool is_text = key.size() >= 2 && key.front() == '"';
    const auto name = is_text ? key.substr(1, key.size() - 2) : key;
    PEN_TRY(add(folder + "/" + plain_name(name).substr(0, limits_.identifier_bytes_max), reader), "{}",
            name.substr(0, 64));
  }
}

/// An item; a reader that was not given an error stands behind it.
Result<void> Keeper::add(const std::string& path, CborReader& reader) {
  const bool all = which_ == KeptValues::all;
  while (reader.peek() == CborKind::tag) {
    auto ahead = reader;
    PEN_ASSIGN(const auto tag, ahead.tag());
    if (stream::is_array_tag(tag)) return add_array(path, reader);
    PEN_TRY(reader.tag());
  }
  switch (reader.peek()) {
    case CborKind::map: return add_map(path, reader);
    case CborKind::array: return add_list(path, reader);
    case CborKind::bytes: {
      PEN_ASSIGN(const auto bytes, reader.bytes());
      if (bytes.empty() || bytes.size() > bytes_max - bytes_) return {};
      return put(path, store::ArrayValue{{ElementType::u8, {bytes.size()}}, {bytes.begin(), bytes.end()}},
                 bytes.size());
    }
    default: break;
  }
  if (!all) return reader.skip();
  switch (reader.peek()) {
    case CborKind::unsigned_integer: {
      PEN_ASSIGN(const auto number, reader.unsigned_integer());
      if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        return put(path, store::scalar(number), 8);
      return put(path, store::scalar(static_cast<std::int64_t>(number)), 8);
    }
    case CborKind::negative_integer: {
      PEN_ASSIGN(const auto number, reader.integer());
      return put(path, store::scalar(number), 8);
    }
    case CborKind::floating: {
      PEN_ASSIGN(const auto number, reader.number());
      return put(path, store::scalar(number), 8);
    }
    case CborKind::boolean: {
      PEN_ASSIGN(const bool value, reader.boolean());
      return put(path, store::Boolean{value}, 1);
    }
    case CborKind::text: {
      std::string scratch;
      PEN_ASSIGN(const auto text, reader.text(scratch));
      return put(path, std::string(text), text.size());
    }
    default: return reader.skip();
  }
}

}  // namespace

void add_kept(Tree& tree, const std::string& folder, const std::map<std::string, std::vector<std::byte>>& items,
              KeptValues which) {
  Keeper keeper(tree, folder, which);
  for (const auto& [name, item] : items) {
    CborReader reader(item, stream::MessageLimits().nesting_max);
    if (auto kept = keeper.add(folder + "/" + plain_name(name), reader); !kept.ok())
      spdlog::warn("start message: {} is not stored completely: {}", name.substr(0, 64), kept.error().message());
  }
}

}  // namespace penstock::recorder
