#include "recorder/series/accounting/meter.hpp"

namespace penstock::recorder {

void Meters::add(const Meters& other) {
  frames_received += other.frames_received;
  raw_bytes += other.raw_bytes;
  frames_written += other.frames_written;
  stored_bytes += other.stored_bytes;
  segments += other.segments;
  segment_bytes += other.segment_bytes;
  writing_ns += other.writing_ns;
  anomalies.add_anomalies(other.anomalies);
  missing_frames += other.missing_frames;
  compress.add(other.compress);
  latency.add(other.latency);
  waiting_frames += other.waiting_frames;
  waiting_segments += other.waiting_segments;
  index_segments += other.index_segments;
}

}  // namespace penstock::recorder
