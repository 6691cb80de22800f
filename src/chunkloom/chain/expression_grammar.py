"""What an expression may say: names, functions, operators and syntax on the list, and the check.

This module looks at syntax only; `expression` runs what passed.
"""

from __future__ import annotations

import ast
import re

import numpy as np

from chunkloom.errors import ParameterError, nearest

MAX_LENGTH = 500
MAX_EXPONENT = 64
MAX_INTEGER = 2**64
# How many arrays of the data's size may be alive at once while the expression is computed.
MAX_TEMPORARIES = 12
MAX_DEPTH = 60


def _words(text: str) -> list[str]:
    return text.split()


DTYPES = frozenset(
    _words("bool bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 int float")
)
CONSTANTS = frozenset({"e", "inf", "nan", "pi"})

_ONE_ARRAY = _words(
    """abs absolute arccos arcsin arctan cbrt ceil cos cosh deg2rad degrees exp exp2 expm1 fabs floor isfinite
    isinf isnan log log10 log1p log2 logical_not nan_to_num negative positive rad2deg radians reciprocal rint
    sign sin sinh sqrt square tan tanh trunc"""
)
_TWO_ARRAYS = _words(
    """add arctan2 divide floor_divide fmax fmin fmod hypot logical_and logical_or logical_xor maximum
    minimum mod multiply remainder subtract true_divide"""
)
# Positional arguments beyond these would be `out` (an array to write into) or `order`.
FUNCTIONS: dict[str, int] = {
    **dict.fromkeys(_ONE_ARRAY, 1),
    **dict.fromkeys(_TWO_ARRAYS, 2),
    "clip": 3,
    "where": 3,
    "round": 2,
    "full_like": 3,
    "ones_like": 2,
    "zeros_like": 2,
    **dict.fromkeys(("all", "any", "amax", "amin", "max", "median", "min", "ptp"), 2),
    **dict.fromkeys(("mean", "std", "sum", "var"), 3),
}
REDUCTIONS = frozenset(_words("all any amax amin max mean median min ptp std sum var"))
METHODS = {
    "astype": 1, "clip": 2, "max": 1, "mean": 2, "min": 1, "round": 1, "squeeze": 1, "std": 2, "sum": 2,
}  # fmt: skip
ATTRIBUTES = frozenset({"dtype", "ndim", "shape"})
KEYWORDS = frozenset({"axis", "keepdims", "dtype", "a_min", "a_max"})

_PLAIN_NODES = (
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.UnaryOp,
    ast.BoolOp,
    ast.IfExp,
    ast.Subscript,
    ast.Tuple,
    ast.List,
    ast.Slice,
    ast.Load,
)
_REFUSED_OPERATORS = (ast.MatMult, ast.Is, ast.IsNot, ast.In, ast.NotIn)


def checked_tree(text: str) -> ast.expr:
    """The syntax tree of `text`, of which every node is on the list.

    Raises
    ------
    ParameterError
        With the expression and the part of it that is not allowed.
    """
    if not text.strip():
        raise ParameterError("an expression must be text such as x*2-1, got nothing")
    if len(text) > MAX_LENGTH:
        raise ParameterError(f"an expression may have at most {MAX_LENGTH} characters, got {len(text)}: {text[:40]!r}…")
    # Python refuses such literals only above 4300 digits, after it has converted the shorter ones.
    if re.search(r"\d{100}", text.replace("_", "")):
        raise ParameterError(f"expression {text!r}: a number in it has more than 99 digits")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ParameterError(f"expression {text!r} is not a valid expression: {reason}") from None
    try:
        _check(tree, depth=0)
        _check_temporaries(tree)
    except ParameterError as error:
        raise ParameterError(f"expression {text!r}: {error}") from None
    return tree


