"""The sciences' own workloads: jobs in processes, around the libraries that their users use (decision 54)."""
