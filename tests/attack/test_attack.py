"""A few hundred inputs of every generator; `benchmarks/attack.py` does as many as it is told."""

from __future__ import annotations

import pytest

from helpers.attack import SHORT, Attack

INPUTS = {
    "simulators": 60,
    "compiled": 30,
    "changes": 8,
    "files": 250,
    "tables": 60,
    "logs": 150,
    "misuse": 500,
    "commands": 100,
}


@pytest.mark.parametrize("name", INPUTS)
def test_every_answer_keeps_the_rule(name, tmp_path):
    attack = Attack(SHORT[name], tmp_path)
    attack.generator.warm_up()
    attack.run(range(INPUTS[name]))
    assert sum(attack.totals.values()) == INPUTS[name]
    assert attack.findings == [], f"repeat: python benchmarks/attack.py --only {name} --seed ..."
