"""`Picture`: a figure of Matplotlib that a notebook shows and that a journal takes. Imported when a figure is made."""

from __future__ import annotations

import io
from typing import Any

import matplotlib
from matplotlib.figure import Figure

# Fonts are embedded as TrueType, since journals refuse Type 3; the same plan gives the same bytes of SVG.
_FILES: Any = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.hashsalt": "coreplan"}
_DPI = 300


class Picture(Figure):
    """A figure without a window. `savefig("name.pdf")`, or .svg, .eps, .png, writes it fit for a paper."""

    def savefig(self, fname: Any, **options: Any) -> None:
        """As Matplotlib's, with fonts that journals take and 300 dots per inch where there are dots."""
        with matplotlib.rc_context(_FILES):
            super().savefig(fname, **{"dpi": _DPI, **options})

    def _repr_svg_(self) -> str:
        """How a notebook shows it."""
        page = io.StringIO()
        self.savefig(page, format="svg", metadata={"Date": None})
        return page.getvalue()
