"""Other packages with far arrays, each as its users would use it. What is not installed is skipped: the packages are a download of
150 MB. `OUTBOARD_PYTHON_ECOSYSTEM=1 cargo test -p outboard-python` installs all but torch."""

from __future__ import annotations

import numpy as np
import pytest

import outboard

ROWS = 400_000  # of eight bytes: 3.2 MB a column


@pytest.fixture
def roomy():
    return outboard.far(buffer="16MiB")


def test_pandas_columns_lie_in_far_memory(roomy):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    with roomy.arrays() as context:
        frame = pandas.DataFrame({"key": rng.integers(0, 100, ROWS), "value": rng.random(ROWS), "weight": np.arange(ROWS)})
        assert context.stats()["allocated"] >= 3 * 8 * ROWS
        sums = frame.groupby("key")["value"].sum()
        ordered = frame.sort_values("value")
        joined = frame.merge(pandas.DataFrame({"key": np.arange(100), "name": np.arange(100) * 2}), on="key")
    assert np.isclose(sums.sum(), frame["value"].sum()) and len(sums) == 100
    assert ordered["value"].is_monotonic_increasing and (joined["name"] == 2 * joined["key"]).all()


def test_a_frame_of_far_columns(roomy):
    pandas = pytest.importorskip("pandas")
    values = roomy.arange(ROWS, dtype="f8")
    frame = pandas.DataFrame({"x": values}, copy=False)
    assert np.shares_memory(frame["x"].to_numpy(), values) and frame["x"].sum() == values.sum()


def test_scikit_learn_fits_models(roomy):
    pytest.importorskip("sklearn")
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LinearRegression
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(2)
    features = roomy.empty((50_000, 10))
    features[:] = rng.normal(size=features.shape)
    target = features @ np.arange(10.0) + 3
    with roomy.arrays():
        model = LinearRegression().fit(features, target)
        scaled = StandardScaler().fit_transform(features)
        parts = PCA(3).fit_transform(scaled)
    assert np.allclose(model.coef_, np.arange(10)) and np.isclose(model.intercept_, 3)
    assert outboard.is_far(scaled) and np.allclose(scaled.std(axis=0), 1) and parts.shape == (50_000, 3)


def test_scipy_sparse_matrices(roomy):
    sparse = pytest.importorskip("scipy.sparse")
    length = 200_000
    data, indices, pointers = roomy.ones(2 * length), roomy.empty(2 * length, "i4"), roomy.arange(0, 2 * length + 1, 2, dtype="i4")
    indices[0::2] = np.arange(length)
    indices[1::2] = (np.arange(length) + 1) % length
    matrix = sparse.csr_matrix((data, indices, pointers), shape=(length, length), copy=False)
    assert np.shares_memory(matrix.data, data)
    with roomy.arrays():
        product = matrix @ np.arange(length, dtype="f8")
        square = matrix @ matrix
    assert product[10] == 21 and square.nnz == 3 * length


def test_networkx_reads_edges_from_far_arrays(roomy):
    networkx = pytest.importorskip("networkx")
    edges = roomy.empty((5000, 2), "i8")
    edges[:, 0] = np.arange(5000)
    edges[:, 1] = (np.arange(5000) + 1) % 5000
    graph = networkx.from_edgelist(map(tuple, edges.tolist()))
    assert networkx.number_connected_components(graph) == 1 and networkx.shortest_path_length(graph, 0, 2500) == 2500


def test_pyarrow_reads_columns_in_place(roomy):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.compute as compute

    values = roomy.arange(ROWS)
    column = arrow.array(outboard.column(values))
    assert column.buffers()[1].address == values.__array_interface__["data"][0]
    del values
    assert compute.sum(column).as_py() == ROWS * (ROWS - 1) // 2
    times = arrow.array(outboard.column(roomy.array(np.array(["2024-02-29"], "M8[ms]"))))
    assert times.to_pylist()[0].day == 29


def test_polars_reads_columns(roomy):
    polars = pytest.importorskip("polars")
    series = polars.Series("x", outboard.column(roomy.arange(ROWS)))
    assert series.sum() == ROWS * (ROWS - 1) // 2 and series.filter(series % 1000 == 0).len() == ROWS // 1000


def test_torch_uses_far_memory_by_dlpack(roomy):
    torch = pytest.importorskip("torch")
    values = roomy.zeros(ROWS, "f4")
    tensor = torch.from_dlpack(values)
    tensor += 1
    assert values.sum(dtype="f8") == ROWS
