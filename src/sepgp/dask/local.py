"""A Dask cluster on one machine, whose processes leave its cores to the workers."""

import dask
import distributed

QUIET = {"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "500ms"}
"""By default every process of a cluster looks a hundred times a second at what it is doing, and
ticks fifty times: four of a hundred seconds of two cores that two workers need."""


def local_cluster(n_workers: int) -> distributed.LocalCluster:
    """Processes with one thread each."""
    with dask.config.set(QUIET):
        return distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=":0"
        )
