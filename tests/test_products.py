"""Products of matrices are the same ones, whichever library takes them."""

import numpy as np
import pytest
import torch

from sepgp import GPClassifier
from sepgp.data.batches import Batching
from sepgp.data.scaling import identity
from sepgp.gp import products
from sepgp.gp.products import add_product_, next_round, product, product_over_rows, rounded

ROWS = 1_000


@pytest.fixture(params=["as it comes", "by oneDNN"])
def library(request, monkeypatch):
    """What this machine takes, and oneDNN wherever torch has it."""
    products._by_onednn.cache_clear()
    if request.param == "by oneDNN":
        if not (torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()):
            pytest.skip("this torch has not both of oneDNN and MKL")
        monkeypatch.setattr(products, "_has_avx512", lambda: True)
        monkeypatch.setattr(products, "_is_amd", lambda: True)
        assert products._by_onednn() is not None
    yield request.param
    products._by_onednn.cache_clear()


@pytest.fixture
def shapes(monkeypatch):
    """The shapes that oneDNN gets, as if this were a machine where it is the faster one."""
    seen = []

    def transposed(A, W):
        seen.append((*A.shape, *W.shape))
        return A @ W.T

    monkeypatch.setattr(products, "_by_onednn", lambda: transposed)
    return seen


def close(found, expected):
    scale = float(expected.abs().max())
    return torch.allclose(found, expected, rtol=0, atol=1e-5 * scale)


def matrices(*shapes):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("leading", [(), (3,)])
def test_they_are_those_of_matrices(library, dtype, leading):
    A, B = matrices((*leading, 120, 100), (100, ROWS))
    found = product(A.to(dtype), B.to(dtype))
    assert found.dtype == dtype
    assert close(found.double(), A @ B)
    C, D = matrices((*leading, 120, ROWS), (100, ROWS))
    assert close(product_over_rows(C.to(dtype), D.to(dtype)).double(), C @ D.T)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [3, 120])
def test_one_is_added_to_what_is_there(library, dtype, width):
    A, B, C = matrices((200, width), (ROWS, width), (200, ROWS))
    there = C.to(dtype, copy=True)
    found = add_product_(there, A.to(dtype), B.to(dtype).T, alpha=-2)
    assert found is there
    assert close(found.double(), C - 2 * A @ B.T)


def test_parts_of_matrices_and_transposed_ones_are_as_good(library):
    A, B = (matrix.float() for matrix in matrices((200, 200), (200, ROWS)))
    assert close(product(A[40:120, 60:], B[60:]), A[40:120, 60:] @ B[60:])
    assert close(product(A.T, B.T.contiguous().T), A.T @ B)
    assert close(product_over_rows(B[:, ::2], B[:100, ::2]), B[:, ::2] @ B[:100, ::2].T)


def test_a_kernel_for_each_class_has_products_of_its_own(library):
    A, B = (matrix.float() for matrix in matrices((3, 120, 100), (3, 100, ROWS)))
    assert close(product(A, B), A @ B)


def test_few_rows_and_float64_are_left_to_torch(shapes):
    A, B = matrices((200, 200), (200, ROWS))
    product(A, B)
    product(A.float(), B[:, :50].float())
    assert shapes == []
    product(A.float(), B.float())
    assert shapes == [(200, 200, ROWS, 200)]


def test_what_is_left_over_makes_no_new_shape(shapes):
    """oneDNN keeps half a megabyte for every shape."""
    A, B = (matrix.float() for matrix in matrices((200, 200), (200, 4_000)))
    for n_rows in range(2_501, 2_550):
        product(A, B[:, :n_rows])
        product_over_rows(B[:, :n_rows], B[:, :n_rows])
        add_product_(torch.zeros(200, n_rows), A, B[:, :n_rows], alpha=1.0)
    assert shapes == []


def test_predictions_have_one_number_of_rows_and_what_is_left_over(shapes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 3))
    model = GPClassifier(n_inducing=200, max_iter=3, dtype="float32", random_state=0)
    model.fit(X, X[:, 0] > 0)
    shapes.clear()
    many = rng.normal(size=(30_001, 3))
    for n in (30_001, 29_999, 20_001, 11_111, 3_003):
        model.predict_proba(many[:n])
    assert len({shape[2] for shape in shapes}) == 1


