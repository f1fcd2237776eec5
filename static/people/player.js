// The player's page: connects the websocket, the composer and the clock, extends the transcript, and shows the result.
import { click, runShortcut } from "../orsweb/keys.js";
import { signed } from "../orsweb/figures.js";
import { Clock } from "./clock.js";
import { Composer } from "./composer.js";
import { Connection } from "./connection.js";
import { makePressable } from "./marks.js";

const ALIVE_MS = 20_000;
const SAID_CHARACTERS = 300;
const RELOAD_MS = 700;

const page = document.querySelector("[data-player]");
const transcript = page.querySelector("[data-transcript]");
const scroll = page.querySelector("[data-scroll]");
const notices = page.querySelector("[data-notices]");
const saidPlace = document.querySelector("[data-said]");
const sign = document.querySelector("[data-live-state]");
const isOver = "isOver" in page.dataset;
const played = "isPlain" in page.dataset ? "task" : "episode";
const connection = new Connection(page.dataset.socket, () => last);
const answers = new Map(); // id of a question -> who waits for its answer
let last = Number(page.dataset.last); // index of the last step that is shown
let pending = null; // the call that is on its way, until its step is shown
let clock = null;
let composer = null;
let drawn = -1; // index of the step whose picture stays in view
let alive = 0;
let questions = 0;

// --- messages of the server -------------------------------------------------------------------------------------------

const HEARD = {
  state(message) {
    if (message.status === "running" && !("isReady" in page.dataset)) return reloadSoon();
    clock.set(message);
    clock.setCalls(message.running);
    showFigures(message);
    grow(message.html);
    for (const id of message.calls) settled(id); // whose answer was lost
    if (pending) connection.send(pending.message);
    for (const { message: asked } of answers.values()) connection.send(asked);
  },
  ready: () => "isReady" in page.dataset || reloadSoon(),
  running(message) {
    clock.addCall(message);
    if (pending?.message.task_id === message.task_id) pending.isRunning = true;
  },
  step(message) {
    clock.endCall(message.task_id);
    clock.set(message);
    showFigures(message);
    grow(message.html);
    settled(message.task_id);
  },
  done(message) {
    clock.endCall(message.task_id);
    settled(message.task_id);
  },
  time: (message) => clock.set(message),
  invalid(message) {
    const call = settled(message.task_id, false);
    if (call) composer.invalid(call.number, message.errors);
  },
  form(message) {
    answers.get(message.id)?.resolve(message);
    answers.delete(message.id);
  },
  error(message) {
    settled(message.task_id, false);
    if (message.task_id === undefined) unanswered(message.message);
    notice("error", message.message, "bad");
  },
  ended,
};

function reloadSoon() {
  setTimeout(() => location.reload(), RELOAD_MS);
}

function showFigures({ steps, returned }) {
  page.querySelector("[data-steps]").textContent = `${steps} step${steps === 1 ? "" : "s"}`;
  const place = page.querySelector("[data-returned]");
  if (place) place.textContent = returned === null ? "–" : signed(returned);
}

// --- the transcript --------------------------------------------------------------------------------------------------

// Skip steps that are already there and were sent again after a lost connection.
function grow(html) {
  const made = document.createElement("template");
  made.innerHTML = html;
  const fresh = [...made.content.querySelectorAll(".step")].filter((step) => Number(step.dataset.index) > last);
  for (const step of fresh) {
    transcript.append(step);
    htmx.process(step);
    last = Number(step.dataset.index);
    step.classList.add("fresh");
  }
  if (!fresh.length) return;
  draw();
  say(fresh.at(-1));
  show(fresh.at(-1));
}

function say(step) {
  const output = step.querySelector(".error, [data-side=output] .said-text")?.textContent ?? "";
  const reward = step.querySelector(".figures .reward")?.textContent.trim() ?? "";
  saidPlace.textContent = `Step ${step.dataset.index}, ${step.querySelector(".tool-name").textContent}${reward ? `, reward ${reward}` : ""}: ${output.slice(0, SAID_CHARACTERS)}`;
}

// Scroll to the end of the step if all of it fits above the composer, otherwise to its beginning. Images grow when they are loaded.
function show(step) {
  step.scrollIntoView({ block: step.offsetHeight + 8 > scroll.clientHeight ? "start" : "nearest" });
  for (const image of step.querySelectorAll("img")) {
    image.loading = "eager";
    if (!image.complete) image.addEventListener("load", () => last === Number(step.dataset.index) && show(step), { once: true });
  }
}

