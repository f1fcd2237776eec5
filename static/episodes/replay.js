// The replay: connects the step list, the transcript, the chart and the search, handles keys, and follows a running episode.
import { Finder } from "./find_text.js";
import { Playback } from "./playback.js";
import { StepList } from "./step_list.js";
import { ReturnChart } from "./return_chart.js";
import { StepTimeline, inMinutes } from "./step_timeline.js";
import { Steps } from "./steps.js";
import { Windows } from "./transcript_windows.js";
import { runShortcut } from "../orsweb/keys.js";

const FOLDS = "orsweb:replay-folds";
const SAID_MS = 4000;
const MESSAGES_MS = 1500;
const AFTER_END_MS = [1000, 4000, 10_000]; // the stream of events ends with the episode
const ADDRESS_MS = 400; // browsers allow a few changes of the address a second

const page = document.querySelector("[data-replay]");
const transcript = page.querySelector("[data-transcript]");
const facts = page.dataset;
const steps = new Steps({
  place: facts.rail,
  definition: facts.definition,
  low: Number(facts.low),
  high: Number(facts.high),
  total: Number(facts.total),
  status: facts.status,
});
const windows = new Windows(transcript, {
  size: Number(facts.window),
  address: `${facts.steps}?return=${facts.definition}`,
  total: Number(facts.total),
  first: Number(facts.first),
});
const rail = new StepList(page.querySelector("[data-step-rail]"), steps);
const chart = new ReturnChart(page.querySelector("[data-chart-panel]"), steps, go);
const timeline = new StepTimeline(page.querySelector("[data-time-panel]"), steps, go);
const playback = new Playback(page.querySelector("[data-playback]"), steps, timeline, go);
const finder = new Finder(page.querySelector("[data-find-form]"), facts.find, {
  found: (found) => rail.mark(found),
  go,
  at: () => windows.current,
});
const followButton = page.querySelector("[data-follow]");
let addressTimer = 0;
let markTimer = 0;
let saidTimer = 0;
let isOver = facts.status !== "running";

// --- the current step ------------------------------------------------------------------------------------------------

function go(index) {
  setFollowing(index >= steps.total - 1 && steps.status === "running");
  return windows.go(index);
}

function moved() {
  const index = windows.current;
  transcript.querySelector(".step.current")?.classList.remove("current");
  windows.card(index)?.classList.add("current");
  rail.show(index);
  chart.show(index);
  timeline.show(index);
  playback.moved(index);
  showFacts(index);
  clearTimeout(addressTimer);
  addressTimer = setTimeout(() => keepAddress(index), ADDRESS_MS);
}

function addressOf(index) {
  const address = new URL(location.href);
  address.searchParams.delete("step");
  address.hash = `step-${index}`;
  return address;
}

function keepAddress(index) {
  if (location.hash || index) history.replaceState(history.state, "", addressOf(index));
}

// Show the details of the current step and the components of its reward in the side column.
function showFacts(index) {
  const panel = page.querySelector("[data-step-panel]");
  const card = windows.card(index);
  panel.hidden = !card;
  if (!card) return;
  panel.querySelector("[data-step-number]").textContent = `${index} · ${card.querySelector(".tool-name").textContent}`;
  const told = [card.querySelector(".components"), card.querySelector(".step-facts")].filter(Boolean);
  panel.querySelector("[data-step-facts]").replaceChildren(...told.map((one) => one.cloneNode(true)));
}

function loaded() {
  if (windows.card(windows.current) && !transcript.querySelector(".step.current")) moved();
  clearTimeout(markTimer);
  markTimer = setTimeout(() => finder.mark(), 100);
}

// --- collapsing -----------------------------------------------------------------------------------------------------------

const folds = page.querySelector("[data-folds]");

function fold() {
  const kept = {};
  for (const choice of folds.querySelectorAll("input")) {
    kept[choice.value] = choice.checked;
    if (choice.value === "long") transcript.classList.toggle("unfold-long", !choice.checked);
    else transcript.classList.toggle(`fold-${choice.value}`, choice.checked);
  }
  return kept;
}

