"""How Sphinx makes the site: `make docs`.

The source folder is the repository's root, so that the links between docs/, README.md and benchmarks/results/ are the
same on the site and in the repository. What is a page is listed in `include_patterns`.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "docs")]

from coreplan import __version__  # noqa: E402

project = "coreplan"
author = "the coreplan authors"
version = release = __version__
root_doc = "docs/index"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**.md", "benchmarks/results/**.md"]
exclude_patterns = [".*", "build", "dist", "runs", "src", "tests", "**/__pycache__"]  # not even looked into

extensions = ["myst_nb", "sphinx.ext.autodoc", "api_pages"]
nitpicky = True
# Annotations name types of other libraries, and type variables, of which the site has no page.
nitpick_ignore_regex = [("py:.*", ".*")]
suppress_warnings = [
    "ref.python"
]  # `Status` in an annotation: at the top and in its part, which are the same

myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
myst_links_external_new_tab = False

# Notebooks are MyST text and are executed every time: what a page shows is what the code gives today.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = 600  # seconds per cell, on a busy machine
nb_execution_in_temp = True
nb_merge_streams = True

html_theme = "furo"
html_title = f"coreplan {version}"
html_copy_source = False
html_show_sphinx = False
html_extra_path = ["_site"]
html_theme_options = {"navigation_with_keys": True}

linkcheck_anchors = False
linkcheck_retries = 2
