"""The rule notices what it is there to notice, and puts it down to the right input."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

from coreplan import InputError
from helpers.attack import Attack, Input, Wrong, answer, one_input


class Spoilt:
    """A generator whose input number 3 does what it is told, and whose others are right."""

    name, share = "spoilt", 1.0

    def __init__(self, act):
        self.act = act

    def warm_up(self):
        pass

    def attack(self, given: Input) -> str:
        given.note("an input")
        if given.folder.name.endswith("-3"):
            return self.act()
        return "right"


def _wrong():
    raise Wrong("lost", "five pairs")


def _foreign():
    return {}["nothing"]


def _long():
    def call():
        raise InputError.__new__(InputError, "x" * 2_000)

    return answer(call)


def _exits():
    raise SystemExit(0)


def _crashes():
    os.kill(os.getpid(), signal.SIGKILL)


def _grows():
    return "right" if np.ones(90 << 20).all() else ""


def _spins():
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    return "right"


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (_wrong, "lost"),
        (_foreign, "KeyError"),
        (_long, "long message"),
        (_exits, "SystemExit"),
        (_crashes, "crash"),
        (_grows, "memory"),
    ],
)
def test_the_rule_notices(act, kind, tmp_path):
    attack = Attack(Spoilt(act), tmp_path)
    attack.run(range(6))
    assert attack.totals == {"right": 5, kind: 1}
    assert [(f.seed, f.kind) for f in attack.findings] == [(3, kind)]


def test_what_takes_too_long_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr("helpers.attack.rule.SECONDS", 0.1)
    attack = Attack(Spoilt(_spins), tmp_path)
    attack.run(range(6))
    assert [(f.seed, f.kind) for f in attack.findings] == [(3, "slow")]


def test_what_hangs_is_killed_and_the_rest_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr("helpers.attack.workers.HANG", 0.5)
    attack = Attack(Spoilt(lambda: time.sleep(60)), tmp_path)
    attack.run(range(6))
    assert attack.totals == {"right": 5, "hang": 1}
    assert attack.findings[0].seed == 3


def test_an_input_is_the_same_every_time(tmp_path):
    class Draws(Spoilt):
        def attack(self, given):
            seen.append(given.rng.integers(1 << 60))
            return "right"

    seen: list[int] = []
    for seed in (4, 5, 4):
        one_input(Draws(None), seed, tmp_path)
    assert seen[0] == seen[2] != seen[1]
    assert list(tmp_path.iterdir()) == []
