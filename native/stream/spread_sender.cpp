#include "stream/spread_sender.hpp"

#include <algorithm>

namespace penstock::stream {
namespace {

class SpreadSender final : public FrameSender {
 public:
  explicit SpreadSender(std::vector<std::unique_ptr<FrameSender>> senders) : senders_(std::move(senders)) {}

  Result<void> begin(const Series& series) override {
    return to_all([&](FrameSender& sender) { return sender.begin(series); });
  }

  Result<void> put(const Frame& frame) override { return senders_[value(frame.number) % senders_.size()]->put(frame); }

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

 private:
  template <typename Call>
  Result<void> to_all(Call call) {
    for (auto& sender : senders_) PEN_TRY(call(*sender));
    return {};
  }

  static Receipt together(const std::vector<Receipt>& receipts) {
    auto all = receipts.front();
    for (auto one = receipts.begin() + 1; one != receipts.end(); ++one) {
      all.confirmed = all.confirmed && one->confirmed;
      all.safe_below = std::min(all.safe_below, one->safe_below);
      all.refused += one->refused;
      if (all.problem.empty()) all.problem = one->problem;
      if (all.first_refusal.empty()) all.first_refusal = one->first_refusal;
    }
    return all;
  }

  const std::vector<std::unique_ptr<FrameSender>> senders_;
};

}  // namespace

std::unique_ptr<FrameSender> make_spread_sender(std::vector<std::unique_ptr<FrameSender>> senders) {
  if (senders.size() == 1) return std::move(senders.front());
  return std::make_unique<SpreadSender>(std::move(senders));
}

}  // namespace penstock::stream