// The newest image or text stays in view, if the environment's hand_controls ask for it.
async function draw() {
  const place = page.querySelector("[data-drawing]");
  if (!place) return;
  const isImage = place.dataset.drawing === "image";
  const sources = isImage ? ".zoom img" : "[data-side=output] .said-text";
  const found = [...transcript.querySelectorAll(".step")].findLast((step) => step.querySelector(sources)) ?? page.querySelector(".prompt");
  const newest = found && [...found.querySelectorAll(isImage ? ".zoom img" : ".said-text")].at(-1);
  if (!newest) return;
  const shown = isImage ? new Image() : newest.cloneNode(true);
  if (isImage) {
    Object.assign(shown, { src: newest.src, alt: "How it looks now" });
    await shown.decode().catch(() => {});
    if (found.matches(".step") && Number(found.dataset.index) < drawn) return; // a newer one came first
    drawn = Number(found.dataset.index ?? -1);
  }
  const marks = isOver ? null : document.getElementById("play-marks");
  if (!isImage && marks) makePressable(shown, JSON.parse(marks.textContent), (control) => composer?.press(control));
  place.replaceChildren(shown);
  place.hidden = false;
  page.classList.add("has-drawing");
}

// Keep the newest step in sight when the room for it changes, as by the keyboard of a phone.
function fit() {
  const newest = transcript.querySelector(".step:last-child");
  if (newest && !page.querySelector(".outcome")) show(newest);
}

// The keyboard of some phones covers the page instead of making it smaller.
function keepAboveKeyboard() {
  document.documentElement.style.setProperty("--visible-height", `${window.visualViewport.height}px`);
  window.scrollTo(0, 0);
}

function move(by) {
  const steps = [...transcript.querySelectorAll(".step")];
  const at = steps.findIndex((step) => step.classList.contains("current"));
  const to = steps[at < 0 ? (by < 0 ? steps.length - 1 : 0) : Math.max(0, Math.min(steps.length - 1, at + by))];
  if (!to) return;
  steps[at]?.classList.remove("current");
  to.classList.add("current");
  to.scrollIntoView({ block: "nearest" });
}

// --- calls -----------------------------------------------------------------------------------------------------------

function call({ detail: { number, anyway, ...detail } }) {
  notice("error");
  const message = { type: "call", ...detail, task_id: crypto.randomUUID?.() ?? randomId(), ...(anyway && { anyway }) };
  pending = { message, number, isRunning: false };
  connection.send(message); // without a connection: when it is back
}

// Browsers have no randomUUID on pages from another machine without encryption.
function randomId() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function settled(id, wasCalled = true) {
  if (!pending || pending.message.task_id !== id) return null;
  const call = pending;
  pending = null;
  composer.free();
  if (wasCalled) composer.called(call.number, call.message.entry);
  return call;
}

// The server's response for a form; requested again after a lost connection.
function ask(message) {
  const id = ++questions;
  const asked = { ...message, type: "form", id };
  connection.send(asked);
  return new Promise((resolve) => answers.set(id, { message: asked, resolve }));
}

// The server rejected the input and would reject it again.
function unanswered(words) {
  for (const { resolve } of answers.values()) resolve({ error: words });
  answers.clear();
}

function stayAlive() {
  const now = performance.now();
  if (now - alive < ALIVE_MS) return;
  if (connection.send({ type: "alive" })) alive = now;
}

// --- the end ---------------------------------------------------------------------------------------------------------

function ended({ html, content }) {
  connection.end();
  if ("isBlind" in page.dataset) return location.reload(); // what was hidden is now there
  clock.stop();
  composer?.hide();
  for (const one of page.querySelectorAll("[data-leave], [data-starting], [data-until-end]")) one.remove();
  for (const one of ["lost", "soon", "last", "error"]) notice(one);
  if (content) page.querySelector("[data-content]").innerHTML = content;
  const place = page.querySelector("[data-outcome]");
  place.innerHTML = html;
  tokens(place);
  const outcome = place.querySelector(".outcome");
  page.querySelector("[data-clock]").parentElement.hidden = false;
  page.querySelector("[data-clock]").textContent = outcome.querySelector("[data-acted]").textContent; // as it was recorded
  page.querySelector("[data-ending-mark]").replaceChildren(...outcome.querySelector("[data-ending-copy]").cloneNode(true).childNodes);
  outcome.scrollIntoView({ block: "nearest" });
  outcome.focus({ preventScroll: true });
  if (sign) sign.hidden = true;
}

// HTML that was rendered for the websocket has no request, so its forms have no CSRF token yet.
function tokens(place) {
  const token = document.querySelector("[data-token] [name=csrfmiddlewaretoken]");
  for (const form of place.querySelectorAll("form[method=post]")) {
    if (!form.elements.csrfmiddlewaretoken) form.append(token.cloneNode());
  }
}

