"""Makes `ops/*.json`: what ops make of a volume, told from the whole array by NumPy and SciPy.

Run `python tests/conformance/make_op_cases.py` to write the cases, with `--check` to compare only.
"""

from __future__ import annotations

import argparse
import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import make_materialize_cases as whole
import numpy as np
from scipy import ndimage

FOLDER = Path(__file__).parent / "ops"
Array = np.ndarray[Any, Any]


def per_channel(of: Callable[[Array], Array], x: Array) -> Array:
    return np.stack([of(channel) for channel in x])


def box(x: Array, size: int, *extremes: str) -> Array:
    """The extreme in a box around each voxel, once for each word. The border voxel is repeated beyond it."""
    reach = len(extremes) * (size // 2)
    x = np.pad(x, [(0, 0), *[(reach, reach)] * 3], mode="edge")
    for extreme in extremes:
        windows = np.lib.stride_tricks.sliding_window_view(x, (size,) * 3, axis=(1, 2, 3))
        x = getattr(windows, extreme)(axis=(4, 5, 6))
    return x


def threshold(x: Array, low: float, high: float = np.inf) -> Array:
    return ((x >= low) & (x <= high)).astype(np.uint8)


def invert(x: Array) -> Array:
    if x.dtype.kind == "b":
        return ~x
    if x.dtype.kind == "f":
        return (1 - x).astype(x.dtype)
    limits = np.iinfo(x.dtype)
    return np.array([limits.max - (int(v) - limits.min) for v in x.ravel()], x.dtype).reshape(x.shape)


def labels(x: Array) -> Array:
    return per_channel(lambda c: ndimage.label(c)[0].astype(np.uint64), x)


def standardized(x: Array) -> Array:
    # Statistics are frozen to nine significant digits before they are used.
    mean, std = (float(f"{float(v):.9g}") for v in (x.mean(dtype=np.float64), x.std(dtype=np.float64)))
    return (x.astype(np.float32) - np.float32(mean)) / np.float32(std)


def between_percentiles(x: Array, low_percent: float, high_percent: float) -> Array:
    low, high = (float(f"{float(np.percentile(x, p)):.9g}") for p in (low_percent, high_percent))
    return whole.min_max(x, low, high)


def lambda_(x: Array, expression: str) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(eval(expression, {"np": np, "x": x.astype(np.float32)})).astype(np.float32)


OPS: dict[str, Callable[..., Array]] = whole.OPS | {
    "gaussian": lambda x, sigma: per_channel(
        lambda c: ndimage.gaussian_filter(c.astype(np.float32), sigma, mode="nearest"), x
    ),
    "dilate": lambda x, size: box(x, size, "max"),
    "erode": lambda x, size: box(x, size, "min"),
    "open": lambda x, size: box(x, size, "min", "max"),
    "close": lambda x, size: box(x, size, "max", "min"),
    "threshold": threshold,
    "clip": lambda x, low, high: np.clip(whole.working(x), low, high),
    "scale": lambda x, factor, offset=0.0: whole.working(x) * factor + offset,
    "invert": invert,
    "channels": lambda x, channels: x[channels] if isinstance(channels, list) else x[[channels]],
    "expression": lambda x, expression: lambda_(x, expression),
    "label": labels,
    "WholeVolumeStandardizer": standardized,
    "WholeVolumePercentile": between_percentiles,
    "LambdaNormalizer": lambda_,
    "LambdaPostprocessor": lambda_,
}


def keeps_axis(ops: Sequence[dict[str, Any]]) -> bool:
    """One channel chosen as a number loses the channel axis."""
    return not any(op["name"] == "channels" and isinstance(op["channels"], int) for op in ops)


CASES: list[dict[str, Any]] = []
SMALL = whole.level((9, 11, 10), (4, 5, 6))


def case(
    name: str,
    about: str,
    *ops: dict[str, Any],
    src: dict[str, Any] | None = None,
    tolerance: float = 0,
    compare: str = "values",
) -> None:
    src = src or whole.source(SMALL)
    x = whole.whole_array(src, 0)
    for op in ops:
        x = OPS[op["name"]](x, **{k: v for k, v in op.items() if k != "name"})
    raw = np.ascontiguousarray(x).astype(x.dtype.newbyteorder("<")).tobytes()
    CASES.append(
        {
            "name": name,
            "about": about,
            "source": src,
            "ops": [*ops],
            "tolerance": tolerance,
            "compare": compare,
            "expected": {
                "dtype": x.dtype.name,
                "channels": [x.shape[0]] if src["channels"] and keeps_axis(ops) else [],
                "values": base64.b64encode(raw).decode(),
            },
        }
    )


def lambdas() -> Sequence[str]:
    return (
        "x*2-1",
        "-x**2 + 3*x - 1",
        "(x - 5) / 7 // 2",
        "x % 7 - (-x) % 5",
        "np.where(x > 100, np.sqrt(x), -np.log1p(x))",
        "np.clip(x, 20, 90.5) / 255",
        "(x > 50) & (x <= 120) | (x == 3)",
        "(x > 100) * 2.5 + ~(x > 30)",
        "np.abs(np.sin(x / 10)) + np.maximum(x, 7) * 1e-3",
        "x.clip(10, 200).astype('int') % 3",
        "np.exp(-x/50) + np.e - np.pi",
        "2**-3 * x + 1.5e2",
        "np.rint(x / 4) + np.trunc(-x / 3) + np.round(x / 8)",
        "abs(x - 128)",
        "np.nan_to_num(x / (x - 5))",
        "np.logical_and(x > 3, x < 200)",
    )


def make_cases() -> None:
    float_source = whole.source(SMALL, dtype="float32", subtract=125, divisor=64)
    mask = whole.source(SMALL, factors=[0, 37, 59, 83, 0], modulus=97, subtract=0)
    case(
        "gaussian",
        "SciPy's Gaussian over chunk edges and volume faces.",
        {"name": "gaussian", "sigma": 1.5},
        tolerance=2e-5,
    )
    case(
        "gaussian-per-axis",
        "A sigma for each axis, 0 leaves one alone.",
        {"name": "gaussian", "sigma": [0.7, 0, 2]},
        tolerance=2e-5,
    )
    case(
        "gaussian-wider-than-the-volume",
        "A kernel longer than the volume.",
        {"name": "gaussian", "sigma": 5},
        tolerance=2e-5,
    )
    case(
        "gaussian-channels-float32",
        "Each channel by itself.",
        {"name": "gaussian", "sigma": 1},
        src=whole.source(SMALL, dtype="float32", channels=(2,), subtract=125, divisor=64),
        tolerance=1e-5,
    )
    case(
        "gaussian-threshold",
        "Smoothed, then cut.",
        {"name": "gaussian", "sigma": 1},
        {"name": "ThresholdPostprocessor", "threshold": 120.003},
    )
    case(
        "two-gaussians",
        "A halo on a halo.",
        {"name": "gaussian", "sigma": 1},
        {"name": "gaussian", "sigma": 0.8},
        tolerance=4e-5,
    )
    for name in ("dilate", "erode", "open", "close"):
        case(f"{name}-3", f"{name} with a cube of 3.", {"name": name, "size": 3})
    case(
        "dilate-5-uint64",
        "64-bit values stay exact.",
        {"name": "dilate", "size": 5},
        src=whole.source(SMALL, dtype="uint64", scale="73000000000000001"),
    )
    case("open-float32", "Grey morphology of floats.", {"name": "open", "size": 3}, src=float_source)
    case(
        "threshold-dilate",
        "A mask, grown.",
        {"name": "ThresholdPostprocessor", "threshold": 240},
        {"name": "dilate", "size": 3},
    )
    case(
        "threshold-label",
        "Objects over chunk edges are one: ids are compared as a partition.",
        {"name": "ThresholdPostprocessor", "threshold": 40},
        {"name": "label"},
        src=mask,
        compare="partition",
    )
    case(
        "sigmoid-of-z-scores",
        "Far from 0 on both sides.",
        {"name": "ZScoreNormalizer", "mean": 120.5, "std": 3.25},
        {"name": "SigmoidPostprocessor"},
        tolerance=1e-6,
    )
    case(
        "channel-selection",
        "As the older step names channels, in the order given; then any expression after a model.",
        {"name": "ChannelSelection", "channels": "2,0"},
        {"name": "LambdaPostprocessor", "expression": "np.sqrt(x) * 2 - 1"},
        src=whole.source(SMALL, channels=(3,)),
        tolerance=1e-6,
    )
    case(
        "standardize",
        "Mean and standard deviation of the whole volume.",
        {"name": "WholeVolumeStandardizer"},
        tolerance=1e-5,
    )
    case(
        "percentile",
        "Two percentiles of the whole volume.",
        {"name": "WholeVolumePercentile", "low_percent": 2, "high_percent": 97.5},
        tolerance=1e-5,
    )
    case(
        "gaussian-standardize",
        "Statistics of what the op before leaves.",
        {"name": "gaussian", "sigma": 1},
        {"name": "WholeVolumeStandardizer"},
        tolerance=2e-5,
    )
    for i, expression in enumerate(lambdas()):
        case(
            f"lambda-{i:02}",
            expression,
            {"name": "LambdaNormalizer", "expression": expression},
            tolerance=1e-5,
        )
    case(
        "min-max-uint32",
        "A uint32 is not rounded before its minimum is taken off.",
        {"name": "MinMaxNormalizer", "min_value": 4e9, "max_value": 4e9 + 250},
        src=whole.source(SMALL, dtype="uint32", subtract=-4_000_000_000),
        tolerance=1e-5,
    )
    case(
        "default-postprocessor-float",
        "Clip, bias, multiply, truncate.",
        {"name": "DefaultPostprocessor", "clip_min": -1, "clip_max": 1, "bias": 1, "multiplier": 127.5},
        src=float_source,
    )
    case(
        "cast-float-to-uint8",
        "Half to even, saturated.",
        {"name": "cast", "dtype": "uint8"},
        src=whole.source(SMALL, dtype="float32", subtract=60, scale="5", divisor=2),
    )
    case(
        "cast-to-int16",
        "Narrower, saturated.",
        {"name": "cast", "dtype": "int16"},
        src=whole.source(SMALL, dtype="int32", subtract=125, scale="700"),
    )
    case("cast-to-float64", "Exact.", {"name": "cast", "dtype": "float64"})
    case("cast-to-bool", "Not 0.", {"name": "cast", "dtype": "bool"}, src=whole.source(SMALL, modulus=3))


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Equal but for the last digits of floats, which differ between releases of the libraries."""
    if {k: v for k, v in a.items() if k != "expected"} != {k: v for k, v in b.items() if k != "expected"}:
        return False
    x, y = (np.frombuffer(base64.b64decode(c["expected"]["values"]), c["expected"]["dtype"]) for c in (a, b))
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    return bool(
        np.allclose(x, y, rtol=1e-6, atol=1e-6, equal_nan=True) if x.dtype.kind == "f" else np.array_equal(x, y)
    )


def arithmetic_cases() -> None:
    floats = whole.source(SMALL, dtype="float32", subtract=125, divisor=64)
    ids = whole.source(SMALL, dtype="uint64", kind="labels", scale="73000000000000001")
    three = whole.source(SMALL, channels=(3,))
    case("threshold-inclusive", "At least 100.", {"name": "threshold", "low": 100})
    case("threshold-between", "At least 40.5, at most 100.", {"name": "threshold", "low": 40.5, "high": 100})
    case("threshold-float", "Float values on the limit count.", {"name": "threshold", "low": 0.25}, src=floats)
    case(
        "clip-scale-cast",
        "To uint8, rounded half to even.",
        {"name": "clip", "low": -1, "high": 1},
        {"name": "scale", "factor": 127.5, "offset": 127.5},
        {"name": "cast", "dtype": "uint8"},
        src=floats,
    )
    case(
        "scale-int32",
        "32-bit integers are scaled in float64.",
        {"name": "scale", "factor": 0.1, "offset": 3},
        src=whole.source(SMALL, dtype="int32", subtract=125, scale="16777216"),
    )
    case("invert-uint8", "255 minus the value.", {"name": "invert"})
    case(
        "invert-int16",
        "Signed.",
        {"name": "invert"},
        src=whole.source(SMALL, dtype="int16", subtract=125, scale="257"),
    )
    case("invert-uint64", "64-bit, exact.", {"name": "invert"}, src=ids)
    case(
        "invert-bool",
        "Not.",
        {"name": "invert"},
        src=whole.source(SMALL, dtype="bool", kind="mask", modulus=2),
    )
    case("invert-float32", "1 minus the value.", {"name": "invert"}, src=floats)
    case("channels-list", "Channels 2 and 0.", {"name": "channels", "channels": [2, 0]}, src=three)
    case("channels-one", "One channel, without the axis.", {"name": "channels", "channels": 1}, src=three)
    case(
        "expression",
        "A formula.",
        {"name": "expression", "expression": "np.clip(x * 2 - 30, 0, 255) / 255"},
        tolerance=1e-5,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="Compare the files with what would be written.")
    check = parser.parse_args().check
    make_cases()
    arithmetic_cases()
    FOLDER.mkdir(exist_ok=True)
    for each in CASES:
        path = FOLDER / f"{each['name']}.json"
        content = json.dumps(each, indent=1, ensure_ascii=False) + "\n"
        if not check:
            path.write_text(content)
        elif not path.is_file() or not same(json.loads(path.read_text()), each):
            raise SystemExit(f"{path.name}: not what this script makes; run it without --check")
    print(f"{len(CASES)} cases {'checked' if check else 'written'}")


if __name__ == "__main__":
    main()
