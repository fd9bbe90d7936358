#include "recorder/series/chunks/blocks.hpp"

#include <algorithm>
#include <bit>

namespace penstock::recorder {
namespace {

std::uint32_t low_bits(std::uint64_t count) { return count >= 32 ? 0xFFFF'FFFFu : (std::uint32_t{1} << count) - 1; }

}  // namespace

Blocks::Blocks(const BlocksOptions& options)
    : options_(options),
      pool_(options.buffers * buffer_bytes(options.frames * options.frame_bytes), options.huge_pages),
      free_buffers_(options.buffers) {}

/// The pool's size classes waste a quarter at most, or a huge page.
std::uint64_t Blocks::buffer_bytes(std::uint64_t block_bytes) {
  return align_up(block_bytes + block_bytes / 4, block_bytes >= huge_page_bytes ? huge_page_bytes : page_bytes);
}

std::uint32_t Blocks::wanted(std::uint64_t number) const {
  const auto first = number * options_.frames;
  if (options_.announced <= first) return low_bits(options_.frames);
  return low_bits(std::min(options_.frames, options_.announced - first));
}

bool Blocks::is_closed(const Key& key) const {
  const auto page = closed_.find({key.first, key.second / closed_a_page});
  return page != closed_.end() && page->second.test(key.second % closed_a_page);
}

Result<void> Blocks::take_memory() {
  std::vector<BufferRef> all;
  for (std::uint64_t i = 0; i < options_.buffers; ++i) {
    PEN_ASSIGN(auto buffer, pool_.acquire(options_.frames * options_.frame_bytes, std::chrono::nanoseconds(0)));
    all.push_back(std::move(buffer));
  }
  return {};  // the pool keeps what goes back to it
}

/// With mutex_ held: whether a block may be opened for this frame.
bool Blocks::is_taken(const Key& key, std::uint32_t bit) const {
  if (!is_closed(key)) return true;
  const auto again = again_.find(key);
  return again != again_.end() && (again->second & bit) != 0;
}

Result<Blocks::Joined> Blocks::join(FrameNumber number, std::uint32_t channel) {
  const Key key{channel, value(number) / options_.frames};
  const auto bit = std::uint32_t{1} << value(number) % options_.frames;
  std::lock_guard lock(mutex_);
  Joined joined;
  if (const auto found = open_.find(key); found != open_.end()) {
    joined.block = found->second;
  } else {
    if (!is_taken(key, bit))
      return make_error(Errc::out_of_order,
                        "image {} arrived too late: the chunk of the frames {} to {} was written without it",
                        value(number), key.second * options_.frames, (key.second + 1) * options_.frames - 1);
    for (const auto& block : overdue(key))
      if (auto ready = shut(block)) joined.due.push_back(std::move(ready));
    auto& newest = newest_[channel];
    newest = std::max(newest, key.second);
    joined.block = open(key);
  }
  auto& block = *joined.block;
  if ((block.wanted & bit) == 0)
    return make_error(Errc::out_of_order, "image {} arrived too late: its chunk was written without it once",
                      value(number));
  block.joined |= bit;
  ++block.pending;
  // It is due when the last of its frames is copied, this one at least.
  if (block.joined == block.wanted) (void)shut(joined.block);
  return joined;
}

/// With mutex_ held: the channel's blocks that make way for `opening`. What those far behind it lack is not waited for
/// any longer; of one that was lost it is, as its sender was asked for its frames. Where there are too many still, the
/// lowest goes: the frames that it lacks are the longest overdue.
std::vector<Blocks::Ref> Blocks::overdue(const Key& opening) const {
  const auto newest = newest_.find(opening.first);
  const bool is_newest = newest == newest_.end() || opening.second > newest->second;
  std::vector<Ref> far_behind, staying;
  for (auto each = open_.lower_bound({opening.first, 0}); each != open_.end() && each->first.first == opening.first;
       ++each) {
    const bool is_far = is_newest && !each->second->again && each->first.second + options_.open_max <= opening.second;
    (is_far ? far_behind : staying).push_back(each->second);
  }
  if (staying.size() < options_.open_max) return far_behind;
  // One that lies below all others takes nothing from them as long as each open block finds memory in the end.
  const bool is_lowest = opening.second < staying.front()->number;
  const bool has_memory = open_.size() - far_behind.size() + 1 < options_.buffers;
  if (!is_lowest || !has_memory) far_behind.push_back(staying.front());
  return far_behind;
}

/// With mutex_ held: of an open block.
FrameNumber Blocks::last_lacking(const Block& block) const {
  const auto lacks = block.wanted & ~block.joined;
  return FrameNumber{block.number * options_.frames + static_cast<unsigned>(std::bit_width(lacks)) - 1};
}

std::optional<FrameNumber> Blocks::lacking_before(FrameNumber number, std::uint32_t channel) const {
  const Key key{channel, value(number) / options_.frames};
  std::lock_guard lock(mutex_);
  if (open_.contains(key) || !is_taken(key, std::uint32_t{1} << value(number) % options_.frames)) return std::nullopt;
  std::optional<FrameNumber> last;
  for (const auto& block : overdue(key)) last = std::max(last, std::optional(last_lacking(*block)));
  // Those below have had their time when the blocks before this one were opened.
  for (auto behind = options_.open_max; behind < 2 * options_.open_max && behind <= key.second; ++behind) {
    const Key unopened{channel, key.second - behind};
    if (!open_.contains(unopened) && !is_closed(unopened))
      last = std::max(last, std::optional(FrameNumber{(unopened.second + 1) * options_.frames - 1}));
  }
  return last;
}

std::optional<FrameNumber> Blocks::lacking(FrameNumber number, std::uint32_t channel) const {
  std::lock_guard lock(mutex_);
  const auto found = open_.find({channel, value(number) / options_.frames});
  return found == open_.end() ? std::nullopt : std::optional(last_lacking(*found->second));
}

/// With mutex_ held.
Blocks::Ref Blocks::open(const Key& key) {
  auto block = std::make_shared<Block>();
  block->channel = key.first;
  block->number = key.second;
  block->wanted = wanted(key.second);
  if (const auto again = again_.find(key); again != again_.end()) {
    block->wanted = again->second;
    block->again = true;
    again_.erase(again);
  }
  if (free_buffers_ == 0 || !give_buffer(*block)) waiting_.push_back(block);
  open_[key] = block;
  return block;
}

/// With mutex_ held. False where the system has no memory.
bool Blocks::give_buffer(Block& block) {
  auto buffer = pool_.acquire(options_.frames * options_.frame_bytes, std::chrono::nanoseconds(0));
  if (!buffer.ok()) return false;
  block.buffer = std::move(*buffer);
  --free_buffers_;
  return true;
}

/// With mutex_ held: the block takes no more frames. The block, if it is due.
Blocks::Ref Blocks::shut(const Ref& block) {
  const Key key{block->channel, block->number};
  block->open = false;
  const auto taken = open_.extract(key);  // `block` may be the table's own
  closed_[{key.first, key.second / closed_a_page}].set(key.second % closed_a_page);
  return due(taken.mapped());
}

/// With mutex_ held.
Blocks::Ref Blocks::due(const Ref& block) {
  if (block->open || block->pending > 0) return nullptr;
  const Key key{block->channel, block->number};
  if (block->there == 0) {
    // None of its frames could be used: as if there had been none. One that was lost still takes only what it had.
    if (block->again)
      again_[key] = block->wanted;
    else
      closed_[{key.first, key.second / closed_a_page}].reset(key.second % closed_a_page);
    return block;
  }
  block->cookie = next_cookie_++;
  flights_.emplace(block->cookie, Flight{key, block->there, options_.chunks, false, block->slots});
  return block;
}

std::optional<MutableBytes> Blocks::room(Task& task) {
  const auto block = task.block;
  const auto position = value(task.frame.number) % options_.frames;
  std::lock_guard lock(mutex_);
  if (!block->buffer) {
    block->parked.push_back(std::move(task));
    return std::nullopt;
  }
  return block->buffer->bytes().subspan(position * options_.frame_bytes, options_.frame_bytes);
}

Blocks::Ref Blocks::copied(const Task& task, bool good) {
  const auto& block = task.block;
  const auto position = static_cast<unsigned>(value(task.frame.number) % options_.frames);
  std::lock_guard lock(mutex_);
  --block->pending;
  if (good) {
    block->there |= std::uint32_t{1} << position;
    block->slots.push_back(task.slot);
    block->received_ns = std::max(block->received_ns, task.frame.received_ns);
  } else {
    block->joined &= ~(std::uint32_t{1} << position);  // a good copy of it may still come
  }
  return due(block);
}

std::vector<Task> Blocks::release(Block& block) {
  std::lock_guard lock(mutex_);
  block.buffer.reset();
  ++free_buffers_;
  std::vector<Task> tasks;
  while (free_buffers_ > 0 && !waiting_.empty()) {
    const auto next = waiting_.front();
    if (!give_buffer(*next)) break;
    waiting_.pop_front();
    for (auto& task : next->parked) tasks.push_back(std::move(task));
    next->parked.clear();
  }
  return tasks;
}

std::vector<std::uint64_t> Blocks::slots_of(std::uint64_t cookie) const {
  std::lock_guard lock(mutex_);
  return flights_.at(cookie).slots;
}

std::vector<std::uint64_t> Blocks::settle(std::uint64_t cookie, WriteOutcome outcome, std::uint64_t chunks) {
  std::lock_guard lock(mutex_);
  const auto found = flights_.find(cookie);
  auto& flight = found->second;
  flight.lost = flight.lost || outcome == WriteOutcome::lost;
  flight.chunks -= chunks;
  if (flight.chunks > 0) return flight.slots;
  // Before anybody asks for its frames again.
  if (flight.lost) again_[flight.key] = flight.frames;
  auto slots = std::move(flight.slots);
  flights_.erase(found);
  return slots;
}

Blocks::Ref Blocks::close(FrameNumber number, std::uint32_t channel) {
  std::lock_guard lock(mutex_);
  const auto found = open_.find({channel, value(number) / options_.frames});
  return found == open_.end() ? nullptr : shut(found->second);
}

bool Blocks::is_open(FrameNumber number, std::uint32_t channel) const {
  std::lock_guard lock(mutex_);
  return open_.contains({channel, value(number) / options_.frames});
}

std::uint64_t Blocks::waiting() const {
  std::lock_guard lock(mutex_);
  std::uint64_t frames = 0;
  for (const auto& [key, block] : open_) frames += static_cast<unsigned>(std::popcount(block->there));
  return frames;
}

std::vector<Blocks::Ref> Blocks::close_all() {
  std::lock_guard lock(mutex_);
  std::vector<Ref> ready;
  while (!open_.empty())
    if (auto block = shut(open_.begin()->second)) ready.push_back(std::move(block));
  return ready;
}

}  // namespace penstock::recorder
