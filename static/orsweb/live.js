// Follows the event channel named by <body data-live="…" data-events="URL" data-position="…"> with one EventSource per page, which is closed
// while the page is hidden.
//
// Each event is dispatched as `orsweb:live` on document, detail {type, ids, counts, …}; type "catch-up" means that events may have been
// missed, which the server tells when something was recorded since the page's position, or when a stream was interrupted. Elements with data-refetch="URL" are fetched and replaced (the response is the new element), at most once a second or
// every data-refetch-pause="5" seconds, or after the seconds that the response names as X-Refetch-Pause if those are more; with
// X-Refetch-Again or data-refetch-again, always. data-refetch-on="started ended" lists the types that concern it, by default all. The calls of an episode that run
// now are dispatched as `orsweb:calls`, detail {calls: [{tool, seconds}]}. A page whose episode has ended dispatches `orsweb:over` on document: elements that concern the end are fetched once more, and the stream
// and its indicator are removed.
const TYPES = ["started", "noted", "steps", "ended", "messages", "catch-up"];
const PAUSE_SECONDS = 1;
const FAILURE_PAUSE_MS = 3000;
const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 30_000;
const SHARED = { "X-Refetch": "1" }; // what was made for another page since the last event will do
const WORDS = { live: "live", waiting: "reconnecting", paused: "paused" };

const channel = document.body.dataset.live;
const sign = document.querySelector("[data-live-state]");
let source = null;
let retry = 0;
let retryMs = FIRST_RETRY_MS;
let position = document.body.dataset.position; // of the record when the page was rendered; empty after an interruption

function show(state) {
  if (!sign) return;
  sign.hidden = false;
  sign.dataset.liveState = state;
  if (sign.textContent !== WORDS[state]) sign.textContent = WORDS[state];
}

function tell(type, detail) {
  document.dispatchEvent(new CustomEvent("orsweb:live", { detail: { ids: [], counts: {}, ...detail, type } }));
}

function tellCalls(detail) {
  document.dispatchEvent(new CustomEvent("orsweb:calls", { detail }));
}

// --- the stream ------------------------------------------------------------------------------------------------------

function open() {
  clearTimeout(retry);
  if (source || document.hidden) return;
  source = new EventSource(`${document.body.dataset.events}?channel=${encodeURIComponent(channel)}&position=${encodeURIComponent(position)}`);
  source.addEventListener("stream-open", opened);
  source.addEventListener("error", lost);
  for (const type of TYPES) source.addEventListener(type, (event) => tell(type, JSON.parse(event.data)));
  source.addEventListener("calls", (event) => tellCalls(JSON.parse(event.data)));
}

function opened() {
  retryMs = FIRST_RETRY_MS;
  show("live");
}

function close() {
  clearTimeout(retry);
  source?.close();
  source = null;
  position = "";
  tellCalls({ calls: [] });
}

// The browser's own reconnecting overloads a server that is restarting, and gives up if a response isn't a stream.
function lost() {
  close();
  if (document.hidden) return;
  show("waiting");
  retry = setTimeout(open, retryMs * (0.75 + Math.random() / 2));
  retryMs = Math.min(retryMs * 2, MAX_RETRY_MS);
}

function over() {
  tell("ended", {});
  document.removeEventListener("visibilitychange", seen);
  window.removeEventListener("pageshow", shown);
  close();
  sign?.remove();
}

function shown(event) {
  if (event.persisted) open();
}

function seen() {
  if (!document.hidden) return open();
  close();
  show("paused");
}

// --- refreshing elements -------------------------------------------------------------------------------------------

const due = new Set(); // addresses that are to be fetched
const fetching = new Set(); // addresses that are being fetched: what happens now may not be in the answer
const fetched = new Map(); // address -> when
const kept = new Set(); // elements that were not replaced: they were in use, or the server failed

const elementOf = (address) => document.querySelector(`[data-refetch="${CSS.escape(address)}"]`);

