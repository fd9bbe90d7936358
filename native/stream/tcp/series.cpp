#include "stream/tcp/series.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <thread>

#include "base/time/clock.hpp"

namespace penstock::stream {
namespace {

using namespace std::chrono_literals;

/// The other end's system acknowledges what it is sent within 2 s. Looks are counted, not the time: a process that had
/// no processor for a while has not looked meanwhile.
constexpr int answer_looks = 200;
constexpr auto answer_poll = 10ms;
/// The system tells times of packets no finer than this.
constexpr auto packet_time_grain = 10ms;

/// Before answer(): systems that acknowledge it have been silent for less time than since what this returns.
std::int64_t begin_to_ask() {
  const auto asked_ns = monotonic_ns();
  std::this_thread::sleep_for(2 * packet_time_grain);
  return asked_ns;
}

}  // namespace

bool TcpSession::is_there(const std::string& series_unique_id) {
  if (has_hung_up()) return false;
  const auto asked_ns = begin_to_ask();
  answer(series_unique_id);
  for (int look = 0; look < answer_looks && !has_hung_up(); ++look) {
    if (acknowledges(asked_ns)) return !has_hung_up();
    std::this_thread::sleep_for(answer_poll);
  }
  return false;
}

std::shared_ptr<Socket> TcpSession::socket() const {
  MutexLock lock(mutex_);
  return socket_;
}

bool TcpSession::has_hung_up() const {
  const auto socket = this->socket();
  return socket == nullptr || socket->has_ended();
}

bool TcpSession::acknowledges(std::int64_t asked_ns) const {
  const auto socket = this->socket();
  // The time is read first: a pause behind it makes the silence seem longer, and the next look is right.
  const std::chrono::nanoseconds since(monotonic_ns() - asked_ns);
  return socket != nullptr && socket->silence() + packet_time_grain < since;
}

void TcpSession::safe_below(const std::string& series_unique_id, FrameNumber below) {
  // The replies only queue, so telling them with the mutex held is short; and it keeps the order.
  MutexLock lock(mutex_);
  if (value(below) <= told_ || replies_ == nullptr) return;
  told_ = value(below);
  replies_->ack(series_unique_id, told_);
}

void TcpSession::ask_again(const std::string&, const Error& why) { (void)cut(why); }

bool TcpSession::cut(const Error& why) {
  MutexLock lock(mutex_);
  if (socket_ == nullptr || is_cut_.exchange(true)) return false;
  replies_->error(0, why);
  // Not the other way: the reason has to get through.
  socket_->shut_down_reading();
  return true;
}

void TcpSession::rejected(std::uint64_t message, const Error& why) {
  MutexLock lock(mutex_);
  if (replies_ != nullptr) replies_->error(message, why);
}

void TcpSession::ended(const std::string&, std::string_view ended_by, FrameNumber all_safe_below) {
  MutexLock lock(mutex_);
  ended_by_ = ended_by;
  all_safe_below_ = value(all_safe_below);
}

void TcpSession::closed(const std::string& series_unique_id, const std::string& problem) {
  MutexLock lock(mutex_);
  if (replies_ == nullptr) return;
  TcpControl control;
  control.series_unique_id = series_unique_id;
  control.safe_below = is_resumed_ ? std::max(told_, all_safe_below_) : told_;
  control.text = problem;
  control.ended_by = ended_by_;
  replies_->send(TcpKind::closed, control);
}

void TcpSession::answer(const std::string& series_unique_id) {
  MutexLock lock(mutex_);
  if (replies_ != nullptr) replies_->ack(series_unique_id, told_);
}

std::optional<std::uint32_t> TcpSession::element() const {
  MutexLock lock(mutex_);
  return element_;
}

void TcpSession::set_element(std::optional<std::uint32_t> element) {
  MutexLock lock(mutex_);
  element_ = element;
}

bool TcpSession::is_of(const TcpReplies& replies) const {
  MutexLock lock(mutex_);
  return replies_.get() == &replies;
}

bool TcpSession::is_gone() const {
  MutexLock lock(mutex_);
  return replies_ == nullptr;
}

void TcpSession::leave() {
  MutexLock lock(mutex_);
  replies_.reset();
  socket_.reset();
}

bool TcpSeries::is_closed() const {
  MutexLock lock(mutex_);
  return closed_;
}

bool TcpSeries::is_open_for(const TcpReplies& replies) const {
  MutexLock lock(mutex_);
  return !closed_ &&
         std::any_of(parts_.begin(), parts_.end(), [&](const auto& each) { return each.session->is_of(replies); });
}

TcpSeries::Part& TcpSeries::part(const TcpLink& link) {
  const auto found =
      std::find_if(parts_.begin(), parts_.end(), [&](const auto& each) { return each.session->is_of(*link.replies); });
  if (found != parts_.end()) return *found;
  if (const auto back = cut_off_.find(link.client); back != cut_off_.end()) cut_off_.erase(back);
  parts_.push_back({std::make_shared<TcpSession>(link)});
  return parts_.back();
}

bool TcpSeries::all_ended() const {
  return end_ && std::all_of(parts_.begin(), parts_.end(), [](const auto& each) { return each.ended; });
}

bool TcpSeries::has_begun(std::uint32_t element) const {
  MutexLock lock(mutex_);
  return begun_.contains(element);
}

bool TcpSeries::is_taken(const TcpReplies& replies, std::uint32_t element) const {
  MutexLock lock(mutex_);
  const auto found =
      std::find_if(parts_.begin(), parts_.end(), [&](const auto& each) { return each.session->is_of(replies); });
  return found != parts_.end() && found->session->element().value_or(element) != element;
}

std::vector<std::shared_ptr<TcpSession>> TcpSeries::rivals(const TcpLink& link, std::uint32_t element) const {
  MutexLock lock(mutex_);
  std::vector<std::shared_ptr<TcpSession>> rivals;
  for (const auto& [session, ended] : parts_)
    if (session->element() == element && !session->is_of(*link.replies) && !session->is_same_sender(link))
      rivals.push_back(session);
  return rivals;
}

std::vector<std::shared_ptr<TcpSession>> TcpSeries::sessions_of(std::string_view client) const {
  MutexLock lock(mutex_);
  std::vector<std::shared_ptr<TcpSession>> sessions;
  for (const auto& [session, ended] : parts_)
    if (!closed_ && session->client() == client && !session->is_gone()) sessions.push_back(session);
  return sessions;
}

std::shared_ptr<TcpSession> TcpSeries::join(const TcpLink& link, const TcpPart& with) {
  MutexLock lock(mutex_);
  auto session = closed_ ? std::make_shared<TcpSession>(link) : part(link).session;
  session->set_window(with.window);
  if (with.resumed) session->set_resumed();
  if (with.element) {
    begun_.insert(with.element->number);
    session->set_element(with.element->number);
  }
  if (!closed_) return session;
  say_closed(*session);
  return nullptr;
}

void TcpSeries::say_closed(TcpSession& session) const {
  session.ended(unique_id_, close_.ended_by, close_.all_safe_below);
  session.closed(unique_id_, close_.problem);
}

std::shared_ptr<TcpSession> TcpSeries::session(const TcpLink& link) {
  MutexLock lock(mutex_);
  return part(link).session;
}

bool TcpSeries::all_ended(std::optional<std::uint32_t> element) const {
  return std::all_of(parts_.begin(), parts_.end(),
                     [&](const auto& each) { return each.ended || each.session->element() != element; });
}

void TcpSeries::end(const TcpReplies& replies, SeriesEnd& end) {
  MutexLock lock(mutex_);
  for (auto& each : parts_) {
    if (!each.session->is_of(replies)) continue;
    each.ended = true;
    each.session->set_ended();
    end.element = each.session->element();
  }
  end_ = end;
  end.by_all = end.element ? all_ended(end.element) : all_ended();
}

std::optional<SeriesEnd> TcpSeries::leave(const TcpReplies& replies, bool said_bye) {
  MutexLock lock(mutex_);
  const auto found =
      std::find_if(parts_.begin(), parts_.end(), [&](const auto& each) { return each.session->is_of(replies); });
  if (found == parts_.end()) return std::nullopt;
  const bool was_waited_for = !found->ended;
  const auto element = found->session->element();
  if (said_bye) found->session->set_ended();
  if (!said_bye && was_waited_for) cut_off_.insert(found->session->client());
  found->session->leave();
  parts_.erase(found);
  if (!said_bye || !was_waited_for) return std::nullopt;
  if (!element) return all_ended() ? end_ : std::nullopt;
  if (!all_ended(element)) return std::nullopt;
  return SeriesEnd{.unique_id = unique_id_, .element = element, .answered = true};
}

bool TcpSeries::have_all_ended(const std::set<const TcpReplies*>& connections) const {
  MutexLock lock(mutex_);
  return cut_off_.empty() &&
         std::all_of(connections.begin(), connections.end(), [&](const auto* replies) PEN_REQUIRES(mutex_) {
           return std::any_of(parts_.begin(), parts_.end(),
                              [&](const auto& each) { return each.ended && each.session->is_of(*replies); });
         });
}

void TcpSeries::ended(const std::string&, std::string_view ended_by, FrameNumber all_safe_below) {
  MutexLock lock(mutex_);
  close_.ended_by = ended_by;
  close_.all_safe_below = all_safe_below;
}

void TcpSeries::closed(const std::string&, const std::string& problem) {
  MutexLock lock(mutex_);
  if (closed_) return;
  closed_ = true;
  close_.problem = problem;
  for (const auto& [session, ended] : parts_) say_closed(*session);
  parts_.clear();
}

void TcpSeries::refused(const std::string& series_unique_id, const std::optional<ElementPlace>& element,
                        const std::string& why) {
  const bool others_go_on = element && element->count() > 1;
  {
    MutexLock lock(mutex_);
    refused_ = !others_go_on;
    for (const auto& [session, ended] : parts_)
      if (!others_go_on || session->element() == element->number) session->refuse();
    if (others_go_on) begun_.erase(element->number);
  }
  if (!others_go_on) return closed(series_unique_id, why);
  MutexLock lock(mutex_);
  for (const auto& [session, ended] : parts_)
    if (session->is_refused()) session->closed(unique_id_, why);
  std::erase_if(parts_, [](const auto& each) { return each.session->is_refused(); });
}

bool TcpSeries::is_refused() const {
  MutexLock lock(mutex_);
  return refused_;
}

namespace {

/// Answers the start with an acknowledgement, or, if the series is closed or takes no more frames, with `closed` once
/// it is.
void take_part(TcpSeries& series, const TcpPart& with, const TcpLink& link, FrameSink& sink) {
  const auto session = series.join(link, with);
  if (session != nullptr && sink.expect(series.unique_id(), session)) session->answer(series.unique_id());
}

/// An element's frames come from one sender: of two that both say they are element 0 one is another, or the one of
/// before that is gone, which then brings no more. A sender that comes back says the same `client`; of one that does
/// not it depends on whether anybody is left at the connection of before.
Result<void> claim_element(TcpSeries& series, std::uint32_t element, const TcpLink& link, FrameSink& sink) {
  for (const auto& rival : series.rivals(link, element)) {
    if (rival->is_there(series.unique_id())) {
      auto why = make_error(Errc::mismatch,
                            "element {} of series \"{}\" already comes from {}, but {} claims the same element; give "
                            "each element a different number (user_data.penstock.element)",
                            element, series.unique_id(), rival->peer(), link.peer);
      sink.refuse_element(series.unique_id(), fmt::format("tcp {}", link.peer), why);
      sink.reject(fmt::format("tcp {}", link.peer), why);
      return why;
    }
    const auto why = make_error(
        Errc::disconnected, "element {} of series \"{}\" came from {}, which has disconnected: it now comes from {}",
        element, series.unique_id(), rival->peer(), link.peer);
    sink.note(fmt::format("tcp {}", link.peer), why);
    rival->ask_again(series.unique_id(), why);
  }
  return {};
}

}  // namespace

Result<void> TcpSeriesTable::start(Series series, bool resume, const TcpLink& link, FrameSink& sink) {
  MutexLock starting(starting_);
  const auto window = series.window_frames;
  auto known = find(series.unique_id);
  const auto element = series.element;
  if (known != nullptr && element && element->count() > 1) PEN_TRY(claim_element(*known, element->number, link, sink));
  const bool another_element = known != nullptr && !known->is_closed() && element && !known->has_begun(element->number);
  if (known != nullptr && !resume && !known->is_closed() && !another_element)
    return make_error(Errc::out_of_order,
                      "{}series \"{}\" has started already; a client that reconnects must set the flag resume",
                      element ? fmt::format("element {} of ", element->number) : "", series.unique_id);
  if (known != nullptr && element && known->is_taken(*link.replies, element->number))
    return make_error(
        Errc::out_of_order,
        "this connection already sends another element of series \"{}\"; element {} requires a separate connection",
        series.unique_id, element->number);
  series.resumed = resume;
  if (known != nullptr && (resume || another_element)) {
    if (!known->is_of(series))
      return make_error(Errc::mismatch,
                        "series \"{}\" started with a different shape, type, number of frames, channels or elements",
                        series.unique_id);
    if (const auto gap = gap_text(element.value_or(ElementPlace{})); gap != known->gap())
      return make_error(Errc::mismatch, "the gap between elements is {}; series \"{}\" started with {}", gap,
                        series.unique_id, known->gap());
    if (const auto needed = sink.window_needed(series.unique_id); window > 0 && window < needed && !known->is_closed())
      return make_error(Errc::refused,
                        "the sender's window is {} frames; series \"{}\" requires at least {}, because its chunks have "
                        "several frames: increase the window",
                        window, series.unique_id, needed);
    if (another_element) PEN_TRY(sink.begin(std::move(series), known));
    take_part(*known, {element, window, resume}, link, sink);
    return {};
  }
  auto entry = std::make_shared<TcpSeries>(series);
  const auto unique_id = series.unique_id;
  PEN_TRY(sink.begin(std::move(series), entry));
  {
    MutexLock lock(mutex_);
    if (!series_.contains(unique_id)) order_.push_back(unique_id);
    series_[unique_id] = entry;
    forget_old();
  }
  take_part(*entry, {element, window, resume}, link, sink);
  return {};
}

void TcpSeriesTable::arrive(const TcpReplies& replies) {
  MutexLock lock(mutex_);
  connections_.insert(&replies);
}

bool TcpSeriesTable::is_last(const TcpSeries& series) const {
  MutexLock lock(mutex_);
  return guests_ == 0 && series.have_all_ended(connections_);
}

bool TcpSeriesTable::has_open_series(const TcpReplies& replies) const {
  MutexLock lock(mutex_);
  return std::any_of(series_.begin(), series_.end(),
                     [&](const auto& entry) { return entry.second->is_open_for(replies); });
}

void TcpSeriesTable::end_lost(std::string_view client) {
  std::vector<std::pair<std::string, std::shared_ptr<TcpSession>>> sessions;
  {
    MutexLock lock(mutex_);
    for (const auto& [unique_id, series] : series_)
      for (auto& session : series->sessions_of(client)) sessions.emplace_back(unique_id, std::move(session));
  }
  // One that has hung up leaves by itself, once everything that it sent is read.
  const auto is_no_matter = [](const auto& each) { return each.second->is_cut() || each.second->has_hung_up(); };
  std::erase_if(sessions, is_no_matter);
  if (sessions.empty()) return;
  const auto asked_ns = begin_to_ask();
  for (const auto& [unique_id, session] : sessions) session->answer(unique_id);
  for (int look = 0; look < answer_looks && !sessions.empty(); ++look) {
    std::this_thread::sleep_for(answer_poll);
    std::erase_if(sessions,
                  [&](const auto& each) { return is_no_matter(each) || each.second->acknowledges(asked_ns); });
  }
  for (const auto& [unique_id, session] : sessions) {
    const auto why =
        make_error(Errc::disconnected, "{} does not answer, and its client has connected again", session->peer());
    if (session->cut(why)) spdlog::info("tcp {}: disconnected: {}", session->peer(), why.message());
  }
}

std::shared_ptr<TcpSeries> TcpSeriesTable::find(const std::string& unique_id) {
  MutexLock lock(mutex_);
  const auto found = series_.find(unique_id);
  return found == series_.end() || found->second->is_refused() ? nullptr : found->second;
}

std::vector<SeriesEnd> TcpSeriesTable::leave(const TcpReplies& replies, bool said_bye) {
  MutexLock lock(mutex_);
  connections_.erase(&replies);
  std::vector<SeriesEnd> ended;
  for (const auto& [unique_id, series] : series_)
    if (auto end = series->leave(replies, said_bye)) {
      end->last = guests_ == 0 && series->have_all_ended(connections_);
      ended.push_back(std::move(*end));
    }
  return ended;
}

void TcpSeriesTable::forget_old() {
  while (order_.size() > closed_max) {
    const auto oldest = std::find_if(order_.begin(), order_.end(), [&](const auto& unique_id) PEN_REQUIRES(mutex_) {
      return series_.at(unique_id)->is_closed();
    });
    if (oldest == order_.end()) return;
    series_.erase(*oldest);
    order_.erase(oldest);
  }
}

}  // namespace penstock::stream
