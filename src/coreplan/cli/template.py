"""How much should a small shop order every evening? A first problem for coreplan, to be changed into yours.

coreplan plan my_problem.py:problem              a policy, what it earns, and what it is compared with
coreplan plan my_problem.py:problem --certify    and bounds on its value and on the best possible one
coreplan check my_problem.py:problem             what holds of the assumptions behind such bounds
python my_problem.py                             the same from Python, and the policy in words
python -m pytest my_problem.py                   the tests at the end of this file
"""

import numpy as np

import coreplan
from coreplan.problem import interpolation

# The state is what a decision needs to know: here one number, the units in stock this evening.
SHELF = 20  # more does not fit
ORDERS = np.array([0, 4, 8, 12])  # action 0 orders nothing, action 3 orders twelve units
PRICE, COST = 4.0, 2.0  # money per unit sold, and per unit bought
DELIVERY, KEEPING = 3.0, 0.1  # money per delivery, and per unit that is left in the evening
CUSTOMERS = 10  # each comes on every other day or so, wants one unit, and goes away if there is none


def initial(rng, n):
    """Where n runs of the process begin: anywhere between an empty shelf and a full one. [n, 1]"""
    return rng.integers(0, SHELF + 1, size=(n, 1)).astype(float)


def step(rng, states, actions):
    """One day from each of n pairs of a state and an action: the rewards [n], and the next states [n, 1].

    All arrays have the batch as their first axis, and all noise comes from `rng`: then the same seed gives the same bits.
    """
    ordered = ORDERS[actions]
    stock = np.minimum(states[:, 0] + ordered, SHELF)  # it arrives in the morning
    sold = np.minimum(stock, rng.binomial(CUSTOMERS, 0.5, size=len(stock)))
    left = stock - sold
    money = PRICE * sold - COST * ordered - DELIVERY * (ordered > 0) - KEEPING * left
    return money, left[:, None]


# Features describe a state by numbers. Here: how near it is to each of 21 nodes, 0, 1, ..., 20. Fewer nodes are coarser and
# cheaper. With two numbers per state write low=[0, 0], high=[20, 7], shape=[21, 8], and so on.
features = interpolation(low=[0.0], high=[float(SHELF)], shape=[SHELF + 1], n_actions=len(ORDERS))


def refill(states):
    """A rule of thumb to compare with: the order that brings the shelf nearest to twelve units."""
    return np.clip(np.rint((12 - states[:, 0]) / 4), 0, 3).astype(int)


problem = coreplan.Problem(
    coreplan.FunctionModel(n_actions=len(ORDERS), initial=initial, step=step),
    features,
    discount=0.9,  # money in a week is worth 0.9^7 = 48% of money now
    reward_range=(-30.0, 40.0),  # no day loses or earns more; the error for a reward outside says where
    baseline=("refill to twelve", refill),
    # What people call all this, for tables and the report. Optional.
    state_names=["units in stock"],
    action_names=["order nothing", "order 4", "order 8", "order 12"],
    reward_name="money",
)


def test_nothing_is_sold_that_is_not_there():
    states, actions = np.array([[0.0], [3.0], [20.0]]), np.array([0, 1, 3])
    money, left = step(np.random.default_rng(0), states, actions)
    assert money[0] == 0 and left[0] == 0  # an empty shelf and no order: nothing happens
    assert (left >= 0).all() and left[1] <= 7 and left[2] <= SHELF


def test_the_policy_orders_for_an_empty_shelf_and_not_for_a_full_one():
    policy = coreplan.plan(problem, epsilon="1%").policy
    empty, full = policy.probabilities(np.array([[0.0], [20.0]])) @ ORDERS  # units ordered on average
    assert empty > 4 and full < 1


if __name__ == "__main__":
    plan = coreplan.plan(problem, epsilon="1%", certify=True)
    print(plan)
    for stock in range(0, SHELF + 1, 2):
        print(f"{stock:2d} in stock: {problem.action_names[plan.policy.act(np.array([float(stock)]))]}")
