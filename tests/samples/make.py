"""Make the sample of the current version of model files: `python tests/samples/make.py`.

Run it once for a new version, and never again for an old one: that files of old versions keep
loading is what the samples are for. Beside the model it writes rows, in `version-N.csv`, with the
mean and variance of f that the model gave for them.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.naive_bayes import GaussianNB

from sepgp import GPClassifier
from sepgp.files.model import VERSION

HERE = Path(__file__).parent


def rows(n: int, seed: int) -> pd.DataFrame:
    """Numbers, text, dates and truth values, with holes, and labels."""
    random = np.random.default_rng(seed)
    days = pd.to_timedelta(random.integers(0, 3000, n), "D")
    table = pd.DataFrame(
        {
            "age": random.integers(18, 80, n).astype(float),
            "city": random.choice(["Rome", "Oslo, east", "São Paulo"], n),
            "since": pd.Series(pd.Timestamp("2015-01-01") + days),
            "member": random.random(n) < 0.5,
        }
    )
    f = (table["age"] - 50) / 15 + 1.5 * (table["city"] == "Rome") + random.normal(size=n)
    table["defaulted"] = np.where(f > 0, "yes", "no")
    for name in ("age", "city", "since"):
        table.loc[random.random(n) < 0.1, name] = None
    return table


if __name__ == "__main__":
    model = GPClassifier(
        n_inducing=5, kernel="matern32", max_iter=20, random_state=0, mean=GaussianNB()
    )
    model.fit(rows(200, seed=0), target="defaulted")
    model.save(HERE / f"version-{VERSION}.sepgp")
    unseen = rows(20, seed=1).drop(columns="defaulted")
    mean, variance = model.predict_latent(unseen)
    table = unseen.assign(mean=mean, variance=variance)
    table.to_csv(HERE / f"version-{VERSION}.csv", index=False)
