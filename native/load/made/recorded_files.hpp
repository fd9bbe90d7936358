/// The back end of a run: what is created through this is in the run's record.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "load/backends/backend.hpp"
#include "load/made/made.hpp"

namespace penstock::load {

/// As safe as the back end.
class RecordedFiles {
 public:
  RecordedFiles(std::shared_ptr<Backend> backend, std::shared_ptr<Made> made)
      : backend_(std::move(backend)), made_(std::move(made)) {}

  Backend* operator->() const { return backend_.get(); }
  const std::shared_ptr<Made>& made() const { return made_; }

  /// A new file; it is in the record unless the storage did not create it. `cancelled` once the run has ended.
  Result<std::unique_ptr<StoredFile>> create(const std::string& name, std::uint64_t number,
                                             Made::Name kind = Made::Name::complete) const {
    bool made = false;
    if (!made_->ask(number, kind)) return has_ended(name);
    auto file = backend_->create(name, made);
    if (!made) made_->gone(number, kind);
    return file;
  }

  /// A partial file becomes a complete one.
  Result<void> rename(Names& names, std::uint64_t number, const std::string& from, const std::string& to) const {
    if (!made_->ask(number)) return has_ended(to);
    auto renamed = names.rename(from.c_str(), to.c_str());
    made_->gone(number, renamed.ok() ? Made::Name::partial : Made::Name::complete);
    return renamed;
  }

 private:
  static Error has_ended(const std::string& name) { return Error(Errc::cancelled, name + ": the run has ended"); }

  const std::shared_ptr<Backend> backend_;
  const std::shared_ptr<Made> made_;
};

}  // namespace penstock::load
