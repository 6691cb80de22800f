"""Chains: what is done to raw data before a model and to its output after, as data and as live steps.

This package knows arrays and parameters. It knows nothing of volumes, models, servers or where a chunk comes
from.
"""

from chunkloom.chain.expression import SafeExpression
from chunkloom.chain.normalizers import (
    LambdaNormalizer,
    MinMaxNormalizer,
    WholeVolumePercentile,
    WholeVolumeStandardizer,
    ZScoreNormalizer,
    resolve_normalizers,
)
from chunkloom.chain.postprocessors import (
    ChannelSelection,
    DefaultPostprocessor,
    LambdaPostprocessor,
    SigmoidPostprocessor,
    ThresholdPostprocessor,
)
from chunkloom.chain.process import ProcessChain, process_chain
from chunkloom.chain.registry import (
    build_step,
    chain_schema,
    describe_steps,
    input_normalizers,
    postprocessors,
    step_schema,
)
from chunkloom.chain.spec import (
    PipelineSpec,
    chain_is_segmentation,
    chain_num_channels,
    chain_output_dtype,
)
from chunkloom.chain.steps import InputNormalizer, PostProcessor, SampledNormalizer, Step

__all__ = [
    "ChannelSelection",
    "DefaultPostprocessor",
    "InputNormalizer",
    "LambdaNormalizer",
    "LambdaPostprocessor",
    "MinMaxNormalizer",
    "PipelineSpec",
    "PostProcessor",
    "ProcessChain",
    "SafeExpression",
    "SampledNormalizer",
    "SigmoidPostprocessor",
    "Step",
    "ThresholdPostprocessor",
    "WholeVolumePercentile",
    "WholeVolumeStandardizer",
    "ZScoreNormalizer",
    "build_step",
    "chain_is_segmentation",
    "chain_num_channels",
    "chain_output_dtype",
    "chain_schema",
    "describe_steps",
    "input_normalizers",
    "postprocessors",
    "process_chain",
    "resolve_normalizers",
    "step_schema",
]
