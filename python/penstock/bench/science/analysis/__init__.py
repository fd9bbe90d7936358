"""Event analysis: jobs that read ROOT files with uproot, as skims and navigating analyses do (B5)."""
