"""A process that starts a server as a job, as an entry point does: `python starting.py SITE SPEC QUEUES`, as JSON."""

from __future__ import annotations

import json
import sys
import time

from chunkloom.jobs.cleanup import install_cleanup_handlers
from chunkloom.jobs.launch import scheduler_for, start_hosts
from chunkloom.jobs.site import SiteProfile
from chunkloom.jobs.spec import JobSpec

if __name__ == "__main__":
    site, spec, queues = map(json.loads, sys.argv[1:4])
    if sys.argv[4:] != ["--no-handlers"]:
        install_cleanup_handlers()
    profile = SiteProfile.from_dict(site)
    host = start_hosts(JobSpec(**spec), profile, scheduler=scheduler_for(profile), queues=queues)
    print(host.url, flush=True)
    if sys.argv[4:] == ["--no-handlers"]:
        raise RuntimeError("an exception nobody catches")
    time.sleep(60)