function refetch(element) {
  const address = element.dataset.refetch;
  if (due.has(address)) return;
  due.add(address);
  if (!fetching.has(address)) fetchLater(element);
}

const pauseMs = (element) => 1000 * (element.dataset.refetchPause ?? PAUSE_SECONDS);

function fetchLater(element) {
  const address = element.dataset.refetch;
  const wait = Math.max(0, (fetched.get(address) ?? -Infinity) + pauseMs(element) - performance.now());
  setTimeout(() => fetchNow(address), wait);
}

async function fetchNow(address) {
  due.delete(address);
  fetching.add(address);
  const element = elementOf(address);
  fetched.set(address, performance.now());
  if (element && !isInUse(element)) fetched.set(address, await replace(element, address));
  fetching.delete(address);
  if (kept.delete(element)) due.add(address);
  const current = elementOf(address);
  if (current && due.has(address)) fetchLater(current);
  else due.delete(address);
}

// Returns from when on the pause of the element counts. Rows that were not there before get the class `fresh`; the focus is restored.
async function replace(element, address) {
  const known = new Set([...element.querySelectorAll("[data-id]")].map((row) => row.dataset.id));
  element.addEventListener("htmx:beforeSwap", () => keepFocus(element, address), { once: true });
  const answer = await answered(element, address);
  if (!answer) {
    kept.add(element);
    return performance.now() + FAILURE_PAUSE_MS;
  }
  const current = elementOf(address);
  for (const row of current?.querySelectorAll("[data-id]") ?? []) row.classList.toggle("fresh", !known.has(row.dataset.id));
  if (answer.getResponseHeader("X-Refetch-Again") || current?.matches("[data-refetch-again]")) due.add(address);
  const askedMs = 1000 * (Number(answer.getResponseHeader("X-Refetch-Pause")) || 0);
  return performance.now() + Math.max(0, askedMs - pauseMs(element));
}

// A key that is pressed right after the swap has to find the focus where it was.
function keepFocus(element, address) {
  const focused = element.contains(document.activeElement) ? selectorOf(document.activeElement) : "";
  if (!focused) return;
  const restore = () => elementOf(address)?.querySelector(focused)?.focus({ preventScroll: true });
  document.addEventListener("htmx:afterSwap", restore, { once: true });
}

// The selector of a link or a button in what replaces it; empty if it has nothing to be known by.
function selectorOf(element) {
  const name = ["href", "data-series", "data-highlight"].find((one) => element.hasAttribute(one));
  return name ? `[${name}="${CSS.escape(element.getAttribute(name))}"]` : "";
}

// The answer; null if the server could not be reached or failed. Without a source, htmx sends one request at a time and drops others.
async function answered(element, address) {
  let answer = null;
  element.addEventListener("htmx:afterRequest", ({ detail }) => (answer = detail.xhr), { once: true });
  await htmx.ajax("GET", address, { source: element, target: element, swap: "outerHTML", headers: SHARED }).catch(() => {});
  return answer?.status > 0 && answer.status < 500 ? answer : null;
}

// True if replacing the element would remove a field that is in use or a link that is being clicked: a click needs its link
// from press to release.
function isInUse(element) {
  const found = element.querySelector("details.menu[open], :is(input, textarea, select):focus, :active");
  if (found) kept.add(element);
  return Boolean(found);
}

// The element may be in use since the request was sent.
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (detail.target.matches("[data-refetch]") && isInUse(detail.target)) detail.shouldSwap = false;
});

document.addEventListener("orsweb:live", ({ detail }) => {
  for (const element of document.querySelectorAll("[data-refetch]")) {
    const types = element.dataset.refetchOn;
    if (!types || detail.type === "catch-up" || types.split(" ").includes(detail.type)) refetch(element);
  }
});

if (channel) {
  document.addEventListener("visibilitychange", seen);
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", shown);
  document.addEventListener("orsweb:over", over, { once: true });
  document.querySelectorAll("[data-refetch-again]").forEach(refetch);
  seen();
}
