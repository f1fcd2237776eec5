"""Admin pages of runs and episodes, which are read-only, of redactions, retention periods and
removals."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.forms import ModelChoiceField
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminTextInputWidget

from environments.access.privacy import viewer_of
from environments.admin import ChipFilter, EnvironmentFilter, ReadOnlyAdmin, RowFilter, StrictList
from environments.database.folding import holding
from environments.database.storable import MAX_INDEX, id_in
from environments.display import formats, parts
from environments.filtering.addresses import id_asked, refuse_others, takes
from environments.models import Environment
from environments.models.viewer import visible_environments
from episodes.admin.redaction import RedactionAdmin
from episodes.admin.removal import removal_view
from episodes.attempts.rule import ENDED
from episodes.browsing.task_lines import describe_tasks, name_tasks
from episodes.filtering.columns import with_list_columns
from episodes.filtering.conditions import COUNTED_CAUSES
from episodes.filtering.filters import PLAYERS
from episodes.models import Episode, Incident, Redaction, Removal, Retention, Run, Step
from episodes.models.privacy import outside_hidden_parts, visible_episodes
from episodes.templatetags import record
from episodes.transcript.steps import step_json, transcript_of
from episodes.visibility import TaskGuard, content_of, is_blind_to, sentence

MAX_RUN_CHOICES = 20
MAX_RUNS_FOUND = 100
"""Latest runs whose name has the text of a search."""
MAX_RETENTION_DAYS = 100_000


class EndingFilter(ChipFilter):
    """A filter by what ended the episode, without probes unless only they are asked for."""

    title = "ending"
    parameter_name = "ending"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("running", "running"), *Episode.CAUSES]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Episode]) -> QuerySet[Episode]:
        if self.value() == "running":
            return queryset.filter(status="running")
        if not self.value():
            return queryset
        # a list of one value is looked up; with both, all that ended so would be sorted
        return queryset.filter(
            ENDED, cause=self.value(), is_probe__in=[request.GET.get("probes") == "only"]
        )


class RunFilter(RowFilter):
    """A filter that offers the latest runs. The page of any other run links to its episodes."""

    title = "run"
    parameter_name = "run"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        rows = Run.objects.seen_by(viewer_of(request.user))
        runs = list(rows.order_by("-pk").values_list("pk", "name")[:MAX_RUN_CHOICES])
        run = id_in(request.GET.get("run", ""))
        if run is not None and run not in dict(runs):
            runs += rows.filter(pk=run).values_list("pk", "name")
        return [(str(pk), name) for pk, name in runs]


class PlayerFilter(ChipFilter):
    title = "player"
    parameter_name = "player"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(PLAYERS.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Episode]) -> QuerySet[Episode]:
        if not self.value():
            return queryset
        if self.value() != "agent":  # names the rows of the index
            queryset = queryset.exclude(player="agent")
        return queryset.filter(player=self.value())


class IncidentFilter(ChipFilter):
    title = "kind"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(Incident.KINDS)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Incident]) -> QuerySet[Incident]:
        return queryset.filter(kind=self.value()) if self.value() else queryset


class ProbeFilter(ChipFilter):
    """A filter for probes: sessions that were opened only to read tools or prompts."""

    title = "not played"
    parameter_name = "probes"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("no", "left out"), ("only", "alone")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Episode]) -> QuerySet[Episode]:
        if self.value() == "only":
            return queryset.filter(ENDED, cause__in=COUNTED_CAUSES, is_probe__in=[True])
        return queryset.filter(is_probe=False) if self.value() else queryset


@admin.register(Episode)
class EpisodeAdmin(ReadOnlyAdmin):
    page_template = "episodes/admin_episode.html"
    page_parameters = ("step",)
    to_environment = "environment"
    change_list_template = "episodes/admin_episodes.html"
    list_display = (
        "number",
        "ending",
        "environment",
        "task_name",
        "run",
        "who",
        "total",
        "steps",
        "time",
        "started",
    )
    list_filter = (EnvironmentFilter, EndingFilter, RunFilter, PlayerFilter, ProbeFilter)
    list_select_related = ("environment", "split", "task", "run")
    ordering = ("-pk",)
    search_fields = ("session_id",)
    search_help_text = "Episode number, session id, or part of a run's name"
    empty = (
        "No episodes yet. Every session that an agent opens is recorded here. "
        "The overview shows how to connect an agent."
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Episode]:
        queryset: QuerySet[Episode] = super().get_queryset(request)
        return with_list_columns(queryset.filter(outside_hidden_parts(viewer_of(request.user))))

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        describe_tasks(list(changelist.result_list))
        return changelist

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Episode], search_term: str
    ) -> tuple[QuerySet[Episode], bool]:
        """Search by equality, which indexes answer. Only the short table of runs is searched by
        part of a name.

        Runs and ids are read first: with a join, databases would walk along all episodes until a
        page is full.
        """
        term = search_term.strip()
        if not term:
            return queryset, False
        visible = Run.objects.seen_by(viewer_of(request.user))
        rows = visible.filter(holding(visible, term, ("name",))).order_by("-pk")
        runs = list(rows.values_list("pk", flat=True)[:MAX_RUNS_FOUND])
        ids = list(Episode.objects.filter(session_id=term).values_list("pk", flat=True))
        if (pk := id_in(term)) is not None:
            ids.append(pk)
        condition = Q(pk__in=ids) if ids or not runs else Q()
        if runs:
            condition |= Q(run=runs[0]) if len(runs) == 1 else Q(run__in=runs)
        return queryset.filter(condition), False

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Episode | None:
        rows = Episode.objects.seen_by(viewer_of(request.user)).select_related(
            "environment", "split__environment", "task", "run", "prompt", "tools"
        )
        episode = rows.filter(pk=id_in(object_id) or 0).first()
        if episode and episode.status == "running" and is_blind_to(request.user, episode.pk):
            return None
        return episode

    def page(self, request: HttpRequest, row: Episode) -> dict[str, Any]:
        name_tasks([row])
        return {
            "transcript": transcript_of(row, min(id_asked(request, "step") or 0, MAX_INDEX)),
            **content_of(
                parts.fields(row.task.spec),
                row.environment.name,
                TaskGuard(viewer_of(request.user)),
            ),
            "prompt": parts.prompt(row.prompt.text if row.prompt else ""),
            "tools": parts.tools(row.tools.text if row.tools else ""),
            "can_delete": row.status == "ended" and self.has_delete_permission(request),
        }

    def get_urls(self) -> list[URLPattern]:
        raw = [
            path("remove/", self.removal_view, name="episodes_episode_remove"),
            path("<id:pk>/steps/<id:index>.json", self.step_view, name="episodes_step_json"),
            path("<id:pk>/<str:name>.json", self.text_view, name="episodes_episode_json"),
        ]
        for pattern in raw:
            pattern.callback = self.admin_site.admin_view(pattern.callback)
        return [*raw, *super().get_urls()]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("episodes.delete_episode")

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        return HttpResponseRedirect(
            f"{reverse('admin:episodes_episode_remove')}?episode={object_id}"
        )

    @takes("query", "episode")
    def removal_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_delete_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            refuse_others(request, ())  # the form says which episodes are meant
        return removal_view(request, {**self.admin_site.each_context(request), "opts": self.opts})

    def step_view(self, request: HttpRequest, pk: int, index: int) -> HttpResponse:
        """Return everything that is recorded of one step, as JSON."""
        if is_blind_to(request.user, pk):
            raise Http404(sentence(pk))
        visible = visible_episodes(viewer_of(request.user), "episode__")
        steps = Step.objects.filter(visible).select_related("input_blob", "output_blob")
        return self._json(request, step_json(get_object_or_404(steps, episode=pk, index=index)))

    def text_view(self, request: HttpRequest, pk: int, name: str) -> HttpResponse:
        """Return the complete prompt, tools or task of an episode, as JSON."""
        episode = self.get_object(request, str(pk))
        if episode is None or name not in ("prompt", "tools", "task"):
            raise Http404(f"There is no {name} of episode {pk}; use prompt, tools or task.")
        if name == "task":
            guard = TaskGuard(viewer_of(request.user))
            text = guard.spec(episode.task_id, episode.environment.name, episode.task.spec)
        else:
            blob = episode.prompt if name == "prompt" else episode.tools
            text = blob.text if blob else ""
        return self._json(request, text or "null")

    def _json(self, request: HttpRequest, text: str) -> HttpResponse:
        if not self.has_view_permission(request):
            raise Http404("You don't have permission to view episodes.")
        return HttpResponse(text, content_type="application/json")

    @admin.display(description="episode")
    def number(self, episode: Episode) -> str:
        return f"#{episode.pk}"

    @admin.display(description="ending")
    def ending(self, episode: Episode) -> SafeString:
        return record.ending(episode)

    @admin.display(description="task")
    def task_name(self, episode: Episode) -> SafeString:
        name, words = episode.task_name, episode.task_words
        return format_html(
            '<span title="{}"><b class="task-place">{}</b> {}</span>', words, name, words
        )

    @admin.display(description="player")
    def who(self, episode: Episode) -> SafeString:
        return record.player(episode)

    @admin.display(description="return (sum)")
    def total(self, episode: Episode) -> SafeString:
        return record.marked_return(episode, episode.returns["sum"])

    @admin.display(description="steps (refused)")
    def steps(self, episode: Episode) -> SafeString:
        return record.steps(episode)

    @admin.display(description="duration")
    def time(self, episode: Episode) -> str:
        return formats.seconds(episode.duration_seconds)

    @admin.display(description="started")
    def started(self, episode: Episode) -> SafeString:
        return formats.moment(episode.created)


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    page_template = "episodes/admin_run.html"
    list_display = ("name", "model", "state", "episodes_count", "started")
    ordering = ("-pk",)
    search_fields = ("name", "model")
    empty = "No runs yet. Agents name a run with the header X-Run or the secret orsweb_run."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Run]:
        """Return the runs with `count`, their number of episodes. It takes one scan of an index per
        listed run."""
        episodes = Episode.objects.filter(run=OuterRef("pk")).order_by().values("run")
        count = Subquery(episodes.annotate(n=Count("pk")).values("n"))
        rows = Run.objects.seen_by(viewer_of(request.user))
        return rows.annotate(count=Coalesce(count, 0)).order_by(*self.ordering)

    def page(self, request: HttpRequest, row: Run) -> dict[str, Any]:
        episodes = row.episodes.seen_by(viewer_of(request.user))
        latest = list(with_list_columns(episodes.order_by("-pk"))[:50])
        describe_tasks(latest)
        return {"episodes": latest}

    @admin.display(description="episodes")
    def episodes_count(self, run: Any) -> SafeString:
        return format_html('<span class="number">{}</span>', f"{run.count:,}")

    @admin.display(description="started")
    def started(self, run: Run) -> SafeString:
        return formats.moment(run.created)


@admin.register(Incident)
class IncidentAdmin(ReadOnlyAdmin):
    page_template = "episodes/admin_incident.html"
    is_about_all = True  # whatever else ran is named where the cause is not certain
    list_display = ("what", "where", "call", "times", "duration", "when")
    list_filter = (EnvironmentFilter, IncidentFilter)
    list_select_related = ("environment",)
    empty = (
        "No incidents. One is noted when code of an environment raises an exception, kills the "
        "server, holds it for over a second, or ends its worker process."
    )

    def page(self, request: HttpRequest, row: Incident) -> dict[str, Any]:
        return {"episode": Episode.objects.filter(pk=row.episode).first() if row.episode else None}

    @admin.display(description="incident")
    def what(self, incident: Incident) -> str:
        return str(incident)

    @admin.display(description="environment")
    def where(self, incident: Incident) -> str:
        name = incident.environment.name if incident.environment else "unknown"
        is_certain = incident.is_certain or incident.kind == "lost" or not incident.environment
        return name if is_certain else f"{name} (not certain)"

    @admin.display(description="times")
    def times(self, incident: Incident) -> SafeString:
        return format_html('<span class="number">{}</span>', f"{incident.count:,}")

    @admin.display(description="held for")
    def duration(self, incident: Incident) -> SafeString:
        text = f"{incident.seconds:g} s" if incident.seconds else ""
        return format_html('<span class="number">{}</span>', text)

    @admin.display(description="happened")
    def when(self, incident: Incident) -> SafeString:
        return formats.moment(incident.happened)


class NamedRun(ModelChoiceField):  # type: ignore[type-arg]
    """A run that is typed by its name, because there may be too many of them for a list."""

    default_error_messages: ClassVar = {"invalid_choice": "There is no run of this name."}

    def __init__(self, **kwargs: Any) -> None:
        kwargs["help_text"] = "Its name, unless an environment is chosen"
        kwargs["widget"] = UnfoldAdminTextInputWidget()
        super().__init__(**kwargs | {"to_field_name": "name"})

    def prepare_value(self, value: Any) -> Any:
        """Return the name of a number, which is what the row has; what was typed stays."""
        return str(Run.objects.get(pk=value)) if isinstance(value, int) else value


@admin.register(Retention)
class RetentionAdmin(StrictList, ModelAdmin):  # type: ignore[misc]  # unfold has no types
    list_display = ("of", "kept")
    list_select_related = ("environment", "run")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Retention]:
        rows: QuerySet[Retention] = super().get_queryset(request)
        viewer = viewer_of(request.user)
        if not (condition := visible_environments(viewer)):
            return rows
        return rows.filter(condition, Q(run=None) | Q(run__in=Run.objects.seen_by(viewer)))

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Offer and accept only what exists for the person."""
        viewer = viewer_of(request.user)
        if db_field.name == "environment":
            kwargs["queryset"] = Environment.objects.seen_by(viewer)
        if db_field.name == "run":
            rows = Run.objects.seen_by(viewer)
            return db_field.formfield(form_class=NamedRun, queryset=rows)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Leave out what Django wraps around the list of a relation: it needs numbers."""
        if db_field.name == "days":
            # 0 in ORSWEB_RETENTION_DAYS keeps everything, and here it would delete it
            kwargs |= {"min_value": 1, "max_value": MAX_RETENTION_DAYS}
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if db_field.name == "run":
            field.widget = field.widget.widget
        return field

    @admin.display(description="environment or run")
    def of(self, row: Retention) -> str:
        return f"environment {row.environment}" if row.environment else f"run {row.run}"

    @admin.display(description="episodes are kept for")
    def kept(self, row: Retention) -> str:
        return str(row).rpartition(": ")[2]


@admin.register(Removal)
class RemovalAdmin(ReadOnlyAdmin):
    is_about_all = True
    list_display = ("created", "count", "steps", "author", "query", "reason", "state")
    list_display_links = None
    empty = "No episode was removed."

    @admin.display(description="episodes")
    def count(self, row: Removal) -> str:
        return f"{row.episodes:,}"

    @admin.display(description="state")
    def state(self, row: Removal) -> str:
        return "done" if row.ended else "running or stopped"


admin.site.register(Redaction, RedactionAdmin)
