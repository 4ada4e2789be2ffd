"""All generators by name."""

from __future__ import annotations

from .commands import Commands, Processes
from .logs import Logs
from .misuse import Misuse
from .rule import Generator
from .simulators import Changes, CompiledSimulators, Simulators
from .stored import Files
from .tables import Tables

GENERATORS: dict[str, Generator] = {
    generator.name: generator
    for generator in (
        Simulators(),
        CompiledSimulators(),
        Changes(),
        Files(),
        Tables(),
        Logs(),
        Misuse(),
        Commands(),
        Processes(),
    )
}

# For `make test`: the planners that compile least, and of the others those whose state is richest.
SHORT: dict[str, Generator] = {
    **GENERATORS,
    "compiled": CompiledSimulators(("primal-dual", "plug-in")),
    "files": Files(("plug-in", "grow", "primal-dual")),
}
