"""Pages about runs: one self-contained HTML file, and the same page served while a run goes on."""

from .facts import Facts, facts_of
from .live import LiveView
from .sample import Sample, draw_sample, measure
from .write import write_report

__all__ = ["Facts", "LiveView", "Sample", "draw_sample", "facts_of", "measure", "write_report"]
