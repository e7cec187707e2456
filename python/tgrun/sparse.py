"""Sparse tensors as onnxruntime's package has them. A run takes and makes dense ones: this turns one into the other."""
import numpy as np

from . import names
from .values import TYPES, number_of


def fixed(array):
    """A view that nobody writes through."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


class View:
    """Indices of one format, by the names of its methods."""

    def __init__(self, **indices):
        for name, array in indices.items():
            setattr(self, name, lambda array=array: fixed(array))


class SparseTensor:
    """shape: of the dense tensor. values: those that are given, in the indices' order; the others are zero."""

    def __init__(self, form, shape, values, *indices):
        self._form, self._shape, self._indices = form, [int(n) for n in shape], [np.asarray(i) for i in indices]
        self._values = np.asarray(values)

    @classmethod
    def sparse_coo_from_numpy(cls, dense_shape, values, coo_indices, ort_device):
        """coo_indices: places in the flat tensor [n], or rows and columns [n,2]."""
        return cls(names.OrtSparseFormat.ORT_SPARSE_COO, dense_shape, values, coo_indices)

    @classmethod
    def sparse_csr_from_numpy(cls, dense_shape, values, inner_indices, outer_indices, ort_device):
        """inner_indices: columns [n]; outer_indices: where each row begins, and the end [rows + 1]."""
        return cls(names.OrtSparseFormat.ORT_SPARSE_CSRC, dense_shape, values, inner_indices, outer_indices)

    @classmethod
    def of_dense(cls, array):
        flat = array.reshape(-1)
        at = np.flatnonzero(flat != type(flat[0])() if flat.dtype == object and flat.size else flat)
        return cls(names.OrtSparseFormat.ORT_SPARSE_COO, array.shape, flat[at], at.astype(np.int64))

    def dense(self):
        out = np.zeros(self._shape, object if number_of(self._values.dtype) == 8 else self._values.dtype)
        if out.dtype == object:
            out[...] = ""
        if self._form == names.OrtSparseFormat.ORT_SPARSE_CSRC:
            inner, outer = self._indices
            at = np.repeat(np.arange(len(outer) - 1), np.diff(outer)) * self._shape[1] + inner
        else:
            at, = self._indices
            at = at if at.ndim == 1 else np.ravel_multi_index(tuple(at.T), self._shape)
        out.reshape(-1)[at] = self._values.reshape(-1)
        return out

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.dense(), dtype)

    def format(self):
        return self._form

    def dense_shape(self):
        return list(self._shape)

    def values(self):
        return fixed(self._values)

    def data_type(self):
        return f"sparse_tensor({TYPES[number_of(self._values.dtype)][0]})"

    def device_name(self):
        return "cpu"

    def as_coo_view(self):
        self._is(names.OrtSparseFormat.ORT_SPARSE_COO)
        return View(indices=self._indices[0])

    def as_csrc_view(self):
        self._is(names.OrtSparseFormat.ORT_SPARSE_CSRC)
        return View(inner=self._indices[0], outer=self._indices[1])

    def _is(self, form):
        if self._form != form:
            raise RuntimeError(f"a sparse tensor of format {self._form.name}, not {form.name}")

    def to_cuda(self, ort_device):
        names.refuse("SparseTensor.to_cuda", "values lie in the computer's memory")
