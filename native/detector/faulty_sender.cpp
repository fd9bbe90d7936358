#include "detector/faulty_sender.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/crc32c.hpp"
#include "base/random.hpp"

namespace penstock::detector {
namespace {

constexpr std::uint64_t order_purpose = 0x0DE4;
constexpr std::uint64_t bit_purpose = 0xB17;
/// Of what is encoded: every encoding begins with sizes or a magic number.
constexpr std::size_t head_bytes = 12;

/// Pixels of its own, which may be changed.
MutableBytes own_pixels(Frame& frame) {
  auto copy = std::make_shared<std::vector<std::byte>>(frame.payload.begin(), frame.payload.end());
  const MutableBytes pixels(*copy);
  frame.payload = pixels;
  frame.headroom = {};
  frame.owner = std::move(copy);
  return pixels;
}

void corrupt(Frame& frame) {
  if (frame.encoding == Encoding::none) {
    frame.payload = frame.payload.first(frame.payload.size() - size_of(frame.spec.type));
    return;
  }
  const auto pixels = own_pixels(frame);
  for (auto& byte : pixels.first(std::min(head_bytes, pixels.size()))) byte = ~byte;
}

void flip(Frame& frame, std::uint64_t key, bool sums) {
  if (sums) frame.payload_crc = crc32c(frame.payload);
  const auto pixels = own_pixels(frame);
  RandomStream random(key);
  const auto bit = random.next_below(8);
  const auto at = random.next_below(std::min<std::uint64_t>(pixels.size(), std::uint64_t{1} << 32));
  pixels[at] ^= static_cast<std::byte>(1u << bit);
}

void shorten(Frame& frame) {
  auto& rows = frame.spec.shape.front();
  if (frame.encoding == Encoding::none) frame.payload = frame.payload.first(frame.payload.size() / rows * (rows - 1));
  --rows;
}

}  // namespace

Result<std::unique_ptr<FaultySender>> FaultySender::open(std::unique_ptr<stream::FrameSender> inner, FaultPlan plan,
                                                         const FaultySetting& setting, PaceClock& clock) {
  for (const auto& rule : plan.rules)
    if (rule.element && *rule.element >= setting.elements)
      return make_error(Errc::invalid_argument, "faults: element {} of {}; they are counted from 0", *rule.element,
                        setting.elements);
  std::unique_ptr<FaultySender> sender(new FaultySender(std::move(inner), std::move(plan), setting, clock));
  const auto& path = sender->plan_.log;
  if (path.empty()) return sender;
  sender->log_ = std::fopen(path.c_str(), "wxe");
  if (sender->log_ == nullptr && errno == EEXIST)
    return make_error(Errc::already_exists, "{} exists already; choose another name", path);
  if (sender->log_ == nullptr) return errno_error(errno, fmt::format("the log of faults {}", path));
  // Whoever kills the program finds whole lines.
  (void)std::setvbuf(sender->log_, nullptr, _IOLBF, BUFSIZ);
  return sender;
}

FaultySender::~FaultySender() {
  (void)conclude(make_error(Errc::cancelled, "the series did not end"));
  if (log_ != nullptr) std::fclose(log_);
}

Result<void> FaultySender::begin(const Series& series) {
  announced_ = series.frames;
  if (series.frame.shape.front() / std::max<std::uint32_t>(setting_.elements, 1) < 2)
    for (const auto& rule : plan_.rules)
      if (rule.kind == FaultKind::shape)
        return make_error(Errc::invalid_argument, "faults: shape removes a row, but the frames have only one");
  auto head = plan_.to_json();
  head["series_unique_id"] = series.unique_id;
  head["frames"] = announced_;
  write(head);
  auto begun = inner_->begin(series);
  if (!begun) (void)conclude(begun);
  return begun;
}

/// What is due goes out behind the frame that it waited for.
Result<void> FaultySender::put(const Frame& frame) {
  const auto element = frame.element.value_or(0);
  auto& stream = streams_[element];
  ++stream.put;
  const auto* rule = plan_.rule_for(value(frame.number), element);
  PEN_TRY(take({frame, rule}, stream));
  return send_due(stream, false);
}

void FaultySender::lose(const Unit& unit, Stream& stream) {
  ++stream.lost;
  lost_.insert(value(unit.frame.number));
}

Result<void> FaultySender::take(Unit unit, Stream& stream) {
  const auto kind = unit.rule != nullptr ? std::optional(unit.rule->kind) : std::nullopt;
  if (kind == FaultKind::late) {
    const auto* rule = unit.rule;
    const auto due_ns = rule->by_ns > 0 ? clock_.now_ns() + rule->by_ns : 0;
    stream.held.push_back({std::move(unit), stream.put + rule->by_frames, due_ns});
    return {};
  }
  if (kind == FaultKind::reorder && stream.to_gather == 0) {
    stream.to_gather = unit.rule->by_frames;
    stream.gathering_key =
        key_of({plan_.seed, order_purpose, unit.frame.element.value_or(0), value(unit.frame.number)});
  }
  if (stream.to_gather == 0) return send(unit, stream);
  // Those behind it are in another order too, whatever their numbers say.
  stream.gathered.push_back(std::move(unit));
  return --stream.to_gather == 0 ? send_gathered(stream) : Result<void>();
}

Result<void> FaultySender::send_gathered(Stream& stream) {
  RandomStream random(stream.gathering_key);
  auto units = std::move(stream.gathered);
  stream.gathered.clear();
  stream.to_gather = 0;
  for (auto left = units.size(); left > 1; --left) std::swap(units[left - 1], units[random.next_below(left)]);
  Result<void> sent;
  for (const auto& unit : units)
    if (sent.ok())
      sent = send(unit, stream);
    else
      lose(unit, stream);
  return sent;
}

Result<void> FaultySender::send_due(Stream& stream, bool all) {
  const auto is_due = [&](const Held& held) {
    return all || (held.due_ns != 0 ? held.due_ns <= clock_.now_ns() : held.due <= stream.put);
  };
  for (std::size_t i = 0; i < stream.held.size();) {
    if (!is_due(stream.held[i])) {
      ++i;
      continue;
    }
    const auto unit = std::move(stream.held[i].unit);
    stream.held.erase(stream.held.begin() + static_cast<std::ptrdiff_t>(i));
    PEN_TRY(send(unit, stream));
  }
  return {};
}

Result<void> FaultySender::send(const Unit& unit, Stream& stream) {
  const auto kind = unit.rule != nullptr ? std::optional(unit.rule->kind) : std::nullopt;
  if (kind == FaultKind::drop) {
    note(unit, 0, false);
    lose(unit, stream);
    return {};
  }
  const bool seen = kind != FaultKind::flip || setting_.sums;
  const bool damaged = kind >= FaultKind::corrupt && seen;
  auto sent = damaged ? send_damaged(unit) : send_whole(unit, stream);
  if (damaged || !sent.ok()) lose(unit, stream);
  return sent;
}

Result<void> FaultySender::send_damaged(const Unit& unit) {
  auto frame = unit.frame;
  if (unit.rule->kind == FaultKind::corrupt) corrupt(frame);
  if (unit.rule->kind == FaultKind::shape) shorten(frame);
  if (unit.rule->kind == FaultKind::flip)
    flip(frame, key_of({plan_.seed, bit_purpose, frame.element.value_or(0), value(frame.number)}), true);
  PEN_TRY(unit.rule->kind == FaultKind::cut ? inner_->put_cut(frame) : inner_->put(frame));
  note(unit, 1, false);
  ++damaged_;
  return {};
}

Result<void> FaultySender::send_whole(const Unit& unit, Stream& stream) {
  const auto number = value(unit.frame.number);
  auto& end = stream.ends[number % setting_.receivers];
  const bool late = number + 1 < end;
  auto frame = unit.frame;
  const bool flipped = unit.rule != nullptr && unit.rule->kind == FaultKind::flip;
  const bool twice = unit.rule != nullptr && unit.rule->kind == FaultKind::duplicate;
  if (flipped) flip(frame, key_of({plan_.seed, bit_purpose, frame.element.value_or(0), number}), false);
  PEN_TRY(inner_->put(frame));
  end = std::max(end, number + 1);
  if (late) ++late_;
  if (!twice) {
    if (unit.rule != nullptr || late) note(unit, 1, late);
    return {};
  }
  frame.headroom = {};                         // the first copy is still being read from there
  const bool again = inner_->put(frame).ok();  // if not, the next call says why
  if (again) ++duplicate_;
  note(unit, again ? 2 : 1, late);
  return {};
}

/// A frame without a rule of its own has changed places with others.
void FaultySender::note(const Unit& unit, int sent, bool late) {
  const auto kind = unit.rule != nullptr ? unit.rule->kind : FaultKind::reorder;
  ++done_[static_cast<std::size_t>(kind)];
  write({{"frame", value(unit.frame.number)},
         {"element", unit.frame.element.value_or(0)},
         {"fault", name(kind)},
         {"sent", sent},
         {"late", late}});
}

void FaultySender::write(const Json& line) {
  if (log_ == nullptr) return;
  const auto text = line.dump() + "\n";
  if (std::fwrite(text.data(), 1, text.size(), log_) != text.size()) log_failed_ = true;
}

Json FaultySender::expected() {
  Json by_element = Json::array();
  std::uint64_t put = announced_;
  for (std::uint32_t element = 0; element < setting_.elements; ++element) {
    auto& stream = streams_[element];
    for (const auto& unit : stream.gathered) lose(unit, stream);
    for (const auto& held : stream.held) lose(held.unit, stream);
    by_element.push_back(stream.put - stream.lost);
    put = std::min(put, stream.put);
  }
  // An element may be ahead of the others when the sending breaks off.
  const auto whole = put - static_cast<std::uint64_t>(std::distance(lost_.begin(), lost_.lower_bound(put)));
  return {{"received", whole},       {"missing", announced_ - whole}, {"late", late_},
          {"duplicate", duplicate_}, {"damaged", damaged_},           {"received_by_element", std::move(by_element)}};
}

Result<void> FaultySender::conclude(const Result<void>& sent) {
  if (std::exchange(concluded_, true) || log_ == nullptr) return {};
  write(sent.ok() ? Json{{"expected", expected()}} : Json{{"expected", nullptr}, {"reason", sent.error().message()}});
  if (std::fflush(log_) != 0 || log_failed_) return errno_error(errno, fmt::format("the log of faults {}", plan_.log));
  return {};
}

Result<void> FaultySender::send_rest() {
  for (auto& [element, stream] : streams_) {
    PEN_TRY(send_gathered(stream));
    PEN_TRY(send_due(stream, true));
  }
  return {};
}

Result<void> FaultySender::end() {
  auto ended = send_rest();
  // The receiver learns of the end even so.
  if (auto told = inner_->end(); ended.ok()) ended = std::move(told);
  if (!ended) (void)conclude(ended);
  return ended;
}

/// What was damaged on purpose is refused, which is no trouble.
stream::Receipt FaultySender::receipt() const {
  auto receipt = inner_->receipt();
  receipt.refused -= std::min(receipt.refused, damaged_);
  return receipt;
}

Result<stream::Receipt> FaultySender::finish(std::chrono::nanoseconds wait) {
  auto finished = inner_->finish(wait);
  Result<void> sent;
  if (!finished)
    sent = finished.error();
  else if (!finished->problem.empty())
    sent = make_error(Errc::io, "the receiver reports: {}", finished->problem);
  const auto logged = conclude(sent);
  if (!finished) return std::move(finished).error();
  if (!logged) return logged.error();
  return receipt();
}

Json FaultySender::done() const {
  Json counts = Json::object();
  for (std::size_t kind = 0; kind < done_.size(); ++kind)
    if (done_[kind] > 0) counts[fault_names[kind]] = done_[kind];
  return counts;
}

}  // namespace penstock::detector
