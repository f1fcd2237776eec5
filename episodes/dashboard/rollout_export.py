"""Export of uploaded conversations as messages for fine-tuning, with an episode here or without."""

from __future__ import annotations

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.files.streaming import StreamedFile, download_of
from environments.filtering.parameters import refuse_blanks
from episodes.dashboard.guards import as_download, refused
from episodes.filtering.rollouts import RolloutFilter
from episodes.models import Episode, Rollout
from episodes.transfer.export_format import ExportFile
from episodes.transfer.exporting import joined
from episodes.transfer.formats.messages import rollout_lines
from episodes.transfer.training_options import CHOICES, TrainingOptions
from episodes.visibility import blind_to


@require_safe
@as_download
def rollout_export(request: HttpRequest) -> HttpResponseBase:
    """Return the conversations that a filter finds; `rollout` is the id of a single one. Raises:
    BadRequest."""
    query = request.GET.dict()
    refuse_blanks(query)
    filters = RolloutFilter.parse(query, also=("rollout", *CHOICES), viewer=viewer_of(request.user))
    file = ExportFile(Episode.objects.none(), TrainingOptions.parse(query))
    blind = list(blind_to(request.user))
    rollouts: QuerySet[Rollout] = filters.rollouts().exclude(episode__in=blind)
    if query.get("rollout"):
        rollouts = rollouts.filter(event_id=query["rollout"].replace("\0", ""))
    pieces = joined(rollout_lines(rollouts, file))
    if (first := next(pieces, None)) is None:
        sentence = "None of these rollouts has a message of the model that can be exported."
        return refused(
            request, "Nothing to export", sentence, [(reverse("rollouts"), "Rollouts")], status=404
        )
    download = download_of(request, f"rollouts as messages: {request.GET.urlencode() or 'all'}")
    response = StreamedFile("rollouts.messages.jsonl", "application/jsonl", first, pieces)
    return response.response(download)
