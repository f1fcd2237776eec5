// The player's socket: opened again when it is lost, with what the page has seen, so that nothing is told twice or never.
// One that has gone mute, as when a network stalls or a computer slept, is given up: its own close may take minutes to come.
const FIRST_RETRY_MS = 300;
const LONGEST_RETRY_MS = 8000;
const BEAT_MS = 10_000; // nothing was heard for so long: the server is asked whether it is there
const PATIENCE_MS = 10_000; // it has so long to answer
const LONGEST_PATIENCE_MS = 80_000; // twice as long after each time in vain, for what is large on a slow network
const TOO_LONG = 1009;
const NOT_WELCOME = 4404; // such as a guest whose invite is over

// Tells "message" (detail: what the server said), "open", "lost", "refused" (detail: a sentence), and "unwelcome" (detail:
// "login", "invite" or "stranger"): then it has given up, for the server would never let it in again.
export class Connection extends EventTarget {
  #address;
  #after;
  #socket = null;
  #retryMs = FIRST_RETRY_MS;
  #retry = 0;
  #patienceMs = PATIENCE_MS;
  #watch = 0;
  #isOver = false;

  // `after` answers the index of the last step that the page shows.
  constructor(path, after) {
    super();
    this.#address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`;
    this.#after = after;
    window.addEventListener("offline", () => this.#drop());
    window.addEventListener("online", () => (this.#drop(), this.open()));
    window.addEventListener("pageshow", (event) => event.persisted && this.open());
  }

  get isOpen() {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  open() {
    clearTimeout(this.#retry);
    if (this.#socket || this.#isOver) return;
    const socket = new WebSocket(`${this.#address}?after=${this.#after()}`);
    this.#socket = socket;
    let wasOpen = false;
    const isHeard = () => this.#socket === socket; // one that was dropped no longer is
    socket.addEventListener("open", () => (wasOpen = true));
    socket.addEventListener("message", (event) => isHeard() && this.#heard(JSON.parse(event.data)));
    socket.addEventListener("close", (event) => isHeard() && this.#lost(event.code, wasOpen));
    this.#expect(0);
  }

  // Whether it went out.
  send(message) {
    if (!this.isOpen) return false;
    this.#socket.send(JSON.stringify(message));
    return true;
  }

  // No more after that.
  end() {
    this.#isOver = true;
    clearTimeout(this.#retry);
    clearTimeout(this.#watch);
    this.#socket?.close();
  }

  #heard(message) {
    this.#retryMs = FIRST_RETRY_MS;
    this.#patienceMs = PATIENCE_MS;
    clearTimeout(this.#watch);
    this.#watch = setTimeout(() => this.#ask(), BEAT_MS);
    if (message.type === "state") this.dispatchEvent(new Event("open"));
    this.dispatchEvent(new CustomEvent("message", { detail: message }));
  }

  #ask() {
    const unsent = this.#socket.bufferedAmount;
    this.send({ type: "here" });
    this.#expect(unsent);
  }

  // Something has to be heard in time, unless of `unsent` bytes some have gone out: a large input is still on its way.
  #expect(unsent) {
    clearTimeout(this.#watch);
    this.#watch = setTimeout(() => {
      if (this.#socket.bufferedAmount < unsent) return this.#expect(this.#socket.bufferedAmount);
      this.#patienceMs = Math.min(this.#patienceMs * 2, LONGEST_PATIENCE_MS);
      this.#drop();
    }, this.#patienceMs);
  }

  #drop() {
    const socket = this.#socket;
    if (!socket || this.#isOver) return;
    this.#socket = null;
    socket.close();
    this.#tryLater();
  }

  async #lost(code, wasOpen) {
    this.#socket = null;
    clearTimeout(this.#watch);
    if (this.#isOver) return;
    const refusal = wasOpen && code !== NOT_WELCOME ? "" : await refusalOf(location.href);
    if (this.#isOver || this.#socket) return;
    if (refusal) {
      this.end();
      this.dispatchEvent(new CustomEvent("unwelcome", { detail: refusal }));
      return;
    }
    if (code === TOO_LONG) this.dispatchEvent(new CustomEvent("refused", { detail: "The input is larger than this server allows (ORSWEB_MAX_BODY_BYTES)." }));
    this.#tryLater();
  }

  #tryLater() {
    clearTimeout(this.#watch);
    clearTimeout(this.#retry);
    this.dispatchEvent(new Event("lost"));
    this.#retry = setTimeout(() => this.open(), this.#retryMs * (0.75 + Math.random() / 2));
    this.#retryMs = Math.min(this.#retryMs * 2, LONGEST_RETRY_MS);
  }
}

// Why the server lets nobody in here; empty: it would, or cannot be asked. A browser does not tell why a socket never opened.
async function refusalOf(address) {
  try {
    const answer = await fetch(address, { method: "HEAD", cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
    if (answer.redirected && new URL(answer.url).searchParams.has("next")) return "login";
    return { 401: "login", 403: "stranger", 404: "stranger", 410: "invite" }[answer.status] ?? "";
  } catch {
    return "";
  }
}
