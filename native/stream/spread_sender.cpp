#include "stream/spread_sender.hpp"

#include <algorithm>
#include <thread>

#include "frame/tiling.hpp"
#include "stream/element.hpp"

namespace penstock::stream {
namespace {

class SpreadSender : public FrameSender {
 public:
  explicit SpreadSender(std::vector<std::unique_ptr<FrameSender>> senders)
      : senders_(std::move(senders)), ends_(senders_.size(), 0) {}

  /// Together: each may linger for what its receiver has not taken.
  ~SpreadSender() override {
    std::vector<std::jthread> going;
    for (auto& sender : senders_) going.emplace_back([&sender] { sender.reset(); });
  }

  Result<void> begin(const Series& series) override {
    return to_all([&](FrameSender& sender) { return sender.begin(series); });
  }

  Result<void> put(const Frame& frame) override { return put_to(receiver_of(frame), frame); }
  Result<void> put_cut(const Frame& frame) override { return senders_[receiver_of(frame)]->put_cut(frame); }

  Result<void> flush() override {
    return to_all([](FrameSender& sender) { return sender.flush(); });
  }

  /// Also after an error the others learn of the end.
  Result<void> end() override {
    Result<void> first;
    for (auto& sender : senders_)
      if (auto ended = sender->end(); !ended.ok() && first.ok()) first = std::move(ended);
    return first;
  }

  Result<Receipt> finish(std::chrono::nanoseconds wait) override {
    const auto until = std::chrono::steady_clock::now() + wait;
    std::vector<Receipt> receipts;
    for (auto& sender : senders_) {
      const auto left = std::max<std::chrono::nanoseconds>(until - std::chrono::steady_clock::now(), {});
      PEN_ASSIGN(auto receipt, sender->finish(left));
      receipts.push_back(std::move(receipt));
    }
    return together(receipts);
  }

  Receipt receipt() const override {
    std::vector<Receipt> receipts;
    for (const auto& sender : senders_) receipts.push_back(sender->receipt());
    return together(receipts);
  }

  void cancel() override {
    for (auto& sender : senders_) sender->cancel();
  }

  std::string address() const override {
    std::string all;
    for (const auto& sender : senders_) all += (all.empty() ? "" : ", ") + sender->address();
    return all;
  }

 protected:
  template <typename Call>
  Result<void> to_all(Call call) {
    for (auto& sender : senders_) PEN_TRY(call(*sender));
    return {};
  }
  const std::vector<std::unique_ptr<FrameSender>>& senders() const { return senders_; }
  Result<void> put_to(std::size_t receiver, const Frame& frame) {
    ends_[receiver] = value(frame.number) + 1;
    return senders_[receiver]->put(frame);
  }

  virtual std::size_t receiver_of(const Frame& frame) const { return value(frame.number) % senders_.size(); }

 private:
  /// A receiver that has all of its frames safe says nothing against those of the others.
  Receipt together(const std::vector<Receipt>& receipts) const {
    auto all = receipts.front();
    all.safe_below = *std::max_element(ends_.begin(), ends_.end());
    for (std::size_t i = 0; i < receipts.size(); ++i) {
      const auto& one = receipts[i];
      if (one.safe_below < ends_[i]) all.safe_below = std::min(all.safe_below, one.safe_below);
      if (i == 0) continue;
      all.confirmed = all.confirmed && one.confirmed;
      all.unacknowledged += one.unacknowledged;
      all.refused += one.refused;
      if (all.problem.empty()) all.problem = one.problem;
      if (all.first_refusal.empty()) all.first_refusal = one.first_refusal;
    }
    return all;
  }

  std::vector<std::unique_ptr<FrameSender>> senders_;
  std::vector<std::uint64_t> ends_;  ///< by receiver: one past the last frame that was put to it
};

NamedArray cut(const NamedArray& array, const Tiling& elements, std::uint32_t number) {
  NamedArray part{array.channel, array.spec, std::vector<std::byte>(elements.tile_bytes()), Encoding::none};
  part.spec.shape = elements.tile_shape();
  elements.copy(array.data, number, {}, part.data);
  return part;
}

/// What the stream of one element announces. Masks and tables of the whole frame are cut as the frames are.
Result<Series> series_of(const Series& whole, const ElementPlace& element, ElementTold told) {
  auto series = whole;
  series.element = element;
  if (told == ElementTold::in_start) {
    series.user_data_json = with_element(whole.user_data_json, element);
    series.user_data_cbor.clear();
  }
  auto& shape = series.frame.shape;
  shape[0] /= element.rows;
  shape[1] /= element.columns;
  for (auto* arrays : {&series.pixel_mask, &series.flatfield})
    for (auto& array : *arrays) {
      PEN_ASSIGN(const auto elements, Tiling::of(array.spec, shape));
      if (array.encoding != Encoding::none || array.spec.shape != whole.frame.shape)
        return make_error(Errc::unsupported,
                          "a mask or flat field that is compressed or does not have the frame's shape");
      array = cut(array, elements, element.number);
    }
  return series;
}

class ElementSender final : public SpreadSender {
 public:
  ElementSender(std::vector<std::unique_ptr<FrameSender>> senders, ElementPlace grid, ElementTold told)
      : SpreadSender(std::move(senders)), grid_(std::move(grid)), told_(told) {}

  Result<void> begin(const Series& series) override {
    for (std::uint32_t number = 0; number < senders().size(); ++number) {
      auto element = grid_;
      element.number = number;
      PEN_ASSIGN(const auto of_element, series_of(series, element, told_));
      PEN_TRY(senders()[number]->begin(of_element), "element {}", number);
    }
    return {};
  }

  Result<void> put(const Frame& frame) override {
    const auto element = frame.element.value_or(0);
    if (element >= senders().size())
      return make_error(Errc::invalid_argument, "element {} of {}", element, senders().size());
    return put_to(element, frame);
  }

 protected:
  std::size_t receiver_of(const Frame& frame) const override {
    return std::min<std::size_t>(frame.element.value_or(0), senders().size() - 1);
  }

 private:
  const ElementPlace grid_;
  const ElementTold told_;
};

}  // namespace

std::unique_ptr<FrameSender> make_element_sender(std::vector<std::unique_ptr<FrameSender>> senders, ElementPlace grid,
                                                 ElementTold told) {
  return std::make_unique<ElementSender>(std::move(senders), std::move(grid), told);
}

std::unique_ptr<FrameSender> make_spread_sender(std::vector<std::unique_ptr<FrameSender>> senders) {
  if (senders.size() == 1) return std::move(senders.front());
  return std::make_unique<SpreadSender>(std::move(senders));
}

}  // namespace penstock::stream