def test_batches_of_an_epoch_have_round_numbers_of_rows(shapes):
    """Split evenly, hardly any had: 243,468 rows gave batches of 1,995 and 1,996."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_321, 3))
    model = GPClassifier(n_inducing=200, max_iter=3, dtype="float32", validation_fraction=0)
    model.fit(X, X[:, 0] > 0)
    rows = {shape[-1] for shape in shapes if len(shape) == 4 and shape[-1] > 1_000}
    assert rows | {shape[2] for shape in shapes if shape[2] > 1_000} == {1_450}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1, 7, 49, 50, 64, 100, 1_999, 2_000])
@pytest.mark.parametrize("n_rows", [1, 49, 121, 2_001, 4_321, 6_000, 243_468])
def test_batches_of_an_epoch_are_all_rows_once(dtype, size, n_rows):
    how = Batching(identity(1), size, dtype=dtype)
    count = how.batches_per_epoch(n_rows)
    bounds = [how.bounds(n_rows, number) for number in range(count)]
    begins, ends = np.transpose(bounds)
    assert begins[0] == 0
    assert ends[-1] == n_rows
    assert (begins[1:] == ends[:-1]).all()
    rows = ends - begins
    assert rows.min() >= 1
    assert rows.max() <= size
    usual = size == 2_000 and dtype == torch.float32 and count > 1
    if usual:
        assert sum(n % 50 != 0 and n % 64 != 0 for n in rows.tolist()) <= 1
        assert rows.max() - rows.min() <= 50
    elif dtype == torch.float64:
        assert rows.max() - rows.min() <= 1


def test_gradients_of_matrices_are_kept(library):
    """oneDNN's product has no derivative."""
    A, B = (matrix.float().requires_grad_() for matrix in matrices((200, 200), (200, ROWS)))
    product(A, B).sum().backward()
    product_over_rows(B, B).sum().backward()
    assert A.grad is not None
    with torch.no_grad():
        assert close(product(A, B), A @ B)


@pytest.mark.filterwarnings("ignore:TF32")
def test_torch_can_be_told_to_do_without_onednn(shapes):
    A, B = (matrix.float() for matrix in matrices((200, 200), (200, ROWS)))
    with torch.backends.mkldnn.flags(enabled=False):
        product(A, B)
    assert shapes == []


def test_the_type_of_numbers_that_a_program_has_set_does_not_matter(monkeypatch):
    """GPs are often trained with `torch.set_default_dtype(torch.float64)`."""
    monkeypatch.setattr(products, "_has_avx512", lambda: True)
    monkeypatch.setattr(products, "_is_amd", lambda: True)
    products._by_onednn.cache_clear()
    usual = products._by_onednn() is None
    products._by_onednn.cache_clear()
    torch.set_default_dtype(torch.float64)
    try:
        assert (products._by_onednn() is None) == usual
    finally:
        torch.set_default_dtype(torch.float32)
        products._by_onednn.cache_clear()


def test_rounded_numbers_are_multiples():
    assert next_round(1_310) == 1_344
    assert next_round(1_350) == 1_400
    assert next_round(20) == 50
    assert rounded(1_310) == 1_300
    assert rounded(1_299) == 1_280
    assert rounded(2_000) == 2_000
    assert rounded(64) == 64
    assert rounded(63) == 50
    assert rounded(49) == 49
    assert rounded(1) == 1


def test_without_onednn_all_is_left_to_torch(monkeypatch):
    """A later torch need not have what it does not promise."""
    products._by_onednn.cache_clear()
    monkeypatch.setattr(products, "_has_avx512", lambda: True)
    monkeypatch.setattr(products, "_is_amd", lambda: True)
    monkeypatch.delattr(torch.ops.mkldnn, "_linear_pointwise", raising=False)
    monkeypatch.setattr(torch.ops, "mkldnn", object())
    try:
        assert products._by_onednn() is None
        A, B = (matrix.float() for matrix in matrices((200, 200), (200, ROWS)))
        assert torch.equal(product(A, B), A @ B)
    finally:
        products._by_onednn.cache_clear()


@pytest.mark.parametrize(
    ("cpuinfo", "processor", "expected"),
    [
        ("vendor_id\t: AuthenticAMD\n", "", True),
        ("vendor_id\t: GenuineIntel\n", "AuthenticAMD", False),
        (None, "AMD64 Family 25 Model 97 Stepping 2, AuthenticAMD", True),
        (None, "Intel64 Family 6 Model 158 Stepping 10, GenuineIntel", False),
        (None, "arm", False),
    ],
)
def test_the_maker_of_the_processor_is_known(monkeypatch, tmp_path, cpuinfo, processor, expected):
    place = tmp_path / "cpuinfo"
    if cpuinfo is not None:
        place.write_text(cpuinfo)
    monkeypatch.setattr(products, "CPUINFO", place)
    monkeypatch.setattr(products.platform, "processor", lambda: processor)
    assert products._is_amd() is expected


def test_training_is_the_same_to_rounding(monkeypatch):
    """Steps of float32 by one library, and by the other."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4_000, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=len(X)) > 0
    found, calls = [], []
    by_onednn = products._by_onednn

    def counted(A, W):
        calls.append(A.shape)
        return by_onednn()(A, W)

    monkeypatch.setattr(products, "_has_avx512", lambda: True)
    monkeypatch.setattr(products, "_is_amd", lambda: True)
    by_onednn.cache_clear()
    if by_onednn() is None:
        pytest.skip("this torch has not both of oneDNN and MKL")
    for here in (counted, None):
        monkeypatch.setattr(products, "_by_onednn", lambda here=here: here)
        model = GPClassifier(
            n_inducing=100, batch_size=1_000, max_iter=4, dtype="float32", random_state=0
        )
        found.append(model.fit(X, y).history_["log_evidence"])
    by_onednn.cache_clear()
    assert len(calls) > 4 * 4
    np.testing.assert_allclose(*found, rtol=1e-4)
