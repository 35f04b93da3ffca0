"""Rows that come in blocks: absorbed, refined, remembered and forgotten."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from quick import METHODS, blobs, quick

from sepgp import InvalidParameter
from sepgp.data.prepared import ArrayData
from sepgp.training import online

EVERY_METHOD = pytest.mark.parametrize("method", METHODS)


def block(n: int, seed: int, turned: bool = False):
    """Rows whose label is the sign of the first feature, or of minus it once it has turned."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 2))
    f = 3 * X[:, 0] * (-1 if turned else 1)
    return X, (f + random.normal(size=n) > 0).astype(int)


def loss(model, X, y) -> float:
    return float(-model.predict_log_proba(X)[np.arange(len(y)), y].mean())


def numbered(first: int, n: int) -> ArrayData:
    rows = np.arange(first, first + n, dtype=np.float64)
    return ArrayData(rows[:, None], np.ones(n, int), np.ones(n), np.array([0, 1]))


def remembered(monkeypatch, forgetting: float) -> np.ndarray:
    """Which of 20 blocks of 500 rows the rows in a memory of 1,000 come from."""
    monkeypatch.setattr(online, "REPLAYED", 1000)
    random = np.random.RandomState(0)
    memory = None
    for k in range(20):
        memory = online.extended(memory, numbered(500 * k, 500), forgetting, random)
    assert len(memory.y) == len(np.unique(memory.X)) == 1000
    return np.bincount(memory.X[:, 0].astype(int) // 500, minlength=20)


def test_the_memory_is_a_uniform_sample(monkeypatch) -> None:
    counts = remembered(monkeypatch, 1.0)
    # 50 expected in each block, with a standard deviation of about 6.6.
    assert (abs(counts - 50) < 27).all()
    assert abs(counts[:10].sum() - 500) < 60


def test_a_memory_that_forgets_holds_later_rows(monkeypatch) -> None:
    counts = remembered(monkeypatch, 0.8)
    assert counts[-5:].sum() > 0.5 * counts.sum()
    assert counts[0] < 20


def test_a_block_stands_beside_what_is_remembered() -> None:
    random = np.random.RandomState(0)
    memory = online.extended(None, numbered(0, 5), 1.0, random)
    both = online.with_replay(memory, numbered(5, 3))
    assert_array_equal(both.X[:, 0], [5, 6, 7, 0, 1, 2, 3, 4])
    assert online.with_replay(None, numbered(5, 3)).X.shape == (3, 1)


@EVERY_METHOD
def test_n_grows_with_every_block_and_shrinks_with_forgetting(method) -> None:
    model = quick(method=method, forgetting=0.5)
    for seed in range(3):
        model.partial_fit(*block(40, seed), classes=[0, 1])
    assert_allclose(model.model_.n_seen, 40 + 20 + 10)


def test_blocks_of_sep_are_absorbed_as_one_pass_of_adf(monkeypatch) -> None:
    """With the kernel held and no refinement after it, absorbing is ADF."""
    X, y = blobs(60)
    setting = {"learn_kernel": False, "learn_inducing": False, "inducing": X[:10]}
    adf = quick(method="adf", **setting).partial_fit(X, y)
    sep = quick(**setting)
    go_over, absorbed = online._go_over, []

    def first_only(settings, *rest):
        if settings.method == "adf":
            absorbed.append(go_over(settings, *rest))
        return absorbed[0]

    monkeypatch.setattr(online, "_go_over", first_only)
    sep.partial_fit(X, y)
    assert len(absorbed) == 1
    assert_allclose(sep.model_.sites.Lambda, adf.model_.sites.Lambda)


def test_a_label_that_is_none_of_two_classes_turned_the_model() -> None:
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 3
    with pytest.raises(InvalidParameter, match="pos_label=2 chooses one of two classes"):
        quick(pos_label=2).partial_fit(X, y)
    model = quick().fit(X, y)
    with pytest.raises(InvalidParameter, match="pos_label=2 chooses one of two classes"):
        model.model_.about(2)
    with pytest.raises(InvalidParameter, match="pos_label='yes' is not among the classes"):
        quick().fit(X, y > 0).model_.about("yes")


@pytest.mark.slow
@pytest.mark.parametrize("forgetting", [0.7, 1.0])
def test_forgetting_recovers_from_a_turned_label_rule(forgetting) -> None:
    model = quick(n_inducing=20, forgetting=forgetting)
    for seed in range(8):
        model.partial_fit(*block(200, seed))
    before = loss(model, *block(1000, 100))
    for seed in range(8, 16):
        model.partial_fit(*block(200, seed, turned=True))
    after = loss(model, *block(1000, 101, turned=True))
    if forgetting < 1:
        assert after < before + 0.1
    else:
        assert after > before + 0.2


def test_a_source_is_learned_block_by_block() -> None:
    blocks = [block(50, seed) for seed in range(3)]
    one, other = quick(), quick()
    one.partial_fit(lambda: iter(blocks), classes=[0, 1])
    for X, y in blocks:
        other.partial_fit(X, y, classes=[0, 1])
    X, _ = block(30, 9)
    assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_a_source_that_fails_in_the_middle_leaves_the_model_as_it_was() -> None:
    def broken():
        yield block(50, 1)
        raise OSError("the line is down")

    model = quick().partial_fit(*block(50, 0))
    X, _ = block(30, 9)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match=r"broken\(\) raised OSError in block 2"):
        model.partial_fit(broken)
    assert_array_equal(model.predict_proba(X), before)


def test_tables_keep_the_encoding_of_the_first_block() -> None:
    def table(n, seed, colours):
        X, y = block(n, seed)
        colour = np.random.default_rng(seed).choice(colours, n)
        return pd.DataFrame({"a": X[:, 0], "colour": colour, "y": y})

    model = quick().partial_fit(table(50, 0, ["red", "blue"]), target="y")
    first = model.encoding_
    with pytest.warns(UserWarning, match="'colour' has values that are new .* 'green'"):
        model.partial_fit(table(50, 1, ["red", "green"]), target="y")
    assert model.encoding_ == first
    with pytest.warns(UserWarning, match=r"'colour' has values that are new .* \(20 in all\)"):
        assert model.predict_proba(table(20, 2, ["green", "grey"])).shape == (20, 2)


def test_blocks_after_a_fit_do_not_undo_it() -> None:
    X, y = block(2000, 0)
    model = quick(n_inducing=20, batch_size=200, max_iter=100).fit(X, y)
    more, labels = block(1000, 100)
    before = loss(model, more, labels)
    for seed in range(1, 6):
        model.partial_fit(*block(100, seed))
    assert loss(model, more, labels) < before + 0.01


def test_blocks_of_one_size_are_remembered_by_keys_of_their_own(monkeypatch) -> None:
    """With a seed, every call drew the same numbers, and so kept the same places of each block."""
    monkeypatch.setattr(online, "REPLAYED", 20)
    model = quick(random_state=0, max_iter=5)
    for first in (0, 100):
        X = np.arange(first, first + 100.0)[:, None]
        model.partial_fit(X, np.arange(100) % 2)
    kept = model.model_.replay.X[:, 0]
    old, new = (set(kept[kept // 100 == k] % 100) for k in (0, 1))
    assert len(old & new) < min(len(old), len(new))
