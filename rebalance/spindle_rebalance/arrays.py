"""Arrow columns of lists as numpy arrays."""

from typing import Any

import pyarrow as pa


def lists(table: pa.RecordBatch | pa.Table, name: str) -> list[Any]:
    """An array for each row of a column of lists, without a copy; None for null."""
    column = table.column(name)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    flat = column.values.to_numpy(zero_copy_only=False)
    ends = column.offsets.to_numpy()
    there = column.is_valid().to_numpy(zero_copy_only=False)
    return [flat[ends[k] : ends[k + 1]] if there[k] else None for k in range(len(column))]
