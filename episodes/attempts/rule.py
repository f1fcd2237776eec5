"""Continuations: episodes in which a person plays on from a step of another. Asked wherever attempts are counted.

Their first steps are another player's, so they are no attempts of their own, and stay out of every figure. The mark is
their Play's `parent_step`, which stays when what they continue is deleted, and travels in files. Only people's episodes
have a Play, so that of nobody else's one is looked for. None has a run.
"""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q

from episodes.models import Play

IS_CONTINUATION = Q(Exists(Play.objects.filter(episode=OuterRef("pk"), parent_step__isnull=False)), player="human")
"""Condition of an episode."""
OWN_SQL = """
    NOT (e.player = 'human' AND EXISTS (
        SELECT 1 FROM episodes_play AS p WHERE p.episode_id = e.id AND p.parent_step IS NOT NULL
    ))
"""
"""Its opposite as SQL, of an episode `e`."""
