#include "series/parts/lines.hpp"

namespace penstock::series {

Answer Lines::keep(const Entry& entry, bool is_start, std::uint64_t bytes) {
  auto& room = is_start ? starts_ : frames_;
  if (room.hold(bytes)) return answer_of(Answer::Kind::wait, entry);
  if (!is_start && entry.held && context_.may_wait)
    return {.kind = Answer::Kind::wait_until, .until = context_.now + second};
  return reject(Why::no_room);
}

}  // namespace penstock::series
