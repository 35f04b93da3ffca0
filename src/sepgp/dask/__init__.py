"""Training on the rows of a Dask cluster: see `DaskGPClassifier`. Needs `sepgp[dask]`."""

try:
    from sepgp.dask.classifier import DaskGPClassifier
except ModuleNotFoundError as error:
    if error.name is None or error.name.split(".")[0] not in ("dask", "distributed", "pandas"):
        raise
    raise ImportError(
        "sepgp.dask needs Dask, which is not installed; install it by pip install 'sepgp[dask]'."
    ) from error

__all__ = ["DaskGPClassifier"]
