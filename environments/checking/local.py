"""The implementation of `checked_environment.py` for a class in this process, run by the same
hosting and runtime as when it is served, but without a database. Sessions of a class with
`isolation = "session"` have processes of their own (`session_processes.py`). Tool outputs are
inspected before they become JSON, where NaN turns into null.
"""

from __future__ import annotations

import copy
import json
import math
from base64 import b64decode, b64encode
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from environments.authoring.hosted_class import HostedClass
from environments.authoring.registry import Registry
from environments.authoring.task_source import ClassTasks
from environments.checking.checked_environment import (
    Broken,
    CallAnswer,
    RequestRefused,
    Sample,
    TimeLimit,
    leave,
)
from environments.errors import EnvironmentFault, InvalidRequest, OrsError, shorten
from environments.limits import Limits
from environments.runtime.instance import Instance
from environments.runtime.local_host import LocalHost
from environments.runtime.saving_instance import MAX_SNAPSHOT_BYTES
from environments.runtime.threads import ThreadPool
from environments.runtime.usercode import Passing, UserCode
from environments.wire import ScoreGroup

if TYPE_CHECKING:
    from environments.checking.session_processes import CheckedWorkerInstance


class CheckedHost(LocalHost):
    """A LocalHost whose instances a check can ask more."""

    def instance(self, environment: str) -> CheckedInstance:
        hosted_class = self._hosted_class(environment)
        return CheckedInstance(hosted_class, _WatchedCode(self._pool, hosted_class), self._limits)


class CheckedInstance(Instance):
    """An Instance of which a check can ask the author's `save`, `oracle`, `exploits` and
    `teardown`.

    Results are JSON values. Every method may raise EnvironmentFault.
    """

    __slots__ = ("_next",)
    _next: Callable[[], Coroutine[Any, Any, Any]]

    async def lost(self) -> list[str]:
        """Return a sentence for each value in outputs since the last time that JSON cannot
        represent."""
        assert isinstance(self._code, _WatchedCode)
        sentences, self._code.lost = self._code.lost, []
        return sentences

    async def save(self) -> str:
        """Return what the author's `save` returns, in base64. Raises: InvalidRequest if it cannot
        be kept."""
        state = await self._code.call(self._env.save)
        if not isinstance(state, bytes):
            raise InvalidRequest(f"save() returned {type(state).__name__}; let it return bytes.")
        if len(state) > MAX_SNAPSHOT_BYTES:
            raise InvalidRequest(
                f"save() returned {len(state):,} bytes; at most {MAX_SNAPSHOT_BYTES:,} are kept."
            )
        return b64encode(state).decode("ascii")

    async def tear_down(self) -> None:
        """Call the author's `teardown`, which `close` calls again."""
        await self._code.call(self._env.teardown)

    async def exploits(self) -> list[str]:
        """Return the names of the author's `exploits`."""
        return list(await self._exploits())

    async def begin_calls(self, exploit: str | None) -> None:
        """Let `next_call` return the calls of an exploit, or of the oracle."""
        calls = (
            (await self._exploits())[exploit]
            if exploit
            else await self._code.call(lambda: self._env.oracle())
        )
        if isinstance(calls, AsyncIterable):
            following = aiter(calls)
            self._next = lambda: self._code.call(_next_async, following)
        else:
            one_by_one = iter(calls)
            self._next = lambda: self._code.call(next, one_by_one, None)

    async def next_call(self) -> list[Any] | None:
        """Return the tool and the arguments of the next call; None after the last one. Raises:
        InvalidRequest."""
        if (call := await self._next()) is None:
            return None
        try:
            tool, arguments = call
            return [tool, json.loads(json.dumps(dict(arguments)))]
        except (TypeError, ValueError):
            raise InvalidRequest(
                f"A call is {shorten(repr(call), 80)}; give the tool's name and its input, such as "
                "('submit', {})."
            ) from None

    async def _exploits(self) -> dict[str, Any]:
        return dict(await self._code.call(lambda: self._env.exploits()))


async def _next_async(calls: AsyncIterator[Any]) -> Any:
    return await anext(calls, None)


class _WatchedCode(UserCode):
    __slots__ = ("_output_type", "lost")

    def __init__(self, pool: ThreadPool, hosted_class: HostedClass) -> None:
        super().__init__(pool, hosted_class)
        self._output_type = hosted_class.sdk.tool_output
        self.lost: list[str] = []

    async def call(self, fn: Callable[..., Any], *args: Any, passing: Passing = ()) -> Any:
        answer = await super().call(fn, *args, passing=passing)
        if isinstance(answer, self._output_type):
            output: Any = answer
            name = getattr(fn, "__name__", "a tool")
            if _has_non_finite(output.reward):
                self.lost.append(
                    f"Tool {name!r} returned the reward {output.reward}, which agents get as null; "
                    "a reward is a finite number or None."
                )
            if _has_non_finite(output.metadata):
                self.lost.append(
                    f"Tool {name!r} returned NaN or an infinity in metadata, which becomes null: "
                    f"{shorten(str(output.metadata), 80)}."
                )
        return answer


