#include "recorder/series/opening/shared_store.hpp"

#include <tuple>
#include <utility>

namespace penstock::recorder {

Result<store::Share> SharedStore::begin_file() {
  PEN_ASSIGN(const auto file, team_.new_file());
  std::tie(number_, base_) = file;
  return team_.share(number_, base_);
}

store::Share SharedStore::join_file(std::uint64_t number, std::uint64_t base) {
  std::tie(number_, base_) = std::tie(number, base);
  return team_.share(number_, base_);
}

void SharedStore::enter(std::unique_ptr<store::Store> store) {
  store_ = std::move(store);
  team_.enter(number_, store_.get());
  entered_ = true;
}

void SharedStore::leave() {
  if (std::exchange(entered_, false)) team_.leave(number_);
}

void SharedStore::drop() {
  leave();
  store_.reset();
}

}  // namespace penstock::recorder
