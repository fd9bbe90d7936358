#include "recorder/team/file_role.hpp"

#include <nlohmann/json.hpp>

#include "recorder/team/team.hpp"
#include "recorder/tree/nexus/nexus.hpp"

namespace penstock::recorder {
namespace {

class CoordinatorFile final : public FileRole {
 public:
  explicit CoordinatorFile(unsigned writers) : writers_(writers) {}

  RowBatch::States states() const override { return RowBatch::States::written; }
  bool completes() const override { return true; }
  unsigned writers() const override { return writers_; }
  Result<std::optional<Terms>> terms(const std::string&, Encoding, const std::vector<MetaColumn>&) override {
    return std::optional<Terms>();
  }
  std::uint64_t end_elsewhere(const std::string&) override { return 0; }
  Result<void> settle_unplaced(const std::string&, const std::vector<std::pair<FrameNumber, FrameState>>& frames,
                               store::RowWriter* rows) override {
    Result<void> outcome;
    if (rows == nullptr) return outcome;
    for (const auto& [number, state] : frames) {
      const auto byte = static_cast<std::byte>(state);
      auto put =
          rows->put(store::ColumnId{static_cast<std::uint16_t>(Column::state)}, {value(number)}, Bytes(&byte, 1));
      if (!put.ok()) outcome = std::move(put);
    }
    return outcome;
  }

 private:
  const unsigned writers_;
};

class MemberFile final : public FileRole {
 public:
  explicit MemberFile(Team& team) : team_(team) {}

  RowBatch::States states() const override { return RowBatch::States::left_to_the_coordinator; }
  bool completes() const override { return false; }
  unsigned writers() const override { return team_.ranks(); }
  Result<std::optional<Terms>> terms(const std::string& series_unique_id, Encoding encoding,
                                     const std::vector<MetaColumn>& columns) override {
    PEN_ASSIGN(const auto answer, team_.ask({{"ask", "terms"},
                                             {"series_unique_id", series_unique_id},
                                             {"encoding", name(encoding)},
                                             {"columns", to_json(columns)}},
                                            answer_patience));
    PEN_ASSIGN(auto terms, terms_from(answer));
    return std::optional(std::move(terms));
  }
  std::uint64_t end_elsewhere(const std::string& series_unique_id) override {
    const auto answer = team_.ask({{"ask", "end"}, {"series_unique_id", series_unique_id}}, answer_patience);
    return answer.ok() ? answer->value("end", std::uint64_t{0}) : 0;
  }
  Result<void> settle_unplaced(const std::string& series_unique_id,
                               const std::vector<std::pair<FrameNumber, FrameState>>& frames,
                               store::RowWriter*) override {
    auto list = nlohmann::json::array();
    for (const auto& [number, state] : frames) list.push_back({value(number), static_cast<int>(state)});
    if (list.empty()) return {};
    auto message = notice("blemishes", series_unique_id);
    message["frames"] = std::move(list);
    team_.tell(job::lead, message);
    return {};
  }

 private:
  static constexpr auto answer_patience = std::chrono::seconds(60);
  Team& team_;
};

}  // namespace

std::unique_ptr<FileRole> make_file_role(Team& team) {
  if (!team.leads()) return std::make_unique<MemberFile>(team);
  return std::make_unique<CoordinatorFile>(team.ranks());
}

}  // namespace penstock::recorder
