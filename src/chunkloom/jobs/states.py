"""What schedulers' tables say, as `JobReport`: one mapping per scheduler, from text to reports. Runs nothing."""

from __future__ import annotations

import re

from chunkloom.jobs.spec import JobReport, JobStatus

LSF_STATES = {
    "PEND": JobStatus.PENDING,
    "WAIT": JobStatus.PENDING,
    "PROV": JobStatus.PENDING,
    "FWD_PEND": JobStatus.PENDING,
    "RUN": JobStatus.RUNNING,
    "PSUSP": JobStatus.SUSPENDED,
    "USUSP": JobStatus.SUSPENDED,
    "SSUSP": JobStatus.SUSPENDED,
    "DONE": JobStatus.COMPLETED,
    "EXIT": JobStatus.FAILED,
    "ZOMBI": JobStatus.LOST,
    "UNKWN": JobStatus.LOST,
}

# Someone's wish, not a fault of the job.
LSF_KILLED = ("TERM_OWNER", "TERM_ADMIN", "TERM_FORCE_OWNER", "TERM_FORCE_ADMIN")

LSF_REASONS = {
    "TERM_MEMLIMIT": "memory limit",
    "TERM_SWAP": "memory limit",
    "TERM_RUNLIMIT": "time limit",
    "TERM_CPULIMIT": "time limit",
    "TERM_DEADLINE": "time limit",
}

SLURM_STATES = {
    "PENDING": JobStatus.PENDING,
    "CONFIGURING": JobStatus.PENDING,
    "POWER_UP_NODE": JobStatus.PENDING,
    "REQUEUED": JobStatus.PENDING,
    "REQUEUE_FED": JobStatus.PENDING,
    "REQUEUE_HOLD": JobStatus.PENDING,
    "RESV_DEL_HOLD": JobStatus.PENDING,
    "SPECIAL_EXIT": JobStatus.PENDING,
    "RUNNING": JobStatus.RUNNING,
    "COMPLETING": JobStatus.RUNNING,
    "RESIZING": JobStatus.RUNNING,
    "SIGNALING": JobStatus.RUNNING,
    "STAGE_OUT": JobStatus.RUNNING,
    "SUSPENDED": JobStatus.SUSPENDED,
    "STOPPED": JobStatus.SUSPENDED,
    "COMPLETED": JobStatus.COMPLETED,
    "FAILED": JobStatus.FAILED,
    "BOOT_FAIL": JobStatus.FAILED,
    "DEADLINE": JobStatus.FAILED,
    "LAUNCH_FAILED": JobStatus.FAILED,
    "NODE_FAIL": JobStatus.FAILED,
    "OUT_OF_MEMORY": JobStatus.FAILED,
    "PREEMPTED": JobStatus.FAILED,
    "RECONFIG_FAIL": JobStatus.FAILED,
    "TIMEOUT": JobStatus.FAILED,
    "CANCELLED": JobStatus.KILLED,
    "REVOKED": JobStatus.KILLED,
}

SLURM_CODES = {
    "BF": "BOOT_FAIL",
    "CA": "CANCELLED",
    "CD": "COMPLETED",
    "CF": "CONFIGURING",
    "CG": "COMPLETING",
    "DL": "DEADLINE",
    "F": "FAILED",
    "NF": "NODE_FAIL",
    "OOM": "OUT_OF_MEMORY",
    "PD": "PENDING",
    "PR": "PREEMPTED",
    "R": "RUNNING",
    "RQ": "REQUEUED",
    "RS": "RESIZING",
    "RV": "REVOKED",
    "S": "SUSPENDED",
    "SE": "SPECIAL_EXIT",
    "SI": "SIGNALING",
    "SO": "STAGE_OUT",
    "ST": "STOPPED",
    "TO": "TIMEOUT",
}

SLURM_REASONS = {
    "BOOT_FAIL": "its node did not boot",
    "DEADLINE": "could not end before its time limit, the deadline",
    "LAUNCH_FAILED": "could not be launched",
    "NODE_FAIL": "its node failed",
    "OUT_OF_MEMORY": "out of memory",
    "PREEMPTED": "another job took its place",
    "TIMEOUT": "reached its time limit",
}


