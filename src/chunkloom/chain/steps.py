"""What a step of a chain is: a class whose name and constructor arguments are its wire form.

A step knows arrays and its own parameters. It knows nothing of volumes, models, servers or the other steps.

To add a step, subclass `InputNormalizer` or `PostProcessor` and write `_process(self, data)`. Declare the
parameters as dataclass fields made by `chunkloom.chain.parameters`, or write a plain `__init__`; both are
found by their names.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from chunkloom.chain.parameters import Parameter, constructor_signature, declared_parameters
from chunkloom.errors import ParameterError

Array = NDArray[Any]
Halo = tuple[int, int, int]

_PLAIN = (str, int, float, bool, type(None), np.generic)


class Step:
    """Base of normalizers and postprocessors.

    Attributes
    ----------
    dtype : dtype, optional
        Declared dtype of the output; None leaves the incoming one.
    num_channels : int, optional
        Declared number of output channels; None leaves the incoming number.
    is_segmentation : bool, optional
        Whether the output is labels or a mask rather than an image; None does not say.
    whole_chunks : bool
        Whether the output depends on where the chunk ends, as with objects and their ids: the step is then
        given chunks of one grid, and `chunk_corner` and `chunk_num_voxels` with them.
    halo : (int, int, int)
        How far, in voxels along z, y, x, an input voxel reaches into the output. A caller that works in
        chunks reads each grown by the halo, cut at the ends of the data, and calls `process_cropped`; then
        chunks join without seams. A step that needs whole objects has no halo and works within what it is
        given.
    """

    dtype: ClassVar[DTypeLike | None] = None
    is_segmentation: ClassVar[bool | None] = None
    _arguments: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self = super().__new__(cls)
        try:
            bound = constructor_signature(cls).bind_partial(*args, **kwargs)
        except TypeError:
            return self  # __init__ is about to say what is wrong
        bound.apply_defaults()
        object.__setattr__(self, "_arguments", dict(bound.arguments))
        return self

    def __post_init__(self) -> None:
        for name, parameter in declared_parameters(type(self)).items():
            value = parameter.parse(f"{type(self).__name__}: {name}", getattr(self, name))
            object.__setattr__(self, name, value)
        self.check()

    def check(self) -> None:
        """Refuse parameters that do not fit together, by raising ParameterError."""

    @property
    def num_channels(self) -> int | None:
        return None

    @property
    def halo(self) -> Halo:
        return (0, 0, 0)

    @property
    def whole_chunks(self) -> bool:
        return False

    @classmethod
    def name(cls) -> str:
        """The wire name: the class's own."""
        return cls.__name__

    @classmethod
    def parameters(cls) -> dict[str, Parameter]:
        """Constructor arguments in order."""
        return declared_parameters(cls)

    @classmethod
    def summary(cls) -> str:
        """First line of the class's docstring: the one-line help."""
        own = cls.__dict__.get("__doc__") or ""
        # A dataclass without a docstring is given its signature as one.
        return "" if own.startswith(f"{cls.__name__}(") else own.strip().partition("\n")[0]

    def process(self, data: Array, **context: Any) -> Array:
        """The step applied to `data`, which is never written to.

        Parameters
        ----------
        data : array
            `(z, y, x)` or `(c, z, y, x)`.
        **context
            `chunk_corner` (index of the chunk on the output grid, z, y, x) and `chunk_num_voxels` (voxels of
            a whole chunk); passed on only to steps whose `_process` takes them.

        Returns
        -------
        array
            Of the declared dtype; without one, as the step returned it, but never float64 made from something
            else.
        """
        data = np.asarray(data)
        result = np.asarray(self._process(data, **self._accepted(context)))
        if self.dtype is not None:
            return result.astype(self.dtype, copy=False)
        if result.dtype == np.float64 and data.dtype != np.float64:
            return result.astype(np.float32)
        return result

    __call__ = process

    def process_cropped(self, data: Array, before: Sequence[int], after: Sequence[int], **context: Any) -> Array:
        """`process(data)` without `before` voxels at the lower and `after` at the upper end of z, y, x.

        A step may override it to leave out work, never to change a value.
        """
        ends = [n - a for n, a in zip(data.shape[-3:], after, strict=True)]
        inner: tuple[Any, ...] = (..., *(slice(b, e) for b, e in zip(before, ends, strict=True)))
        return np.asarray(self.process(data, **context)[inner])

    def _process(self, data: Array) -> Array:
        raise NotImplementedError(f"{type(self).__name__} does not define _process(self, data)")

    def _accepted(self, context: dict[str, Any]) -> dict[str, Any]:
        if not context:
            return context
        taken = inspect.signature(self._process).parameters
        if any(p.kind is p.VAR_KEYWORD for p in taken.values()):
            return context
        return {name: value for name, value in context.items() if name in taken}

    def to_dict(self) -> dict[str, Any]:
        """`{"name": …, **constructor arguments}` with real types: what rebuilds this step.

        An attribute of the argument's name is taken when it is a plain scalar (it has been parsed), else the
        argument as it was given.
        """
        described: dict[str, Any] = {"name": type(self).__name__}
        for name, given in self._arguments.items():
            stored = getattr(self, name, given)
            value = stored if isinstance(stored, _PLAIN) else given
            described[name] = value.item() if isinstance(value, np.generic) else value
        return described

    def output_info(self, dtype: DTypeLike, channels: int) -> tuple[np.dtype[Any], int, bool | None]:
        """Dtype, number of channels and "is it a segmentation" after this step, from those before it."""
        declared = self.dtype
        count = self.num_channels
        return (
            np.dtype(dtype if declared is None else declared),
            channels if count is None else int(count),
            self.is_segmentation,
        )

    def __repr__(self) -> str:
        described = self.to_dict()
        name = described.pop("name")
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in described.items())})"


class InputNormalizer(Step):
    """A step between the raw data and the model."""


class PostProcessor(Step):
    """A step between the model's output, channel first, and what is shown or kept."""


class SampledNormalizer(InputNormalizer):
    """A normalizer with parameters that come from the data: it does nothing before they are there.

    A chunk must not be normalized by its own statistics, or the same voxel would have other values in other
    chunks. So they are taken once, from a sample of one level, and become parameters like any other
    (`resolve`).
    """

    level: int | None

    @property
    def resolved(self) -> bool:
        """Whether all parameters are there."""
        raise NotImplementedError

    def resolve(self, sample: Array | Sequence[Array]) -> Self:
        """This step with its missing parameters taken from `sample`: one array, or blocks of the level.

        Which blocks: `chunkloom.kernels.statistics.sample_boxes`. Which level: `level`, the coarsest when
        None. A step that is resolved already is returned as it is.

        Raises
        ------
        ParameterError
            If the sample holds no finite value.
        """
        raise NotImplementedError

    def _need_resolved(self) -> None:
        if not self.resolved:
            raise ParameterError(
                f"{type(self).__name__} has no statistics yet: {self!r}; they come from the volume when "
                "the chain is opened on one, or give them as parameters"
            )
