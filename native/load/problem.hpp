/// What ended a run before its time: a code and a path for programs, a sentence for people.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/fields.hpp"
#include "base/result.hpp"

namespace penstock::load {

class Problem {
 public:
  Problem() = default;
  /// `path`: the file or directory that the call was about, relative to the run's directory; empty if unknown.
  Problem(const Error& error, std::string path = "") : error_(error), path_(std::move(path)) {}

  bool empty() const { return !error_; }
  /// What went wrong, as a sentence; empty if nothing did.
  std::string text() const { return error_ ? error_->message() : std::string(); }
  /// {code, path, detail}; null if there is no problem. Codes are those of name(Errc).
  Json to_json() const {
    if (!error_) return nullptr;
    return {{"code", std::string(name(error_->code()))}, {"path", path_}, {"detail", error_->message()}};
  }

 private:
  std::optional<Error> error_;
  std::string path_;
};

}  // namespace penstock::load
