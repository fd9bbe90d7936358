"""Jobs: processes of one workload, which begin together and are stopped together."""
