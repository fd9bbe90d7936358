#include "check/verifier.hpp"

#include <algorithm>
#include <limits>

#include "base/crc32c.hpp"
#include "check/compare/compare_chunk.hpp"
#include "store/recovery/complete_chunk.hpp"
#include "store/recovery/cut_short.hpp"
#include "store/recovery/scan.hpp"

namespace penstock::check {

using store::format::ChunkRecord;
using store::format::SegmentHeader;

struct Verifier::Memory {
  std::vector<std::byte> window;
  PipelineScratch pipeline;
  CompareScratch compare;
};

Verifier::Verifier(File& file, std::uint64_t file_bytes, const Reference* reference, const VerifierOptions& options,
                   Findings& findings, Progress& progress)
    : file_(file),
      file_bytes_(file_bytes),
      reference_(reference),
      options_(options),
      findings_(findings),
      progress_(progress),
      queue_(2 * std::max(1U, options.threads)) {
  for (unsigned i = 0; i < std::max(1U, options.threads); ++i) threads_.emplace_back([this] { run(); });
}

Verifier::~Verifier() {
  queue_.close();
  for (auto& thread : threads_) thread.join();
}

void Verifier::set_subjects(std::vector<Subject*> by_record, std::vector<Subject*> all, store::Placement placement) {
  placement_ = placement;
  by_record_ = std::move(by_record);
  all_ = std::move(all);
}

void Verifier::push(const SegmentHeader& segment) {
  {
    MutexLock lock(mutex_);
    ++open_work_;
  }
  queue_.push(Work(segment));
}

void Verifier::push(std::vector<ChunkTask> tasks) {
  {
    MutexLock lock(mutex_);
    ++open_work_;
  }
  queue_.push(Work(std::move(tasks)));
}

void Verifier::drain() {
  MutexLock lock(mutex_);
  idle_.wait(lock, [this]() PEN_REQUIRES(mutex_) { return open_work_ == 0; });
}

void Verifier::run() {
  Memory memory;
  while (auto work = queue_.pop()) {
    if (!cancelled()) {
      if (const auto* segment = std::get_if<SegmentHeader>(&*work))
        verify_segment(*segment, memory);
      else
        verify_chunks(std::get<std::vector<ChunkTask>>(*work), memory);
    }
    MutexLock lock(mutex_);
    if (--open_work_ == 0) idle_.notify_all();
  }
}

void Verifier::verify_segment(const SegmentHeader& segment, Memory& memory) {
  const auto records = store::read_records(file_, segment);
  if (!records.ok()) {
    findings_.add({Level::error,
                   "a segment's records are corrupt",
                   fmt::format("offset {}", segment.address),
                   {},
                   records.error().message(),
                   {}});
    return;
  }
  ++counts_.segments;
  std::vector<ChunkTask> tasks;
  tasks.reserve(records->size());
  for (const auto& record : *records) tasks.push_back(task_for(record, segment));
  verify_rows(segment);
  verify_chunks(tasks, memory);
}

void Verifier::verify_rows(const SegmentHeader& segment) {
  const auto rows = store::read_rows(file_, segment);
  if (rows.ok()) return;
  const bool is_damage = store::has_complete_chunk(file_, segment);
  findings_.add({is_damage ? Level::error : Level::warning,
                 is_damage ? "a segment's values of frames are corrupt"
                           : "a segment's values of frames were not completely written",
                 fmt::format("offset {}", segment.address),
                 {},
                 rows.error().message(),
                 {},
                 options_.unfinished});
}

ChunkTask Verifier::task_for(const ChunkRecord& record, const SegmentHeader& segment) {
  ChunkTask task;
  task.address = segment.address + record.offset;
  task.segment_end = segment.address + segment.segment_bytes;
  task.zero_sectors = record.zero_sectors;
  task.size = record.size;
  task.filter_mask = record.filter_mask;
  task.crc = record.crc;
  task.number = record.chunk_index;
  task.dataset = record.dataset;
  task.record_frame = record.frame;
  task.subject = subject_of(record.dataset, record.chunk_index, task.address);
  if (task.subject != nullptr) match_with_index(task, record);
  return task;
}

/// By the description's numbers, or, where the description is lost, by whose index has the address.
Subject* Verifier::subject_of(std::uint16_t dataset, std::uint64_t chunk_index, std::uint64_t address) const {
  if (dataset < by_record_.size()) return by_record_[dataset];
  for (auto* subject : all_) {
    const auto* entry = subject->index->find(chunk_index);
    if (entry != nullptr && entry->address == address) return subject;
  }
  return nullptr;
}

void Verifier::match_with_index(ChunkTask& task, const ChunkRecord& record) {
  auto& subject = *task.subject;
  if (subject.frames_a_chunk() > 1) task.frames_there = record.frame;
  const auto* entry = subject.index->find(record.chunk_index);
  if (entry == nullptr) {
    ++counts_.unindexed;
    task.unindexed = options_.index_complete;
    return;
  }
  if (entry->address != task.address) {
    ++counts_.superseded;
    task.superseded = true;
    return;
  }
  task.indexed = true;
  subject.index->vouch(*entry);
  if (subject.frames_there) subject.frames_there[subject.index->position_of(*entry)] = record.frame;
  if (entry->size != task.size || entry->filter_mask != task.filter_mask)
    findings_.add({Level::error,
                   "the index and the segment disagree on a chunk",
                   where(task),
                   fmt::format("{} bytes, filter mask {:#x}", task.size, task.filter_mask),
                   fmt::format("{} bytes, filter mask {:#x}", entry->size, entry->filter_mask),
                   {}});
}

void Verifier::verify_chunks(std::span<const ChunkTask> tasks, Memory& memory) {
  while (!tasks.empty() && !cancelled()) {
    const auto& first = tasks.front();
    if (first.address > file_bytes_ || first.size > file_bytes_ - first.address) {
      if (first.superseded)
        report_superseded(first);
      else if (placement_ == store::Placement::slots && was_not_promised(first))
        report_not_whole(first);
      else
        findings_.add({Level::error, "a chunk lies beyond the end of the file", where(first),
                       fmt::format("{} bytes", first.size), fmt::format("a file of {} bytes", file_bytes_),
                       "the file is truncated: copy it again from its source"});
      tasks = tasks.subspan(1);
      continue;
    }
    if (first.size > options_.chunk_bytes_max) {
      verify_large_chunk(first, memory);
      tasks = tasks.subspan(1);
      continue;
    }
    // As many as fit into one read, and the first in any case.
    std::uint64_t end = first.address + first.size;
    std::size_t count = 1;
    for (; count < tasks.size(); ++count) {
      const auto& next = tasks[count];
      const auto next_end = next.address + next.size;
      if (next.address < first.address || next_end > file_bytes_ || next_end - first.address > options_.read_bytes)
        break;
      end = std::max(end, next_end);
    }
    memory.window.resize(end - first.address);
    const auto read = file_.read_at(memory.window, first.address);
    if (!read.ok() || *read != memory.window.size()) {
      findings_.add({Level::error,
                     "the storage cannot read the data",
                     where(first),
                     {},
                     read.ok() ? "the file became shorter" : read.error().message(),
                     "check the storage"});
      tasks = tasks.subspan(count);
      continue;
    }
    for (const auto& task : tasks.first(count))
      verify_chunk(task, Bytes(memory.window).subspan(task.address - first.address, task.size), memory);
    tasks = tasks.subspan(count);
  }
}

void Verifier::verify_large_chunk(const ChunkTask& task, Memory& memory) {
  memory.window.resize(options_.read_bytes);
  std::uint32_t crc = 0;
  for (std::uint64_t done = 0; done < task.size;) {
    const auto count = std::min<std::uint64_t>(task.size - done, memory.window.size());
    const auto piece = MutableBytes(memory.window).first(count);
    const auto read = file_.read_at(piece, task.address + done);
    if (!read.ok() || *read != count) {
      findings_.add({Level::error,
                     "the storage cannot read the data",
                     where(task),
                     {},
                     read.ok() ? "the file became shorter" : read.error().message(),
                     "check the storage"});
      return;
    }
    crc = crc32c(piece, crc);
    done += count;
    progress_.advance(count);
  }
  if (!check_checksum(task, crc)) return;
  count(task);
  findings_.add({Level::info,
                 "a chunk is too large to be decompressed here",
                 where(task),
                 fmt::format("at most {} bytes", options_.chunk_bytes_max),
                 fmt::format("{} bytes", task.size),
                 {}});
}

/// Of a chunk that no index names. The recorder may have died before its dataset was in HDF5's structures.
bool Verifier::was_not_promised(const ChunkTask& task) const {
  return task.unindexed || (task.subject == nullptr && options_.unfinished);
}

/// If its end was never written, the recorder died while it wrote, or the write failed: nobody was notified that it is
/// safe. Otherwise its frame is lost.
void Verifier::report_not_whole(const ChunkTask& task) {
  if (store::was_cut_short(file_, {task.address, task.size, task.segment_end, task.zero_sectors}))
    findings_.add({Level::warning, "a chunk has no end", where(task), "the checksum of its record", "another",
                   "it was not completely written, or is cut off: readers see the fill value", options_.unfinished});
  else
    findings_.add({Level::error, "a chunk is corrupt", where(task), "the checksum of its record", "another",
                   "its bytes changed before the index named it: its frame is lost", options_.unfinished});
}

/// Of a chunk that is whole.
void Verifier::report_unindexed(const ChunkTask& task) {
  const auto& subject = *task.subject;
  const bool beyond = task.number >= subject.chunk_count();
  findings_.add({options_.unfinished ? Level::warning : Level::error,
                 beyond ? "a chunk in a segment lies beyond the dataset's extent"
                        : "a chunk in a segment is missing from the index",
                 where(task), "an index entry", "none",
                 options_.unfinished
                     ? "its bytes are complete: it becomes readable when the file is closed, by its recorder or by "
                       "`penstock recover`"
                     : "its bytes are complete, but readers do not see them: `penstock recover` adds it to the index",
                 options_.unfinished});
}

/// Of a chunk of which the index names another copy: the storage did not take this one, and it came again.
void Verifier::report_superseded(const ChunkTask& task) {
  findings_.add({Level::info, "a copy of a chunk was not completely written", where(task), "the checksum of its record",
                 "another", "harmless: readers see another copy"});
}

bool Verifier::check_checksum(const ChunkTask& task, std::uint32_t crc) {
  const bool right = !task.crc || *task.crc == crc;
  if (task.unindexed && right) report_unindexed(task);
  if (right) return true;
  if (was_not_promised(task)) {
    report_not_whole(task);
    return false;
  }
  if (task.superseded) {
    report_superseded(task);
    return false;
  }
  findings_.add({Level::error, "a chunk's checksum is wrong", where(task), fmt::format("CRC-32C {:08x}", *task.crc),
                 fmt::format("CRC-32C {:08x}", crc),
                 "the stored bytes changed after they were written: restore the file from a copy. Other frames are not "
                 "affected"});
  hold(task);
  return false;
}

/// Of one whose checksum is right, where it has one.
void Verifier::count(const ChunkTask& task) {
  ++counts_.chunks;
  counts_.bytes += task.size;
  if (task.crc) ++counts_.in_segments;
  hold(task);
}

/// What the index names readers see, and a recovery leaves it there: also a chunk that is damaged.
void Verifier::hold(const ChunkTask& task) {
  if (options_.held != nullptr && task.crc) options_.held->add(task.dataset, task.number, task.record_frame, task.size);
}

void Verifier::verify_chunk(const ChunkTask& task, Bytes stored, Memory& memory) {
  progress_.advance(stored.size());
  if (task.crc && !check_checksum(task, crc32c(stored))) return;
  count(task);
  const auto* subject = task.subject;
  if (!options_.decode || subject == nullptr || !subject->pipeline) return;
  if (subject->pipeline->uses_plugin() && !task.crc) {
    findings_.add({Level::info,
                   "a chunk without a checksum is not decompressed by a filter plug-in",
                   where(task),
                   {},
                   {},
                   "a plug-in may crash on corrupt data; read the file with HDF5 instead"});
    return;
  }
  if (subject->chunk_raw_bytes > options_.chunk_bytes_max) {
    findings_.add({Level::info,
                   "a chunk is too large to be decompressed here",
                   where(task),
                   fmt::format("at most {} bytes", options_.chunk_bytes_max),
                   fmt::format("{} bytes", subject->chunk_raw_bytes),
                   {}});
    return;
  }
  const auto raw = subject->pipeline->expand(stored, task.filter_mask, subject->chunk_raw_bytes, memory.pipeline);
  if (!raw.ok()) {
    findings_.add({Level::error,
                   "a chunk cannot be decompressed",
                   where(task),
                   fmt::format("{} bytes", subject->chunk_raw_bytes),
                   raw.error().message(),
                   {}});
    return;
  }
  if (reference_ != nullptr && subject->compared && task.indexed) compare_chunk(task, *raw, memory);
}

void Verifier::compare_chunk(const ChunkTask& task, Bytes raw, Memory& memory) {
  const auto compared = compare_with_reference(*task.subject, task.number, task.frames_there, raw, *reference_,
                                               memory.compare, findings_);
  if (!compared.ok())
    findings_.add(
        {Level::error, "a reference frame is not available", where(task), {}, compared.error().message(), {}});
}

Place Verifier::where(const ChunkTask& task) const {
  if (task.subject != nullptr) return task.subject->where(task.number, task.address);
  return fmt::format("chunk {} at offset {}", task.number, task.address);
}

}  // namespace penstock::check
