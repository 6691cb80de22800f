"""Site profiles and the settings file."""

from __future__ import annotations

from pathlib import Path

import pytest

from chunkloom.errors import ParameterError
from chunkloom.jobs.launch import scheduler_for
from chunkloom.jobs.settings import LauncherSettings, launcher_settings
from chunkloom.jobs.site import SiteProfile, site_profile


def test_janelia():
    site = site_profile("janelia")
    assert [(queue.name, queue.host_group) for queue in site.queues] == [
        ("gpu_h100", "h100s"),
        ("gpu_h200", "h200s"),
        ("gpu_a100", "a100s"),
    ]
    assert (site.scheduler, site.default_queue, site.charge_group, site.walltime) == (
        "lsf",
        "gpu_h100",
        "cellmap",
        "08:00",
    )
    assert (site.server_cpus, site.worker_cpus) == (4, 12)
    assert (site.pending_fallback_s, site.startup_timeout_s, site.submit_timeout_s) == (180, 300, 30)


@pytest.mark.parametrize("name", ["janelia", "slurm", "local"])
def test_shipped_profiles_parse(name):
    assert site_profile(name).name == name


def programs(tmp_path: Path, monkeypatch, *names: str) -> None:
    (tmp_path / "some").mkdir()
    for name in names:
        (tmp_path / "some" / name).write_text("#!/bin/sh\n")
        (tmp_path / "some" / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "some"))


@pytest.mark.parametrize(
    ("found", "site", "scheduler"),
    [((), "local", "local"), (("bsub",), "janelia", "lsf"), (("sbatch",), "slurm", "slurm")],
    ids=["nothing", "bsub", "sbatch"],
)
def test_without_a_choice_the_commands_found_decide(tmp_path, monkeypatch, found, site, scheduler):
    programs(tmp_path, monkeypatch, *found)
    assert site_profile().name == site
    assert scheduler_for(site_profile()).name == scheduler


@pytest.mark.parametrize("name", ["janelia", "slurm"])
def test_jobs_run_here_where_the_sites_scheduler_is_not(tmp_path, monkeypatch, name):
    programs(tmp_path, monkeypatch)
    assert scheduler_for(site_profile(name)).name == "local"


def test_a_file_of_ones_own(tmp_path, monkeypatch, own_home):
    text = "name: mine\nscheduler: slurm\nqueues: [gpu, {name: big, label: Big}]\nwalltime: 12:00\n"
    (tmp_path / "mine.yaml").write_text(text)
    site = site_profile(str(tmp_path / "mine.yaml"))
    assert ([queue.label for queue in site.queues], site.walltime) == (["gpu", "Big"], "720")
    monkeypatch.setenv("CHUNKLOOM_SITE", str(tmp_path / "mine.yaml"))
    assert site_profile() == site
    monkeypatch.delenv("CHUNKLOOM_SITE")
    (own_home / ".chunkloom").mkdir()
    (own_home / ".chunkloom" / "site.yaml").write_text(text.replace("mine", "home"))
    assert site_profile().name == "home"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("scheduler: lfs", "did you mean 'lsf'"),
        ("walltimes: 1", "did you mean 'walltime'"),
        ("walltime: soon", "HH:MM"),
        ("server_cpus: four", "server_cpus: expected a whole number"),
        ("pending_fallback_s: -1", "pending_fallback_s"),
        ("queues: gpu", "queues: expected a list"),
        ("queues: [{label: x}]", "queues[0]: name is missing"),
        ("queues: [a, a]", "twice"),
        ("default_queue: 7", "default_queue"),
        ("name:", "name"),
        ("- 1", "not YAML"),
    ],
)
def test_a_profile_that_is_wrong_names_the_file_and_the_member(tmp_path, change, says):
    base = {"name": "name: x", "scheduler": "scheduler: lsf"}
    base[change.split(":")[0]] = change
    (tmp_path / "site.yaml").write_text("\n".join(base.values()))
    with pytest.raises(ParameterError) as caught:
        site_profile(str(tmp_path / "site.yaml"))
    assert "site.yaml" in str(caught.value)
    assert says in str(caught.value)


def test_a_site_that_does_not_exist():
    with pytest.raises(ParameterError, match="janelia, slurm, local"):
        site_profile("janela")


def test_settings_have_defaults_and_survive_the_process(own_home):
    settings = launcher_settings()
    assert settings == LauncherSettings(None, "", None, True, 4, 12, 14)
    assert launcher_settings() is settings
    settings.queue, settings.walltime = "gpu_a100", "12:00"
    path = settings.save()
    assert path == own_home / ".chunkloom" / "server_config.yaml"
    assert LauncherSettings.load() == settings
    assert not list(path.parent.glob(".server*"))


def test_the_older_home_is_read_and_never_written(own_home, monkeypatch):
    monkeypatch.setenv("HOME", str(own_home))
    older = own_home / ".cellmap_flow"
    older.mkdir()
    (older / "server_config.yaml").write_text("queue: old\nnb_workers: 3\n")
    settings = LauncherSettings.load()
    assert (settings.queue, settings.nb_workers) == ("old", 3)
    settings.queue = "new"
    settings.save()
    assert (older / "server_config.yaml").read_text() == "queue: old\nnb_workers: 3\n"
    assert LauncherSettings.load().queue == "new"


def test_settings_stand_over_the_site():
    site = SiteProfile.from_dict({"name": "x", "scheduler": "lsf", "default_queue": "q", "charge_group": "g"})
    assert LauncherSettings(queue="mine").over(site) == {"queue": "mine", "charge_group": "g", "walltime": None}


@pytest.mark.parametrize(
    "text", ["nb_workers: 0", "nb_workers: many", "cycle_gpu_queues: 1", "queue: [a]", "walltime: soon", "- a", "a: [b"]
)
def test_settings_that_are_wrong_name_the_file(own_home, text):
    (own_home / ".chunkloom").mkdir()
    (own_home / ".chunkloom" / "server_config.yaml").write_text(text)
    with pytest.raises(ParameterError, match="server_config"):
        LauncherSettings.load()


def test_unknown_settings_are_told():
    with pytest.warns(UserWarning, match="queu"):
        LauncherSettings.from_dict({"queu": "x"})
