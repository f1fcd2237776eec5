"""A server of chat completions without a model, for the tests in this directory: a function plays.

with serve(halving) as url: OpenAI(base_url=url)
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Message = dict[str, Any]
Policy = Callable[[list[Message]], Message]
"""Returns the assistant's next message in a conversation."""


def tool_call(name: str, arguments: Any, text: str | None = None) -> Message:
    """Return a message of the assistant that calls a tool. `arguments`: an object, or the text that
    stands for one."""
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    function = {"name": name, "arguments": written}
    call = {"id": f"call_{threading.get_ident()}", "type": "function", "function": function}
    return {"role": "assistant", "content": text, "tool_calls": [call]}


def text_of(message: Message) -> str:
    content = message.get("content") or ""
    return (
        content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)
    )


def range_in(messages: list[Message]) -> tuple[int, int]:
    """Return the lowest and the highest number that the game `guess` has left possible."""
    heard = " ".join(text_of(message) for message in messages)
    low, high = map(int, re.findall(r"whole number from (\d+) to (\d+)", heard)[0])
    for word, number in re.findall(r"number is (higher|lower) than (\d+)", heard):
        low, high = (
            (max(low, int(number) + 1), high)
            if word == "higher"
            else (low, min(high, int(number) - 1))
        )
    return low, high


def halving(messages: list[Message]) -> Message:
    """Play the game `guess` well."""
    return tool_call("guess", {"number": sum(range_in(messages)) // 2})


def completion(message: Message) -> Message:
    """Return an answer of the chat completions API with that message."""
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    choice = {"index": 0, "finish_reason": reason, "message": message, "logprobs": None}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {
        **{"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "stub"},
        **{"choices": [choice], "usage": usage},
    }


@contextmanager
def serve(policy: Policy) -> Iterator[str]:
    """Serve a policy until the block ends, and return the base URL of its API."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = json.dumps(completion(policy(body["messages"]))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *values: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_port}/v1"
        httpd.shutdown()
