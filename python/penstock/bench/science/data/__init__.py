"""Data sets: made once per target, found again, verified, and removed by `penstock bench clean`."""