def is_numpy(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "np"


def _check(node: ast.AST, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ParameterError(f"it is nested more than {MAX_DEPTH} levels deep")
    if isinstance(node, _REFUSED_OPERATORS):
        raise ParameterError(f"the operator {type(node).__name__} is not allowed")
    if isinstance(node, ast.Name):
        _check_name(node)
    elif isinstance(node, ast.Constant):
        _check_constant(node)
    elif isinstance(node, ast.BinOp):
        _check_arithmetic(node)
    elif isinstance(node, ast.Compare):
        if any(isinstance(side, (ast.List, ast.Tuple)) for side in (node.left, *node.comparators)):
            raise ParameterError("lists and tuples cannot be compared")
    elif isinstance(node, ast.Attribute):
        _check_attribute(node)
    elif isinstance(node, ast.Call):
        _check_call(node)
    elif not isinstance(node, _PLAIN_NODES):
        raise ParameterError(f"{type(node).__name__} is not allowed")
    for child in _children(node):
        _check(child, depth + 1)


def _children(node: ast.AST) -> list[ast.AST]:
    """The parts that need a check of their own: not `np` before a dot, nor the function of a call."""
    if isinstance(node, ast.Call):
        inside: list[ast.AST] = []
        if isinstance(node.func, ast.Attribute) and not is_numpy(node.func.value):
            inside.append(node.func.value)
        return [*inside, *node.args, *(keyword.value for keyword in node.keywords)]
    if isinstance(node, ast.Attribute):
        return [] if is_numpy(node.value) else [node.value]
    return list(ast.iter_child_nodes(node))


def _check_name(node: ast.Name) -> None:
    if node.id != "x":
        hint = f"write np.{node.id}(…)" if node.id in FUNCTIONS else "the data is called x"
        raise ParameterError(f"the name {node.id!r} is not allowed here; {hint}")


def _check_constant(node: ast.Constant) -> None:
    value = node.value
    if isinstance(value, str):
        if value not in DTYPES:
            raise ParameterError(f"text may only name a number type, not {value!r}")
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise ParameterError("a whole number in it is larger than 64 bits")
    elif value is not None and value is not Ellipsis and not isinstance(value, (int, float)):
        raise ParameterError(f"the constant {value!r} is not allowed")


def _check_arithmetic(node: ast.BinOp) -> None:
    if any(isinstance(side, (ast.List, ast.Tuple)) for side in (node.left, node.right)):
        raise ParameterError("lists and tuples cannot be part of arithmetic")
    if isinstance(node.op, (ast.Pow, ast.LShift)):
        right = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
        literal = isinstance(right, ast.Constant) and type(right.value) in (int, float)
        if not literal or abs(right.value) > MAX_EXPONENT:  # type: ignore[attr-defined]
            what = "an exponent" if isinstance(node.op, ast.Pow) else "a shift to the left"
            raise ParameterError(f"{what} must be a plain number of at most {MAX_EXPONENT}")


def _check_attribute(node: ast.Attribute) -> None:
    if is_numpy(node.value):
        if node.attr in FUNCTIONS:
            raise ParameterError(f"np.{node.attr} must be called: np.{node.attr}(…)")
        if node.attr not in DTYPES | CONSTANTS or not hasattr(np, node.attr):
            raise ParameterError(f"np.{node.attr} is not allowed; {nearest(node.attr, tuple(FUNCTIONS))}")
    elif node.attr not in ATTRIBUTES:
        raise ParameterError(f".{node.attr} is not allowed; known: {', '.join(sorted(ATTRIBUTES | set(METHODS)))}")


def _check_call(node: ast.Call) -> None:
    function = node.func
    if isinstance(function, ast.Name) and function.id == "abs":
        name, allowed = "abs", 1
    elif isinstance(function, ast.Attribute) and is_numpy(function.value):
        name = f"np.{function.attr}"
        is_dtype = function.attr in DTYPES and hasattr(np, function.attr)
        if function.attr not in FUNCTIONS and not is_dtype:
            raise ParameterError(f"{name} is not allowed; {nearest(function.attr, tuple(FUNCTIONS))}")
        allowed = 1 if is_dtype else FUNCTIONS[function.attr]
    elif isinstance(function, ast.Attribute) and function.attr in METHODS:
        name, allowed = f".{function.attr}", METHODS[function.attr]
    else:
        raise ParameterError(f"the call {ast.unparse(function)[:40]}(…) is not allowed")
    if len(node.args) > allowed:
        raise ParameterError(f"{name}(…) takes at most {allowed} arguments here, got {len(node.args)}")
    if name == "np.where" and len(node.args) != 3:  # with one argument it gives index arrays larger than the data
        raise ParameterError("np.where(…) takes three arguments here")
    if name in ("np.round", ".round"):  # NumPy multiplies by 10 as often as it is told
        _check_decimals(node.args[1:] if name == "np.round" else node.args)
    if name == "abs" and (len(node.args) != 1 or node.keywords):
        raise ParameterError("abs(…) takes one argument")
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            raise ParameterError("* before an argument is not allowed")
    for keyword in node.keywords:
        if keyword.arg not in KEYWORDS:
            raise ParameterError(f"the argument {keyword.arg}= is not allowed; known: {', '.join(sorted(KEYWORDS))}")


def _check_decimals(arguments: list[ast.expr]) -> None:
    for argument in arguments:
        number = argument.operand if isinstance(argument, ast.UnaryOp) else argument
        if not isinstance(number, ast.Constant) or type(number.value) is not int or number.value > MAX_EXPONENT:
            raise ParameterError(f"the decimals to round to must be a plain number of at most {MAX_EXPONENT}")


def _check_temporaries(tree: ast.expr) -> None:
    """Refuse an expression that holds many intermediate arrays at once, such as x+1+(x+1+(x+1+(…."""
    needed = _temporaries(tree)
    if needed > MAX_TEMPORARIES:
        raise ParameterError(
            f"it holds {needed} intermediate results at once (at most {MAX_TEMPORARIES}); write it with fewer brackets"
        )


def _temporaries(node: ast.AST) -> int:
    """Arrays alive at once while `node` is computed left to right, x itself not counted."""
    held, most = 0, 0
    for child in _children(node):
        needed = _temporaries(child)
        most = max(most, held + needed)
        held += 1 if needed else 0
    computes = isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.Subscript, ast.BoolOp))
    return max(most, held + 1) if computes else most
