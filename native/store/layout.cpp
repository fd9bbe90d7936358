#include "store/layout.hpp"

namespace penstock::store {

Value vector_of(const std::vector<double>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return ArrayValue{{ElementType::f64, {numbers.size()}}, {bytes.begin(), bytes.end()}};
}

}  // namespace penstock::store
