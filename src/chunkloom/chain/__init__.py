"""Chains: what is done to raw data before a model and to its output after, as data and as live steps.

This package knows arrays and parameters. It knows nothing of volumes, models, servers or where a chunk comes
from.
"""

from chunkloom.chain.blockwise_merger import SimpleBlockwiseMerger
from chunkloom.chain.context_normalizers import CLAHENormalizer, Dilate, EuclideanDistance
from chunkloom.chain.expression import SafeExpression
from chunkloom.chain.normalizers import (
    ChannelSelector,
    LambdaNormalizer,
    MinMaxNormalizer,
    WholeVolumePercentile,
    WholeVolumeStandardizer,
    ZScoreNormalizer,
    raw_channel,
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
from chunkloom.chain.segmentation import (
    AffinityPostprocessor,
    DistanceWatershedPostprocessor,
    FillHolesPostprocessor,
    LabelPostprocessor,
    MortonSegmentationRelabeling,
)
from chunkloom.chain.spec import (
    PipelineSpec,
    chain_is_segmentation,
    chain_num_channels,
    chain_output_dtype,
)
from chunkloom.chain.steps import InputNormalizer, PostProcessor, SampledNormalizer, Step

__all__ = [
    "AffinityPostprocessor",
    "CLAHENormalizer",
    "ChannelSelection",
    "ChannelSelector",
    "DefaultPostprocessor",
    "Dilate",
    "DistanceWatershedPostprocessor",
    "EuclideanDistance",
    "FillHolesPostprocessor",
    "InputNormalizer",
    "LabelPostprocessor",
    "LambdaNormalizer",
    "LambdaPostprocessor",
    "MinMaxNormalizer",
    "MortonSegmentationRelabeling",
    "PipelineSpec",
    "PostProcessor",
    "ProcessChain",
    "SafeExpression",
    "SampledNormalizer",
    "SigmoidPostprocessor",
    "SimpleBlockwiseMerger",
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
    "raw_channel",
    "resolve_normalizers",
    "step_schema",
]