def lsf_report(state: str, reason: str = "", code: str = "") -> JobReport:
    """A report from a STAT of ``bjobs``, its EXIT_REASON and its EXIT_CODE ("-" is nothing)."""
    status = LSF_STATES.get(state)
    reason, code = reason.strip().strip("-"), code.strip().strip("-")
    if status is None:
        return JobReport(JobStatus.LOST, f"LSF says {state}, which is none of its documented states")
    if status is JobStatus.LOST:
        return JobReport(status, f"LSF says {state}: its machine does not answer")
    if status is not JobStatus.FAILED:
        return JobReport(status)
    term = reason.split(":", 1)[0].strip()
    if term in LSF_KILLED:
        return JobReport(JobStatus.KILLED, reason)
    words = [part for part in (LSF_REASONS.get(term, ""), reason) if part]
    if not words and code not in ("", "0"):
        words = [f"exit code {code}"]
    return JobReport(status, ": ".join(words))


def lsf_reports(table: str) -> dict[str, JobReport]:
    """Reports from a table of ``bjobs``, by job id.

    Columns are those of the header, between ``|`` where there are any; a table without header has id, state, reason.
    """
    columns = ["JOBID", "STAT", "EXIT_REASON"]
    found = {}
    for line in table.splitlines():
        split = [cell.strip() for cell in line.split("|")] if "|" in line else line.split(None, len(columns) - 1)
        if split[:1] == ["JOBID"]:
            columns = split if "|" in line else line.split()
            continue
        if len(split) < 2 or not re.match(r"\d+", split[0]):
            continue
        row = dict(zip(columns, split, strict=False))
        if "STAT" in row:
            found[row["JOBID"]] = lsf_report(row["STAT"], row.get("EXIT_REASON", ""), row.get("EXIT_CODE", ""))
    return found


def slurm_report(state: str, exit_code: str = "", why: str = "") -> JobReport:
    """A report from a state of ``squeue``, ``sacct`` or ``scontrol``, and its ``code:signal``.

    The state decides: a job that ran out of memory or of time can have exit code 0.
    """
    # "CANCELLED by 1000", "CANCELLED+" (cut off), "FAILED*", "RUNNING,COMPLETING".
    word = re.split(r"[\s,]", state.strip(), maxsplit=1)[0].rstrip("+*~#!%$@^-")
    word = SLURM_CODES.get(word, word)
    status = SLURM_STATES.get(word)
    if status is None:
        return JobReport(JobStatus.LOST, f"Slurm says {state!r}, which is none of its documented states")
    if status is JobStatus.PENDING:
        return JobReport(status, "" if why in ("", "None", "(null)") else why)
    if status is JobStatus.KILLED:
        return JobReport(status, state.strip().lower())
    if status is not JobStatus.FAILED:
        return JobReport(status)
    code, _, number = exit_code.partition(":")
    reason = SLURM_REASONS.get(word, "")
    if not reason and code.isdigit() and int(code):
        reason = f"exit code {code}"
    elif not reason and number.isdigit() and int(number):
        reason = f"ended by signal {number}"
    return JobReport(status, reason or word.lower())


def squeue_reports(table: str) -> dict[str, JobReport]:
    """Reports from a table of ``squeue``: id, state, reason, between ``|`` or spaces, with or without header."""
    found = {}
    for line in table.splitlines():
        cells = [c.strip() for c in line.split("|")] if "|" in line else line.split(None, 2)
        if len(cells) >= 2 and re.match(r"\d+", cells[0]):
            found[cells[0]] = slurm_report(cells[1], why=cells[2] if len(cells) > 2 else "")
    return found


def sacct_reports(table: str) -> dict[str, JobReport]:
    """Reports from ``sacct --parsable2 --format=JobID,State,ExitCode``. Steps of jobs (``101.batch``) are left out."""
    found = {}
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) >= 2 and re.fullmatch(r"\d+(_\d+|\+\d+)?", cells[0]):
            found[cells[0]] = slurm_report(cells[1], cells[2] if len(cells) > 2 else "")
    return found


def slurm_reports(squeue: str, sacct: str = "") -> dict[str, JobReport]:
    """Reports from both tables. How a job ended stands over the rest; else the queue, which is never behind."""
    found = squeue_reports(squeue)
    for job, report in sacct_reports(sacct).items():
        if report.status.ended or job not in found:
            found[job] = report
    return found


def scontrol_report(text: str) -> JobReport | None:
    """A report from ``scontrol --oneliner show job``, or None where that shows no job."""
    fields = dict(re.findall(r"(\w+)=(\S*)", text))
    if "JobState" not in fields:
        return None
    return slurm_report(fields["JobState"], fields.get("ExitCode", ""), fields.get("Reason", ""))