function restoreFolds() {
  try {
    const kept = JSON.parse(localStorage.getItem(FOLDS) ?? "{}");
    for (const choice of folds.querySelectorAll("input")) choice.checked = kept[choice.value] ?? choice.checked;
  } catch {
    localStorage.removeItem(FOLDS);
  }
  fold();
}

folds.addEventListener("change", () => localStorage.setItem(FOLDS, JSON.stringify(fold())));

// --- keys --------------------------------------------------------------------------------------------------------------

function find(by, holds) {
  const index = steps.next(windows.current, by, holds);
  if (index >= 0) go(index);
}

const isRewarded = (index) => Boolean(steps.rewards[index]);
const isError = (index) => steps.states[index] !== "o";

const KEYS = {
  j: () => go(windows.current + 1),
  k: () => go(windows.current - 1),
  n: () => find(1, isRewarded),
  p: () => find(-1, isRewarded),
  e: () => find(1, isError),
  E: () => find(-1, isError),
  g: () => {
    setFollowing(false);
    windows.home();
    return false; // the frame has to see it: g and a letter opens a page
  },
  G: () => go(steps.total - 1),
  "/": () => finder.focus(),
  f: () => {
    folds.open = !folds.open;
    if (folds.open) folds.querySelector("input").focus();
  },
  c: () => facts.continue && steps.total > 0 && location.assign(`${facts.continue}?step=${windows.current}`),
  m: () => steps.total > 0 && document.dispatchEvent(new CustomEvent("orsweb:note", { detail: { step: windows.current } })),
  l: copyLink,
  d: () => page.querySelector("[data-download]")?.click(),
  " ": () => playback.toggle(),
  "<": () => playback.changeSpeed(-1),
  ">": () => playback.changeSpeed(1),
};
for (const key of ["[", "]", "{", "}"]) KEYS[key] = () => neighbour(key);

// Say so when there is no such episode: a key that does nothing looks broken.
function neighbour(key) {
  const found = document.querySelector(`.neighbours [data-key="${key}"]`);
  if (found?.href) return found.click();
  const said = document.querySelector("[data-neighbours-end]");
  said.textContent = found ? found.dataset.end : "This episode is not in a run.";
  clearTimeout(saidTimer);
  saidTimer = setTimeout(() => (said.textContent = ""), SAID_MS);
}

async function copyLink() {
  const button = page.querySelector("[data-copy-link]");
  const address = addressOf(windows.current);
  history.replaceState(history.state, "", address);
  try {
    await navigator.clipboard.writeText(address.href);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Link is in the address bar"; // the clipboard is for localhost and https only
  }
  setTimeout(() => (button.textContent = "Copy link"), 1500);
}

// --- following ---------------------------------------------------------------------------------------------------------

function setFollowing(isOn) {
  followButton?.setAttribute("aria-pressed", String(isOn));
}

const isFollowing = () => followButton?.getAttribute("aria-pressed") === "true";

// The frame of the page says what its headline says, which is out of view.
const title = document.title.replace(/^.*(?=Episode )/, "");

function showEnding() {
  const ending = page.querySelector("#headline .ending");
  const place = page.querySelector("[data-ending-so-far]");
  if (!place || place.dataset.ending === ending.dataset.ending) return;
  place.dataset.ending = ending.dataset.ending;
  place.replaceChildren(ending.cloneNode(true));
  document.title = `${ending.textContent} · ${title}`;
}

// Calls that run now, each with its clock.
let calls = [];

function showCalls() {
  const rows = calls.map(({ tool, since }) => {
    const row = document.createElement("p");
    row.className = "running-call";
    const name = Object.assign(document.createElement("code"), { textContent: tool });
    row.append(name, ` running for ${inMinutes(Math.floor((performance.now() - since) / 1000))}`);
    return row;
  });
  page.querySelector("[data-running-calls]").replaceChildren(...rows);
}

async function changed() {
  page.querySelector("[data-no-steps]").hidden = steps.total > 0;
  page.querySelector("[data-end-mark]").hidden = steps.status === "running" || !steps.total;
  if (steps.status !== "running") ended();
  await windows.grow(steps.total);
  if (isFollowing()) windows.go(steps.total - 1);
  else if (steps.total && !transcript.querySelector(".step.current")) moved();
}