// --- notices ---------------------------------------------------------------------------------------------------------

// Show one notice per name; an empty text removes it. `way`: a button or a link after the text.
function notice(name, words = "", kind = "warn", way = null) {
  notices.querySelector(`[data-notice="${name}"]`)?.remove();
  if (!words) return;
  const element = document.createElement("p");
  element.className = "notice";
  element.dataset.notice = name;
  element.dataset.kind = kind;
  element.setAttribute("role", "alert");
  element.append(words, ...(way ? [" ", way] : []));
  notices.append(element);
}

function warn() {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button";
  button.textContent = "I'm still here";
  button.addEventListener("click", () => {
    alive = 0;
    connection.send({ type: "alive" });
  });
  notice("soon", `You have done nothing for a while. The ${played} ends in one minute.`, "warn", button);
}

function connected(isConnected) {
  if (sign) {
    sign.hidden = false;
    sign.dataset.liveState = isConnected ? "live" : "waiting";
    sign.textContent = isConnected ? "live" : "reconnecting";
  }
  composer.wait(!isConnected && !pending?.isRunning);
  notice("lost", isConnected ? "" : `Connection lost, reconnecting. Your ${played} is kept for a while.`);
}

// The server would not accept this page again, so it doesn't reconnect.
function shutOut({ why, words: sentence }) {
  const [words, address, label] = {
    login: [`Your ${"isGuest" in page.dataset ? "invite is no longer valid; open its link again, or ask for a new one" : "login has expired"}. Your steps were recorded.`, page.dataset.login, "Log in again"],
    invite: [sentence, "", ""],
    stranger: [`Someone else is logged in here now, so you can't continue this ${played}.`, page.dataset.choose, "Choose what to play"],
  }[why];
  if (sign) sign.hidden = true;
  clock.stop();
  composer.hide();
  for (const one of page.querySelectorAll("[data-until-end], [data-leave]")) one.remove();
  settled(pending?.message.task_id, false);
  unanswered(words);
  for (const one of ["lost", "soon", "error"]) notice(one);
  notice("shut-out", words, "bad", address && !(why === "login" && "isGuest" in page.dataset) ? link(address, label) : null);
}

function link(address, label) {
  const element = document.createElement("a");
  element.href = address;
  element.textContent = label;
  return element;
}

// --- start -----------------------------------------------------------------------------------------------------------

const KEYS = { j: () => move(1), k: () => move(-1), n: () => click("[data-next]") };

function start() {
  clock = new Clock(page);
  composer = new Composer(page.querySelector("[data-composer]"), page.dataset.environment, ask);
  composer.addEventListener("call", call);
  composer.addEventListener("typed", stayAlive);
  // who reads or looks around is there, too
  for (const kind of ["scroll", "pointermove", "keydown"]) document.addEventListener(kind, stayAlive, { passive: true, capture: true });
  clock.addEventListener("soon", warn);
  clock.addEventListener("last", () => notice("last", "One minute left for this task."));
  clock.addEventListener("later", () => notice("soon"));
  connection.addEventListener("message", ({ detail }) => HEARD[detail.type]?.(detail));
  connection.addEventListener("open", () => connected(true));
  connection.addEventListener("lost", () => connected(false));
  connection.addEventListener("unwelcome", ({ detail }) => shutOut(detail));
  connection.addEventListener("refused", ({ detail }) => {
    settled(pending?.message.task_id, false);
    unanswered(detail);
    notice("error", detail, "bad");
  });
  const dialog = document.querySelector("[data-leave-dialog]");
  page.querySelector("[data-leave]").addEventListener("click", () => dialog.showModal());
  // before the page that says how the clock stands is asked for; not for one in a new tab
  page.querySelector("[data-pause]")?.addEventListener("click", (event) => event.ctrlKey || event.metaKey || event.shiftKey || connection.drop());
  dialog.addEventListener("close", () => dialog.returnValue === "leave" && connection.send({ type: "leave" }));
  new ResizeObserver(fit).observe(scroll);
  window.visualViewport?.addEventListener("resize", keepAboveKeyboard);
  connection.open();
  const newest = transcript.querySelector(".step:last-child");
  if (newest) show(newest);
}

document.addEventListener("keydown", (event) => runShortcut(event, KEYS));
page.querySelector("[data-goal-more]")?.addEventListener("click", ({ target }) => {
  const isOpen = page.querySelector("[data-goal]").classList.toggle("open");
  target.setAttribute("aria-expanded", String(isOpen));
  target.textContent = isOpen ? "Show less" : "Show the whole task";
});
draw();
if (isOver) page.querySelector(".outcome")?.focus({ preventScroll: true });
else start();
