"""The daily and weekly pattern, as far as the history supports it."""

from typing import Final

import numpy as np

from spindle.forecast.history import Floats

DAY_SLOTS: Final = 24
WEEK_SLOTS: Final = 168
_LEAST: Final = 0.05  # minimum share of the mean in any hour


def profile(flow: Floats) -> Floats:
    """Pattern of a flow by slot: shape (disks, 168) with two weeks of history, (disks, 24) with two days, else (disks, 1).

    The mean is 1. Slot k is the k-th hour after now (and after now minus whole periods). A pattern counts only as far as the
    periods agree: James-Stein shrinkage of the weekly pattern towards the daily one, and of the daily one towards a flat one.

    Args:
        flow: non-negative bytes in each hour, the last one ending now, shape (disks, hours).
    """
    disks, count = flow.shape
    if count < 2 * DAY_SLOTS:
        return np.ones((disks, 1))
    day = _shape(flow, DAY_SLOTS, np.ones((1, DAY_SLOTS)))
    if count < 2 * WEEK_SLOTS:
        return _fair(day)
    return _fair(_shape(flow, WEEK_SLOTS, np.tile(day, (1, WEEK_SLOTS // DAY_SLOTS))))


def _shape(flow: Floats, slots: int, prior: Floats) -> Floats:
    disks = len(flow)
    periods = flow.shape[1] // slots
    x = flow[:, flow.shape[1] - periods * slots :].reshape(disks, periods, slots)
    mean = x.mean(axis=2, keepdims=True)
    x = np.divide(x, mean, out=np.ones_like(x), where=mean > 0)
    middle = np.median(x, axis=1)
    within = (np.abs(x - middle[:, None, :]).sum(axis=1) / (periods - 1)).mean(axis=1)
    signal = middle - prior
    noise = 1.6 * within**2 / periods  # 1.25² for absolute deviations, times the median's inefficiency
    share = 1.0 - np.divide(
        noise, (signal**2).mean(axis=1), out=np.ones(disks), where=(signal**2).mean(axis=1) > 0
    )
    shape: Floats = prior + np.clip(share, 0.0, 1.0)[:, None] * signal
    return shape


def _fair(shape: Floats) -> Floats:
    raised = np.maximum(shape, _LEAST)
    fair: Floats = raised / raised.mean(axis=1, keepdims=True)
    return fair


def tiled(shape: Floats, count: int) -> Floats:
    """The pattern of the last ``count`` bins, the last one ending now."""
    slots = shape.shape[1]
    if slots == 1:
        return np.broadcast_to(shape, (len(shape), count))
    return shape[:, np.arange(-count, 0) % slots]