// Called however the page learned of it: from an event, or from the steps that it read after being hidden.
function ended() {
  if (isOver) return;
  isOver = true;
  followButton?.remove();
  for (const ms of AFTER_END_MS) setTimeout(messagesMayHaveArrived, ms);
  document.dispatchEvent(new CustomEvent("orsweb:over"));
}

function gone() {
  warn("This episode was deleted. You can still read what is on this page, but nothing more can be loaded.");
}

// Show a sentence once.
function warn(sentence) {
  if (page.querySelector("[data-warning]")?.textContent === sentence) return;
  const notice = document.createElement("p");
  notice.className = "notice";
  notice.dataset.kind = "warn";
  notice.setAttribute("role", "alert");
  notice.dataset.warning = "";
  notice.textContent = sentence;
  page.querySelector(".headline").after(notice);
}

// --- the model's messages ----------------------------------------------------------------------------------------------

let messageCount = Number(facts.messageCount);
let messageTimer = 0;

// Clients upload messages a second or so after they happen, also after the end of the episode.
function messagesMayHaveArrived() {
  messageTimer ||= setTimeout(async () => {
    messageTimer = 0;
    const answer = await fetch(facts.messages, { headers: { Accept: "application/json" } });
    if (!answer.ok) return;
    const { messages } = await answer.json();
    if (messages === messageCount) return;
    messageCount = messages;
    const line = page.querySelector("#rollout");
    if (line) htmx.ajax("GET", facts.rollout, { source: line, target: line, swap: "outerHTML" });
    await windows.refresh();
    if (isFollowing()) windows.go(steps.total - 1);
  }, MESSAGES_MS);
}

// --- start -------------------------------------------------------------------------------------------------------------

const stepOf = (hash) => /^#step-(\d{1,9})$/.exec(hash)?.[1];

function asked() {
  const step = stepOf(location.hash) ?? facts.asked;
  return step === "" ? null : Number(step);
}

// The address may name the current step again by the time that this is called.
function followLink({ newURL }) {
  const step = stepOf(new URL(newURL).hash);
  if (step !== undefined) go(Number(step));
}

// A link to a message names the step after it.
function showMessage() {
  const message = location.hash.startsWith("#message-") && document.getElementById(location.hash.slice(1));
  if (message) windows.show(message);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const step = stepOf(link.hash);
  if (step === undefined) return windows.letScroll();
  event.preventDefault();
  go(Number(step));
});
transcript.addEventListener("htmx:afterSettle", () => finder.mark());
document.addEventListener("keydown", (event) => runShortcut(event, KEYS));
document.addEventListener("orsweb:calls", ({ detail }) => {
  calls = detail.calls.map(({ tool, seconds }) => ({ tool, since: performance.now() - 1000 * seconds }));
  showCalls();
});
if (!isOver) setInterval(showCalls, 1000);
document.addEventListener("htmx:afterSwap", showEnding);
document.addEventListener("orsweb:live", ({ detail: { type } }) => {
  if (type !== "messages") steps.read();
  if (type === "messages" || type === "catch-up") messagesMayHaveArrived();
});
window.addEventListener("hashchange", followLink);
page.querySelector("[data-copy-link]").addEventListener("click", copyLink);
followButton?.addEventListener("click", () => {
  if (isFollowing()) return setFollowing(false);
  setFollowing(true);
  windows.go(steps.total - 1);
});
windows.addEventListener("moved", moved);
windows.addEventListener("loaded", loaded);
windows.addEventListener("scrolled", () => {
  setFollowing(false);
  playback.stop();
});
steps.addEventListener("change", changed);
steps.addEventListener("gone", gone);
steps.addEventListener("failed", () => warn("The list of steps could not be loaded. Reload the page to try again."));
windows.addEventListener("gone", gone);

// below the transcript, it starts with its headings
if (matchMedia("(max-width: 1150px)").matches) {
  for (const section of page.querySelectorAll(".replay-side > details, .note-fold")) section.open = section.contains(page.querySelector(":target"));
}
page.classList.add("has-windows");
restoreFolds();
showEnding();
if (steps.status === "running" && asked() === null) setFollowing(true);
if (asked() !== null) go(asked()).then(showMessage);
else if (steps.total) moved();
steps.read();
