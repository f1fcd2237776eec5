// Live: follows the channel that <body data-live="…"> names, with one EventSource a page, closed while it is hidden.
//
// Each event is told to the page as `orsweb:live` on document, detail {type, ids, counts, …}; type "catch-up" says that
// events may have been missed. Elements with data-refetch="URL" are fetched again and replaced (the answer is the element
// anew); data-refetch-on="started ended" names the types that concern it, else all do.
const TYPES = ["started", "noted", "steps", "ended"];
const PAUSE_MS = 1000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 30_000;
const WORDS = { live: "live", waiting: "reconnecting", paused: "paused" };

const channel = document.body.dataset.live;
const sign = document.querySelector("[data-live-state]");
let source = null;
let retry = 0;
let retryMs = FIRST_RETRY_MS;
let missed = false;

function show(state) {
  if (!sign) return;
  sign.hidden = false;
  sign.dataset.liveState = state;
  if (sign.textContent !== WORDS[state]) sign.textContent = WORDS[state];
}

function tell(type, detail) {
  document.dispatchEvent(new CustomEvent("orsweb:live", { detail: { ids: [], counts: {}, ...detail, type } }));
}

// --- the stream ------------------------------------------------------------------------------------------------------

function open() {
  clearTimeout(retry);
  if (source || document.hidden) return;
  source = new EventSource(`/events/?channel=${encodeURIComponent(channel)}`);
  source.addEventListener("stream-open", opened);
  source.addEventListener("error", lost);
  for (const type of TYPES) source.addEventListener(type, (event) => tell(type, JSON.parse(event.data)));
}

function opened() {
  retryMs = FIRST_RETRY_MS;
  show("live");
  if (missed) tell("catch-up", {});
  missed = false;
}

function close() {
  clearTimeout(retry);
  source?.close();
  source = null;
  missed = true;
}

// The browser's own reconnecting hammers a server that is starting again, and gives up on an answer that is no stream.
function lost() {
  close();
  if (document.hidden) return;
  show("waiting");
  retry = setTimeout(open, retryMs * (0.75 + Math.random() / 2));
  retryMs = Math.min(retryMs * 2, LONGEST_RETRY_MS);
}

function seen() {
  if (!document.hidden) return open();
  close();
  show("paused");
}

// --- what is fetched again -------------------------------------------------------------------------------------------

const due = new Map(); // address -> timer
const fetched = new Map(); // address -> when

function refetch(address) {
  if (due.has(address)) return;
  const wait = Math.max(0, (fetched.get(address) ?? -Infinity) + PAUSE_MS - performance.now());
  due.set(address, setTimeout(() => fetchNow(address), wait));
}

async function fetchNow(address) {
  fetched.set(address, performance.now());
  const element = document.querySelector(`[data-refetch="${CSS.escape(address)}"]`);
  try {
    if (element && !isInUse(element)) await htmx.ajax("GET", address, { target: element, swap: "outerHTML" });
  } finally {
    fetched.set(address, performance.now());
    due.delete(address);
  }
}

// Replacing it would take away what somebody is typing into or has opened.
function isInUse(element) {
  return element.contains(document.activeElement) && document.activeElement.matches("input, textarea, select");
}

document.addEventListener("orsweb:live", ({ detail }) => {
  for (const element of document.querySelectorAll("[data-refetch]")) {
    const types = element.dataset.refetchOn;
    if (!types || detail.type === "catch-up" || types.split(" ").includes(detail.type)) refetch(element.dataset.refetch);
  }
});

if (channel) {
  document.addEventListener("visibilitychange", seen);
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => event.persisted && open());
  seen();
}
