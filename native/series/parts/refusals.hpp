/// Series without a file. Each counts once, until it has one after all.
#pragma once

#include <cstdint>
#include <string>

#include "series/parts/context.hpp"

namespace penstock::series {

class Refusals {
 public:
  explicit Refusals(Context& context) : context_(context) {}

  std::uint64_t series() const { return series_; }
  std::uint64_t elements() const { return elements_; }

  /// What waits for the series waits in vain, though another start may bring it yet.
  void refuse(const std::string& name, Entry& entry);
  /// The series has its file.
  void take_back(Entry& entry);
  void on(const StartRefused& event);
  /// Counts as a refused series: a part of what the detector sent is in no file.
  Answer on(const ElementRefused& event);

 private:
  Context& context_;
  std::uint64_t series_ = 0;
  std::uint64_t elements_ = 0;
};

}  // namespace penstock::series
