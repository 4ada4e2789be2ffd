"""A run that is resumed on another machine, or with other libraries, than it was begun with."""

from __future__ import annotations

import warnings

from .._version import __version__
from ..base import CoreplanWarning, FileError, differences, machine
from ..run import RUN_FILE, RunFolder, read_record


def warn_if_elsewhere(folder: RunFolder) -> None:
    """Warn, once, if the folder's run.json tells of other libraries or another processor: the last bits may differ."""
    try:
        record = read_record(folder.path / RUN_FILE)
    except FileError:
        return  # the checkpoint is enough to go on
    before = record.get("machine")
    if not isinstance(before, dict):  # written before machines were recorded, or by somebody else
        return
    changed = differences(
        {"coreplan": record.get("coreplan"), **before}, {"coreplan": __version__, **machine()}
    )
    if changed:
        warnings.warn(
            f"The run in {folder.path} was begun elsewhere, and its last bits may differ from those of a run without "
            f"interruption: {'; '.join(changed)}.",
            CoreplanWarning,
            stacklevel=2,
        )
