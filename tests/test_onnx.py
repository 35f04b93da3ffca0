"""Models as graphs of ONNX: onnxruntime gives the probabilities of the library, without torch."""

import subprocess
import sys
from collections import Counter

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from scipy.special import ndtr as exact_ndtr

from sepgp import GPClassifier, InvalidData, InvalidParameter, kernels
from sepgp.export.graph import Graph
from sepgp.export.normal import ndtr
from sepgp.training import choice

TOLERANCE = 1e-6
FEW = {"n_inducing": 20, "max_iter": 15, "random_state": 0}


def session(content) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


def rows(n: int, d: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.argmax(X[:, :n_classes] + 0.3 * rng.normal(size=(n, n_classes)), 1)


def far(X: np.ndarray) -> np.ndarray:
    """Rows, and others that are unlike all of them."""
    return np.concatenate([X, 10 * X[:50], -1e3 * X[:5]])


def assert_same(model: GPClassifier, given: dict[str, np.ndarray], X, path) -> None:
    model.to_onnx(path)
    label, p, mean, variance = session(str(path)).run(None, given)
    np.testing.assert_allclose(p, model.predict_proba(X), rtol=0, atol=TOLERANCE)
    expected = model.predict_latent(X)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(variance, expected[1], rtol=1e-6, atol=1e-6)
    clear = np.abs(np.diff(np.sort(p, 1)[:, -2:], axis=1)[:, 0]) > TOLERANCE
    assert (label == model.predict(X))[clear].all()


def test_ndtr_has_eleven_digits() -> None:
    z = np.linspace(-30, 30, 20_001)
    graph = Graph()
    graph.output("p", ndtr(graph, graph.input("z", np.float64, 1)), np.empty(0), 1)
    (p,) = session(graph.to_bytes("test")).run(None, {"z": z[:, None]})
    np.testing.assert_allclose(p[:, 0], exact_ndtr(z), rtol=2e-11)


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize(
    "kernel",
    [
        "auto",
        kernels.Matern12() + kernels.Matern52() * kernels.RBF(),
        kernels.RBF() * kernels.Linear() + kernels.Constant() + kernels.White(0.1),
        kernels.Warped(kernels.Matern12() + kernels.Matern12()),
    ],
    ids=["auto", "matern", "linear", "warped"],
)
def test_probabilities_are_those_of_the_library(kernel, n_classes, tmp_path) -> None:
    X, y = rows(300, 5, n_classes)
    model = GPClassifier(kernel=kernel, **FEW).fit(X, y)
    assert_same(model, {"X": far(X)}, far(X), tmp_path / "m.onnx")


def test_a_kernel_for_each_class(tmp_path) -> None:
    X, y = rows(300, 5, 3)
    model = GPClassifier(shared_kernel=False, **FEW).fit(X, y)
    assert_same(model, {"X": far(X)}, far(X), tmp_path / "m.onnx")


def test_no_rows_give_no_rows(tmp_path) -> None:
    X, y = rows(100, 4, 3)
    GPClassifier(**FEW).fit(X, y).to_onnx(tmp_path / "m.onnx")
    found = session(str(tmp_path / "m.onnx")).run(None, {"X": X[:0]})
    assert [len(value) for value in found] == [0, 0, 0, 0]
    assert found[1].shape == (0, 3)


@pytest.mark.filterwarnings("ignore:.*town")  # of a level that was not in training
def test_columns_of_text_and_missing_values(tmp_path) -> None:
    rng = np.random.default_rng(0)
    town = rng.choice(["Rome", "Oslo", "Bonn"], 300).astype(object)
    age = rng.uniform(20, 60, 300)
    y = np.where((town == "Oslo") ^ (age > 40), "yes", "no")
    town[::17], age[::13] = None, np.nan
    model = GPClassifier(**FEW).fit(pd.DataFrame({"town": town, "age": age}), y)
    town, age = np.append(town, ["Lima", "N/A", "", "rome"]), np.append(age, [30.0] * 4)
    text = np.array([["" if t is None else t] for t in town], object)
    table = pd.DataFrame({"town": town, "age": age})
    assert_same(model, {"town": text, "age": age[:, None]}, table, tmp_path / "m.onnx")


@pytest.mark.parametrize("labels", [[3, 7], [False, True], ["no", "yes"], [1.0, 2.0]], ids=str)
def test_labels_keep_their_type(labels, tmp_path) -> None:
    X, y = rows(100, 3, 2)
    model = GPClassifier(**FEW).fit(X, np.array(labels)[y])
    assert_same(model, {"X": X}, X, tmp_path / "m.onnx")
    label = session(str(tmp_path / "m.onnx")).run(["label"], {"X": X[:3]})[0]
    assert label.tolist() == model.predict(X[:3]).tolist()


class Own(kernels.RBF):
    """A kernel of a user."""


def test_a_kernel_with_code_of_its_own_is_refused(tmp_path) -> None:
    X, y = rows(100, 3, 2)
    model = GPClassifier(kernel=Own(), **FEW).fit(X, y)
    with pytest.raises(InvalidParameter, match="kernel has a Own, which is code and cannot be"):
        model.to_onnx(tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_dates_are_refused(tmp_path) -> None:
    X, y = rows(100, 3, 2)
    table = pd.DataFrame({"a": X[:, 0], "day": pd.date_range("2024", periods=100)})
    model = GPClassifier(**FEW).fit(table, y)
    with pytest.raises(InvalidData, match="Column 'day' has dates, which ONNX has no type for"):
        model.to_onnx(tmp_path / "m.onnx")


def test_texts_that_were_taken_for_one_are_refused(tmp_path) -> None:
    X, y = rows(100, 3, 2)
    table = pd.DataFrame({"a": X[:, 0], "town": np.resize(["Rome", "rome ", "Oslo"], 100)})
    with pytest.warns(UserWarning, match="case"):
        model = GPClassifier(**FEW).fit(table, y)
    with pytest.raises(InvalidData, match="Column 'town' has texts that differ in case or spaces"):
        model.to_onnx(tmp_path / "m.onnx")


def test_a_column_with_the_name_of_an_output_is_refused(tmp_path) -> None:
    X, y = rows(100, 3, 2)
    table = pd.DataFrame({"a": X[:, 0], "label": np.where(X[:, 1] > 0, "x", "y")})
    model = GPClassifier(**FEW).fit(table, y)
    with pytest.raises(InvalidData, match="Column 'label' has the name of an output"):
        model.to_onnx(tmp_path / "m.onnx")


def test_without_onnx_a_sentence_says_what_to_install(tmp_path, monkeypatch) -> None:
    X, y = rows(100, 3, 2)
    model = GPClassifier(**FEW).fit(X, y)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"install it by `pip install 'sepgp\[onnx\]'`"):
        model.to_onnx(tmp_path / "m.onnx")


def real_sets(folder):
    """Name, features and labels of every set in the folder; of MNIST all ten digits."""
    for path in sorted(folder.rglob("*.parquet")):
        table = pd.read_parquet(path)
        if table.columns[-1] != "y":
            continue
        yield path.stem, table.iloc[:, :-1].to_numpy(np.float64), table.iloc[:, -1].to_numpy()
    if (folder / "mnist.npz").exists():
        with np.load(folder / "mnist.npz") as stored:
            X, y = stored["X_test"], stored["y_test"]
        yield "mnist", X.reshape(len(X), -1).astype(np.float64), y


SCRIPT = """if True:
    import glob, sys
    import numpy as np
    import onnxruntime
    for path in glob.glob("*.onnx"):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        X = np.load(path.replace(".onnx", ".npy"))
        p, = session.run(["probabilities"], {"X": X})
        np.save(path.replace(".onnx", ".p.npy"), p)
    assert not {"torch", "sepgp", "scipy"} & set(sys.modules)
"""


@pytest.mark.slow
@pytest.mark.process
def test_real_sets_in_a_process_without_torch(data_dir, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(choice, "WORTH", 0)  # trials of kernels before short trainings too
    expected, kinds = {}, []
    for name, X, y in real_sets(data_dir):
        order = np.random.default_rng(0).permutation(len(X))
        train, test = order[:200_000], order[-1000:]
        model = GPClassifier(n_inducing=50, max_iter=30, dtype="float64", random_state=0)
        model.fit(X[train], y[train]).to_onnx(tmp_path / f"{name}.onnx")
        np.save(tmp_path / f"{name}.npy", X[test])
        expected[name] = model.predict_proba(X[test])
        projected = model.model_.scaling.components is not None
        kinds.append("components" if projected else type(model.kernel_).__name__)
    subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, check=True)
    apart = {
        name: np.abs(np.load(tmp_path / f"{name}.p.npy") - p).max() for name, p in expected.items()
    }
    print(apart, Counter(kinds))
    assert len(apart) > 20
    assert {"Sum", "Warped", "components"} <= set(kinds)
    assert max(apart.values()) < TOLERANCE
