#include "load/plan_hdf5.hpp"

namespace penstock::load {

Result<Hdf5Plan> read_hdf5(Fields& fields) {
  Hdf5Plan plan;
  PEN_ASSIGN(plan.folder, read_folder(fields));
  PEN_ASSIGN(plan.shared, fields.flag("shared", false));
  PEN_ASSIGN(plan.collective, fields.flag("collective", false));
  if (plan.collective && !plan.shared) return fields.wrong("collective", "false where each rank has a file of its own");
  PEN_ASSIGN(plan.chunk_bytes, fields.whole("chunk_bytes", 0, 0, std::uint64_t{1} << 30));
  PEN_ASSIGN(const auto deflate, fields.whole("deflate", 0, 0, 9));
  if (deflate > 0 && plan.chunk_bytes == 0) return fields.wrong("deflate", "0 without chunk_bytes");
  if (deflate > 0 && plan.shared && !plan.collective)
    return fields.wrong("deflate", "0 where ranks write one file independently: HDF5 compresses only together");
  plan.deflate = static_cast<unsigned>(deflate);
  return plan;
}

Json to_json(const Hdf5Plan& plan, std::string_view sync) {
  return {{"kind", "hdf5"},         {"folder", plan.folder},         {"sync", sync},
          {"shared", plan.shared},  {"collective", plan.collective}, {"chunk_bytes", plan.chunk_bytes},
          {"deflate", plan.deflate}};
}

Result<void> check_workload(const Hdf5Plan& plan, const StreamPlan& stream) {
  if (stream.shared)
    return make_error(Errc::invalid_argument,
                      "workload.shared is true, expected false: with this backend.kind it is backend.shared");
  if (plan.shared && stream.threads != 1)
    return make_error(Errc::invalid_argument, "workload.threads is {}, expected 1 with a shared HDF5 file: more ranks",
                      stream.threads);
  // Forcing a shared file to storage is a call that all ranks make together.
  if (plan.shared && !plan.collective && plan.sync == Sync::each)
    return make_error(Errc::invalid_argument,
                      "backend.sync is \"each\", expected none or end where ranks write one file independently");
  // A chunk that is written in parts is read and written again for each.
  if (plan.chunk_bytes > 0 && stream.transfer_bytes % plan.chunk_bytes != 0)
    return make_error(Errc::invalid_argument, "workload.transfer_bytes is {}, expected a multiple of {} (chunk_bytes)",
                      stream.transfer_bytes, plan.chunk_bytes);
  return {};
}

}  // namespace penstock::load
