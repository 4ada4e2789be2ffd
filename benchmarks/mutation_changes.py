"""The small changes of a module's source that mutation testing makes: see mutation.py."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator
from typing import NamedTuple

OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}  # fmt: skip
SWAPS = [
    ("min", "max"), ("argmin", "argmax"), ("minimum", "maximum"), ("floor", "ceil"), ("any", "all"),
    ("zeros", "ones"), ("sum", "max"), ("mean", "sum"), ("abs", "float"), ("exp", "sqrt"), ("log", "sqrt"),
    ("hstack", "vstack"), ("lower", "upper"),
]  # fmt: skip
FUNCTIONS = {a: b for pair in SWAPS for a, b in (pair, pair[::-1])} | {"sqrt": "exp", "float": "float"}


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the node's place."""
    match node:
        case ast.BinOp(op=op) if type(op) in OPERATORS:
            yield ast.BinOp(node.left, OPERATORS[type(op)](), node.right)
        case ast.AugAssign(op=op) if type(op) in OPERATORS:
            yield ast.AugAssign(node.target, OPERATORS[type(op)](), node.value)
            yield ast.Pass()
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            yield node.operand
        case ast.Compare(ops=[op]):
            for other in COMPARISONS[type(op)]:
                yield ast.Compare(node.left, [other()], node.comparators)
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(2 * value if value else 1.0)
        case ast.Name(id=name) if FUNCTIONS.get(name, name) != name:
            yield ast.Name(FUNCTIONS[name], node.ctx)
        case ast.Attribute(attr=name) if FUNCTIONS.get(name, name) != name:
            yield ast.Attribute(node.value, FUNCTIONS[name], node.ctx)
        case ast.If() | ast.IfExp():
            for value in (True, False):
                changed = copy.copy(node)
                changed.test = ast.Constant(value)
                yield changed
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]) | ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def left_alone(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that no mutant changes: annotations, decorators, what errors say."""
    match node:
        case ast.FunctionDef():
            yield from (*node.decorator_list, node.returns or ast.Pass())
        case ast.ClassDef():
            yield from node.decorator_list
        case ast.arg() | ast.AnnAssign():
            yield node.annotation or ast.Pass()
        case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.ImportFrom():
            yield node
        case ast.Call(func=ast.Name(id=name)) if name in (
            "TypeVar",
            "_group",
            "group",
            "InputError",
            "_refuse",
        ):
            yield node
        case ast.Subscript(value=ast.Name(id="Callable" | "Literal" | "tuple" | "dict" | "list")):
            yield node


class Place(NamedTuple):
    """A way to change a tree: the `variant`th of the node with this number in `ast.walk`."""

    number: int
    variant: int


def places(tree: ast.Module) -> dict[int, int]:
    """The numbers of the nodes that can be changed, and how many ways each has."""
    nodes = list(ast.walk(tree))
    alone: set[int] = set()
    for node in nodes:
        for top in left_alone(node):
            alone |= {id(below) for below in ast.walk(top)}
    return {
        i: n for i, node in enumerate(nodes) if id(node) not in alone and (n := len(list(variants(node))))
    }


def mutate(tree: ast.Module, place: Place) -> str:
    """The mutant's source."""
    tree = copy.deepcopy(tree)
    target = list(ast.walk(tree))[place.number]
    new = list(variants(target))[place.variant]
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is target:
                setattr(parent, name, new)
            elif isinstance(value, list) and any(v is target for v in value):
                setattr(parent, name, [new if v is target else v for v in value])
    return ast.unparse(ast.fix_missing_locations(tree))


def possible(tree: ast.Module) -> dict[str, Place]:
    """Every change of this tree, by its words: `function: before -> after`, with a number where two would be the same.

    No line number, so that what was found stays found when another part of the module changes.
    """
    nodes, home, found = list(ast.walk(tree)), _homes(tree), dict[str, Place]()
    for i in places(tree):
        for k, new in enumerate(variants(nodes[i])):
            words = f"{home.get(id(nodes[i]), 'module')}: {_words(nodes[i])} -> {_words(new)}"
            n = next(n for n in range(1, len(nodes)) if (words if n == 1 else f"{words} [{n}]") not in found)
            found[words if n == 1 else f"{words} [{n}]"] = Place(i, k)
    return found


def _homes(tree: ast.Module) -> dict[int, str]:
    """By the number of a node's object, the function or class that it stands in."""
    found: dict[int, str] = {}

    def below(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            if name:
                found[id(child)] = name
            inner = isinstance(child, ast.FunctionDef | ast.ClassDef)
            below(child, f"{name}.{child.name}".lstrip(".") if inner else name)

    below(tree, "")
    return found


def chosen(ways: dict[int, int], sample: int, seed: str) -> list[Place]:
    """A random sample of the places, one way each; a larger sample begins with a smaller one."""
    rng, order = random.Random(seed), sorted(ways)
    rng.shuffle(order)
    return [Place(i, random.Random(f"{seed}:{i}").randrange(ways[i])) for i in order[:sample]]


def _words(node: ast.AST) -> str:
    if isinstance(node, ast.If):
        return f"if {ast.unparse(node.test)}:"
    return ast.unparse(node).replace("\n", " ")[:100]
