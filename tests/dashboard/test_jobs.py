"""Settings of jobs over the dashboard: whole numbers, all or nothing, kept."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("path", ["/api/server-config", "/api/blockwise-config"])
def test_settings_are_changed_and_kept(dashboard, own_home, path):
    running = dashboard()
    answer = running.ask(path, "POST", {"queue": "gpu_a100", "nb_workers": 3})
    assert answer.status == 200, answer.body
    assert answer.json["config"]["queue"] == "gpu_a100"
    assert running.ask(path).json["config"]["nb_workers"] == 3
    assert "gpu_a100" in (own_home / ".chunkloom" / "server_config.yaml").read_text()


@pytest.mark.parametrize("wrong", [{"nb_workers": "3"}, {"nb_workers": 1.5}, {"nb_workers": 0}, {"nb_workers": True}])
def test_counts_that_are_no_whole_numbers_change_nothing(dashboard, wrong):
    running = dashboard()
    before = running.ask("/api/server-config").json["config"]
    answer = running.ask("/api/server-config", "POST", {"queue": "other", **wrong})
    assert answer.status == 400
    assert "nb_workers" in answer.json["error"]
    assert running.ask("/api/server-config").json["config"] == before


def test_the_folders_of_blockwise_runs_are_the_sessions(dashboard):
    running = dashboard()
    running.ask("/api/blockwise-config", "POST", {"tmp_dir": "/tmp/here"})
    assert running.ask("/api/blockwise-config").json["config"]["tmp_dir"] == "/tmp/here"
    assert "tmp_dir" not in running.ask("/api/server-config").json["config"]


def test_gpu_queues_are_listed_where_there_is_no_scheduler(dashboard):
    answer = dashboard().ask("/api/gpu-queues").json
    assert answer["available"] is False
    assert isinstance(answer["queues"], list)
