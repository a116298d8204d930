"""What the scripts of a job begin with: the job is still this daemon's, until the transaction ends."""

from fibatchd.plugin_api import Script, jobs


class JobLost(Exception):
    """Another daemon has the job now: this one had not been heard of for too long. There is nothing more to do for it."""


def held(job: jobs.Job) -> Script[None]:
    """Hold the job. Raises JobLost, and nothing of the script is stored."""
    if not (yield from jobs.holds(job)):
        raise JobLost
