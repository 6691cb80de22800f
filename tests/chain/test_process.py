"""The process's chain: one per process, changed only as a whole."""

from __future__ import annotations

import pytest

from chunkloom.chain import PipelineSpec, ProcessChain, SigmoidPostprocessor, process_chain
from chunkloom.errors import ParameterError

SPEC = PipelineSpec.from_steps_data([{"name": "ZScoreNormalizer", "mean": "3"}], [{"name": "SigmoidPostprocessor"}])


def test_there_is_one_chain_per_process() -> None:
    assert process_chain() is process_chain()


def test_a_new_chain_is_empty() -> None:
    chain = ProcessChain()
    assert (chain.spec, chain.input_norms, chain.postprocess) == (PipelineSpec(), (), ())


def test_set_builds_the_steps_and_keeps_the_data_as_received() -> None:
    chain = ProcessChain()
    chain.set(SPEC)
    assert chain.spec == SPEC
    assert chain.input_norm_config == [{"name": "ZScoreNormalizer", "mean": "3"}]
    assert chain.postprocess_config == [{"name": "SigmoidPostprocessor"}]
    assert repr(chain.input_norms) == "(ZScoreNormalizer(mean=3.0, std=1.0),)"


def test_steps_built_already_are_taken_as_they_are() -> None:
    chain, step = ProcessChain(), SigmoidPostprocessor()
    chain.set(PipelineSpec.from_steps([], [step]), built=((), (step,)))
    assert chain.postprocess[0] is step


def test_a_bad_chain_leaves_the_old_one_in_force() -> None:
    chain = ProcessChain()
    chain.set(SPEC)
    with pytest.raises(ParameterError):
        chain.set(PipelineSpec.from_steps_data(SPEC.input_norm, [{"name": "ThresholdPostprocessor", "threshold": "?"}]))
    assert chain.spec == SPEC
    assert len(chain.postprocess) == 1