def _has_non_finite(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(_has_non_finite(item) for item in value.values())
    return isinstance(value, list | tuple) and any(_has_non_finite(item) for item in value)


T = TypeVar("T")


class LocalEnvironment:
    """The environment of `hosted_class`. It has to be created on the event loop that uses it."""

    def __init__(
        self, hosted_class: HostedClass, limit: TimeLimit, secrets: Mapping[str, str]
    ) -> None:
        self.name, self.hosted = hosted_class.name, hosted_class
        self.secrets = dict(secrets)
        self.pool = ThreadPool()
        self._limit = limit
        self._source = ClassTasks(hosted_class, UserCode(self.pool).call)
        self._limits = Limits(close_wait_seconds=limit.seconds / 2)
        self._host = CheckedHost(Registry([hosted_class]), self.pool, self._limits)
        self.lost: set[str] = set()
        """A sentence for each value in outputs that JSON cannot represent."""

    async def tools(self) -> dict[str, Any]:
        return _object(self.hosted.tools_json)

    async def splits(self) -> list[dict[str, Any]]:
        return [split.model_dump() for split in self.hosted.splits]

    async def tasks(self, split: str) -> list[Any] | None:
        try:
            texts = await self.step(f"list_tasks({split!r})", self._source.listing(split))
        except NotImplementedError:
            return None
        return [json.loads(text) for text in texts]

    async def count(self, split: str) -> int:
        return await self.step(f"num_tasks({split!r})", self._source.count(split))

    async def task(self, split: str, index: int) -> Any:
        return json.loads(
            await self.step(f"get_task({split!r}, {index})", self._source.get(split, index))
        )

    async def task_range(self, split: str, start: int | None, stop: int | None) -> list[Any]:
        return await self.step(
            f"get_task_range({split!r}, {start}, {stop})", self._range(split, start, stop)
        )

    async def _range(self, split: str, start: int | None, stop: int | None) -> list[Any]:
        return [
            json.loads(text)
            async for chunk in self._source.range(split, start, stop)
            for text in chunk
        ]

    async def open(self, sample: Sample, *, with_setup: bool = True) -> LocalSeat:
        return await self.open_with(sample, self.secrets, with_setup=with_setup)

    async def open_with(
        self, sample: Sample, secrets: dict[str, str], *, with_setup: bool = True
    ) -> LocalSeat:
        """Open a session with `secrets` instead of the default ones."""
        try:
            instance = await self._instance()
        except EnvironmentFault as fault:
            raise Broken(fault.text) from fault
        building = instance.construct(copy.deepcopy(sample.task), dict(secrets), None)
        seat = LocalSeat(self, instance, sample)
        try:
            has_setup = await self.step(
                f"Constructing {self.hosted.cls.__name__} for {sample.label}", building
            )
        except BaseException:
            await leave(seat)
            raise
        if has_setup and with_setup:
            try:
                await self.step(f"setup() for {sample.label}", instance.set_up())
            except BaseException:
                await leave(seat)
                raise
        return seat

    async def _instance(self) -> CheckedInstance | CheckedWorkerInstance:
        """Return a new instance. Its process has started, which is no step. Raises:
        EnvironmentFault."""
        if self.hosted.isolation != "session":
            return self._host.instance(self.name)
        # late: 0.1 s for fresh_process.py
        from environments.checking.session_processes import SessionProcesses

        return await SessionProcesses(
            self.hosted, self._limits, self._limit.import_seconds
        ).instance()

    def shut(self) -> None:
        self.pool.close()

    async def step(self, what: str, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work` within the time limit. Raises: Broken, RequestRefused."""
        try:
            return await self._limit.within(what, work)
        except EnvironmentFault as fault:
            raise Broken(
                f"{what} raised {fault}{f' ({fault.place})' if fault.place else ''}."
            ) from fault
        except OrsError as error:
            raise RequestRefused(str(error)) from error


class LocalSeat:
    def __init__(
        self,
        environment: LocalEnvironment,
        instance: CheckedInstance | CheckedWorkerInstance,
        sample: Sample,
    ) -> None:
        self._door, self._instance, self._label = environment, instance, sample.label

    async def prompt(self) -> Any:
        return json.loads(
            await self._door.step(f"get_prompt() for {self._label}", self._instance.prompt_json())
        )

    async def tools(self) -> dict[str, Any]:
        listing = self._instance.task_tools_json()
        return _object(await self._door.step(f"list_task_tools() for {self._label}", listing))

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> CallAnswer:
        running = self._instance.run(tool, copy.deepcopy(dict(arguments)))
        outcome = await self._door.step(f"Tool {tool!r} in {self._label}", running)
        self._door.lost.update(await self._instance.lost())
        output = None if outcome.output_json is None else _object(outcome.output_json)
        place = EnvironmentFault("", "", outcome.trace).place
        error = f"{outcome.error} ({place})" if place else outcome.error
        return CallAnswer(outcome.status, output, error, outcome.reason)

    async def score(self, candidates: list[dict[str, Any]]) -> Any:
        group = ScoreGroup.model_validate({"candidates": candidates}).candidates
        scoring = self._instance.score(group)
        return json.loads(await self._door.step(f"score_group() for {self._label}", scoring))

    async def save(self) -> bytes:
        """Return what the class's `save` returns. Raises: RequestRefused if it cannot be kept."""
        return b64decode(await self._door.step(f"save() in {self._label}", self._instance.save()))

    async def load(self, state: bytes) -> None:
        """Give the class's `load` what `save` has returned."""
        await self._door.step(f"load() in {self._label}", self._instance.restore(state))

    async def exploits(self) -> list[str]:
        """Return the names of the class's exploits."""
        return await self._door.step(f"exploits() for {self._label}", self._instance.exploits())

    async def calls(self, exploit: str | None = None) -> AsyncIterator[Any]:
        """Yield the calls of an exploit, or of the oracle, each when it is requested."""
        what = f"exploits() for {self._label}" if exploit else f"oracle() for {self._label}"
        await self._door.step(what, self._instance.begin_calls(exploit))
        while (call := await self._door.step(what, self._instance.next_call())) is not None:
            yield call

    async def tear_down(self) -> None:
        """Call teardown, which `close` calls again."""
        await self._door.step(f"teardown() of {self._label}", self._instance.tear_down())

    async def close(self) -> None:
        await self._door.step(f"teardown() of {self._label}", self._instance.close())


def _object(text: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text)
    return value
