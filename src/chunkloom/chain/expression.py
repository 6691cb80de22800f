"""NumPy expressions in `x` that are safe to take from a URL: checked when made, bounded in memory when run.

Expressions arrive in layer URLs on servers that listen on every interface, so nothing here calls `eval`. The
text is parsed to a syntax tree, every node must be on a list (`expression_grammar`), and the tree is walked
by our own evaluator, which knows the shape of each result before it is computed and refuses what would be
larger than the data.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chunkloom.chain import expression_grammar as grammar
from chunkloom.errors import ParameterError

# An integer this large cannot meet any array's dtype, and growing ones are how `9**9**9` fills the memory.
_LARGEST_INTEGER = 2**64
# Results from literals and from reductions may be this large however small the data is.
_SMALL_RESULT = 512
# Shapes to try an expression on when it is made: image and channel-first data, large enough for growth to
# show.
_PROBE_SHAPES = ((11, 13, 17), (2, 11, 13, 17))


class _TooLargeError(ParameterError):
    """The result of some part of the expression would be larger than the data."""


@dataclass(frozen=True)
class SafeExpression:
    """A checked expression. Make one with `parse`; call it with an array.

    Allowed are the name `x`, numbers, arithmetic, comparisons, bit operations, `and`, `or`, `not`, `a if c
    else b`, subscripts, about sixty NumPy functions as `np.name(…)`, and a few array methods and attributes.
    Powers take a literal exponent of at most 64.
    """

    text: str
    _tree: ast.expr

    @staticmethod
    def parse(text: str) -> SafeExpression:
        """The expression of `text`.

        Raises
        ------
        ParameterError
            If it is not one, uses what is not allowed, or would need much more memory than the data.
        """
        if not isinstance(text, str):
            raise ParameterError(f"an expression must be text such as x*2-1, got {text!r}")
        return _parse_cached(text)

    def __call__(self, x: NDArray[Any]) -> Any:
        """The value for `x`: usually an array of its shape. `x` is not written to.

        Raises
        ------
        ParameterError
            If it cannot be computed on data of this shape or dtype.
        """
        view = x.view()
        view.setflags(write=False)
        try:
            with np.errstate(all="ignore"):
                return _Evaluator(view).value(self._tree)
        except ParameterError as error:
            raise type(error)(f"expression {self.text!r}: {error}") from None
        except (ValueError, TypeError, IndexError, ArithmeticError, AttributeError) as error:
            raise ParameterError(
                f"expression {self.text!r} cannot be computed on data of shape {x.shape} and dtype {x.dtype}: {error}"
            ) from error


@lru_cache(maxsize=256)
def _parse_cached(text: str) -> SafeExpression:
    expression = SafeExpression(text, grammar.checked_tree(text))
    failure: ParameterError | None = None
    fits = False
    for shape in _PROBE_SHAPES:
        try:
            expression(np.ones(shape, np.float32))
        except _TooLargeError:
            raise
        except ParameterError as error:
            # A missing index may be there in the real data, and what fails on one shape may fit another.
            failure = None if isinstance(error.__cause__, IndexError) else error
        else:
            failure = None
        fits = fits or failure is None
    if failure is not None and not fits:
        raise failure
    return expression


def looks_beyond_a_voxel(text: str) -> bool:
    """Whether a valid expression takes more than the one voxel into account: reductions, indices, shapes."""
    beyond = grammar.REDUCTIONS | {"shape"}
    return any(
        isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in beyond)
        for node in ast.walk(ast.parse(text, mode="eval"))
    )


def apply_to_array(text: str, data: NDArray[Any]) -> NDArray[Any]:
    """The expression `text` on `data` as float32; the result must have the shape of the data."""
    result = np.asarray(SafeExpression.parse(text)(data.astype(np.float32, copy=False)))
    if result.shape != data.shape:
        raise ParameterError(
            f"expression {text!r} turns data of shape {data.shape} into shape {result.shape}; it must keep the shape"
        )
    return result.astype(np.float32, copy=False)


def _power(base: Any, exponent: Any) -> Any:
    return base**exponent


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


class _Evaluator:
    """Walks a checked tree. Every array operation is preceded by a look at the shape of its result."""

    def __init__(self, x: NDArray[Any]) -> None:
        self._x = x
        self._largest = max(x.size, _SMALL_RESULT)

    def value(self, node: ast.expr) -> Any:
        return getattr(self, f"_{type(node).__name__.lower()}")(node)

    def _name(self, node: ast.Name) -> Any:
        return self._x

    def _constant(self, node: ast.Constant) -> Any:
        return node.value

    def _tuple(self, node: ast.Tuple) -> Any:
        return tuple(self._plain(self.value(item)) for item in node.elts)

    def _list(self, node: ast.List) -> Any:
        return [self._plain(self.value(item)) for item in node.elts]

    def _binop(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        self._check_operands(left, right)
        if _is_integer(left) and _is_integer(right):
            _check_integers(node.op, left, right)
        return _BINARY[type(node.op)](left, right)

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        operand = self.value(node.operand)
        self._check_operands(operand)
        return _UNARY[type(node.op)](operand)

    def _compare(self, node: ast.Compare) -> Any:
        left, result = self.value(node.left), True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node)
            self._check_operands(left, right)
            result = result and _COMPARE[type(op)](left, right)
            left = right
        return result

    def _boolop(self, node: ast.BoolOp) -> Any:
        result: Any = None
        for item in node.values:
            result = self.value(item)
            if bool(result) is isinstance(node.op, ast.Or):
                break
        return result

    def _ifexp(self, node: ast.IfExp) -> Any:
        return self.value(node.body if self.value(node.test) else node.orelse)

    def _attribute(self, node: ast.Attribute) -> Any:
        if grammar.is_numpy(node.value):
            return getattr(np, node.attr)
        return getattr(self._array(node.value), node.attr)

    def _subscript(self, node: ast.Subscript) -> Any:
        base, index = self.value(node.value), self._index(node.slice)
        if isinstance(base, (tuple, list)):
            return base[index]
        items = index if isinstance(index, tuple) else (index,)
        for item in items:
            if isinstance(item, np.ndarray) and not (len(items) == 1 and item.dtype == bool):
                raise ParameterError("an array can index only alone and as a mask of bool")
            # A list repeats what it names: with [0, 0, 0, …] a small array becomes a large one.
            if isinstance(item, list) and (item is not items[0] or len(item) > len(base)):
                raise _TooLargeError("a list of indices must come first and be no longer than its axis")
        return base[index]

    def _index(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Slice):
            parts = (node.lower, node.upper, node.step)
            return slice(*(None if part is None else self.value(part) for part in parts))
        if isinstance(node, ast.Tuple):
            return tuple(self._index(item) for item in node.elts)
        return self.value(node)

    def _call(self, node: ast.Call) -> Any:
        keywords = {str(k.arg): self.value(k.value) for k in node.keywords}
        function = node.func
        if isinstance(function, ast.Name):  # abs
            operand = self.value(node.args[0])
            self._check_operands(operand)
            return abs(operand)
        assert isinstance(function, ast.Attribute)
        if not grammar.is_numpy(function.value):
            owner = self._array(function.value)
            arguments = [self.value(argument) for argument in node.args]
            if function.attr == "clip":
                self._check_operands(owner, *(a for a in (*arguments, *keywords.values()) if a is not None))
            return getattr(owner, function.attr)(*arguments, **keywords)
        arguments = [self.value(argument) for argument in node.args]
        if function.attr not in grammar.REDUCTIONS:
            operands = (*arguments, *keywords.values())
            self._check_size(*(a for a in operands if isinstance(a, (np.ndarray, list))))
        return getattr(np, function.attr)(*arguments, **keywords)

    def _array(self, node: ast.expr) -> Any:
        owner = self.value(node)
        if not isinstance(owner, (np.ndarray, np.generic)):
            raise ParameterError(f"{ast.unparse(node)} is no array")
        return owner

    def _plain(self, item: Any) -> Any:
        if isinstance(item, (np.ndarray, list)):
            raise _TooLargeError("a list or tuple can hold only numbers")
        return item

    def _check_operands(self, *operands: Any) -> None:
        for operand in operands:
            if not isinstance(operand, (np.ndarray, np.generic, bool, int, float)):
                raise ParameterError(f"cannot compute with {operand!r}")
        self._check_size(*(operand for operand in operands if isinstance(operand, np.ndarray)))

    def _check_size(self, *arrays: Any) -> None:
        """Refuse what would broadcast to more elements than the data has."""
        if len(arrays) < 2:
            return
        shape = np.broadcast_shapes(*(np.shape(array) for array in arrays))
        size = int(np.prod(shape, dtype=object))
        if size > self._largest:
            raise _TooLargeError(
                f"a part of it would have {size} elements (shape {tuple(int(n) for n in shape)}) where the "
                f"data has {self._x.size}; reduce first, or leave out the new axes"
            )


def _is_integer(value: Any) -> bool:
    return isinstance(value, int)


def _check_integers(op: ast.operator, left: int, right: int) -> None:
    """Refuse an operation on Python's unbounded integers whose result is out of any array's range."""
    if isinstance(op, ast.LShift):
        size = abs(left).bit_length() + max(0, right)
    elif isinstance(op, ast.Pow):
        size = abs(left).bit_length() * max(1, right)
    else:
        size = max(abs(left).bit_length(), abs(right).bit_length())
        if isinstance(op, ast.Mult):
            size = abs(left).bit_length() + abs(right).bit_length()
    if size > 2 * _LARGEST_INTEGER.bit_length():
        raise _TooLargeError("a whole number in it is larger than 64 bits")
