"""The out-of-core sort of seismic traces: `penstock bench seismic-sort` (B7)."""
