/// Changes to HDF5's structures, written in one piece before they are made in place.
///
/// HDF5 changes its structures in many small writes, and a process that dies among them leaves a tree that nobody can
/// read. So the changes between two moments at which the structures are consistent are a batch: it is written to the
/// journal first, and in place after that. Whoever finds a file whose last batch may not be in place makes it again; a
/// batch that is not whole was not begun in place. Nothing newer than the newest batch is ever in place, so that doing
/// it twice changes nothing.
///
/// The journal's place is the same in each file (journal_place.hpp): two pages, which take turns.
/// docs/reference/format.md specifies them. A file of before has none.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/files/env.hpp"
#include "store/format/segment.hpp"
#include "store/space/space.hpp"

namespace penstock::store {

struct Change {
  std::uint64_t address = 0;
  std::vector<std::byte> bytes;

  std::uint64_t end() const { return address + bytes.size(); }
};

/// The writing side. One thread; file and space outlive it.
class Journal {
 public:
  /// Of a file that has one, or is so new that nothing stands at its place; null where there is something else. `id`
  /// is that of a new file.
  static Result<std::unique_ptr<Journal>> attach(File& file, Space& space, std::optional<format::FileId> id);

  /// Writes a batch. When this returns, the changes may be made in place. `no_space` where the storage has no room for
  /// it now, `too_large` where it never will be in the journal; then the batch before is still the newest.
  /// `before_page` is called when all that needs space is written, and nothing that was there has changed yet.
  using BeforePage = std::function<Result<void>()>;
  Result<void> write(std::span<const Change* const> changes, const BeforePage& before_page = {});
  /// The last batch is in place, and what comes next is not in the journal.
  Result<void> clear();

 private:
  struct Extent {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
  };
  Journal(File& file, Space& space, const format::FileId& id, std::uint64_t sequence)
      : file_(file), space_(space), id_(id), sequence_(sequence) {}
  Result<void> write_page(const std::vector<std::byte>& batch, std::size_t changes, const BeforePage& before_page = {});

  File& file_;
  Space& space_;
  const format::FileId id_;
  std::uint64_t sequence_;           ///< of the newest batch; its page is that of its parity
  bool clear_ = false;               ///< the newest batch is empty
  std::array<Extent, 2> extents_{};  ///< for batches that do not fit into a page, by parity
};

struct LeftJournal {
  std::vector<Change> changes;  ///< they rise, and none reaches into the next
  std::string damage;           ///< why they are not known; also of a file of before, which has something else there
};

/// The changes of the newest batch where the file may lack them: its recorder died before it had closed the file.
/// Of a file that a recorder has open this is of no use.
Result<LeftJournal> unfinished_changes(File& file);

/// Makes the changes in place, the last one first. A superblock that is whole stays as it is: the new one may say that
/// the file is closed, which nobody may read after a loss of power, before all that it refers to is synced. HDF5 writes
/// it when it closes the file.
Result<void> make_changes(File& file, std::span<const Change> changes);

/// The file as it is after the changes, for reading.
std::shared_ptr<File> with_changes(std::shared_ptr<File> file, std::vector<Change> changes);

}  // namespace penstock::store
