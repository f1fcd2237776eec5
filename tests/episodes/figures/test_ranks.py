"""Ranks of figures, and those that their intervals allow."""

from __future__ import annotations

from environments.scoring.success_interval import Interval
from episodes.figures.ranks import ranks_of


def test_equal_figures_share_a_place_and_the_highest_is_first() -> None:
    ranks = ranks_of([(value, Interval(value, value)) for value in (0.2, 0.9, 0.2, 0.5)])
    assert [rank and rank.place for rank in ranks] == [3, 1, 3, 2]


def test_overlapping_intervals_allow_several_ranks() -> None:
    figures = [(0.9, Interval(0.7, 1.0)), (0.6, Interval(0.4, 0.8)), (0.1, Interval(0.0, 0.2))]
    ranks = [rank for rank in ranks_of(figures) if rank]
    assert [(rank.best, rank.worst) for rank in ranks] == [(1, 2), (1, 2), (3, 3)]


def test_without_an_interval_every_rank_is_possible_and_without_a_figure_none() -> None:
    first, second, third = ranks_of([(0.9, None), (None, None), (0.1, Interval(0.0, 0.2))])
    assert (first, second, third) == ((1, 1, 2), None, (2, 1, 2))
