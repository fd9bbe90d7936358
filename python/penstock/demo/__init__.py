"""The demonstration: detector to NeXus file and back, in one command."""

from penstock.demo.run import DemoOptions, demo_options, run_demo
from penstock.demo.summary import Summary, summary_page

__all__ = ["DemoOptions", "Summary", "demo_options", "run_demo", "summary_page"]
