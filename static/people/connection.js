// The player's websocket. When it is lost, it is opened again with the last step that the page has, so no step is sent twice or
// missed. A socket that has gone silent, because a network stalls or a computer slept, is abandoned: its close event may take minutes.
const FIRST_RETRY_MS = 300;
const MAX_RETRY_MS = 8000;
const BEAT_MS = 10_000; // nothing was heard for so long: the server is asked whether it is there
const PATIENCE_MS = 10_000; // it has so long to answer
const MAX_PATIENCE_MS = 80_000; // doubled after each timeout, for large inputs on a slow network
const TOO_LONG = 1009;
const NOT_WELCOME = 4404; // such as a guest whose invite is over

// Dispatches "message" (detail: the server's message), "open", "lost", "refused" (detail: a sentence), and "unwelcome" (detail: `why`,
// which is "login", "invite" or "stranger", and for an invite `words`). After that it doesn't reconnect, because the server would not
// accept it.
export class Connection extends EventTarget {
  #address;
  #after;
  #socket = null;
  #retryMs = FIRST_RETRY_MS;
  #retry = 0;
  #patienceMs = PATIENCE_MS;
  #watch = 0;
  #isOver = false;

  // `after` returns the index of the last step that the page shows.
  constructor(path, after) {
    super();
    this.#address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`;
    this.#after = after;
    window.addEventListener("offline", () => this.drop());
    window.addEventListener("online", () => (this.drop(), this.open()));
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

  // Returns whether the message was sent.
  send(message) {
    if (!this.isOpen) return false;
    this.#socket.send(JSON.stringify(message));
    return true;
  }

  // Close the connection for good.
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

  // A message has to arrive in time, unless some of the `unsent` bytes were sent since: then a large input is still uploading.
  #expect(unsent) {
    clearTimeout(this.#watch);
    this.#watch = setTimeout(() => {
      if (this.#socket.bufferedAmount < unsent) return this.#expect(this.#socket.bufferedAmount);
      this.#patienceMs = Math.min(this.#patienceMs * 2, MAX_PATIENCE_MS);
      this.drop();
    }, this.#patienceMs);
  }

  // Close a connection that is silent, or whose page is being left. It is opened again while there is the page.
  drop() {
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
    const refusal = wasOpen && code !== NOT_WELCOME ? null : await refusalOf(location.href);
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
    this.#retryMs = Math.min(this.#retryMs * 2, MAX_RETRY_MS);
  }
}

// Why the server rejects the connection; null if it doesn't or can't be reached. Browsers don't say why a websocket failed.
async function refusalOf(address) {
  try {
    const answer = await fetch(address, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
    if (answer.redirected && new URL(answer.url).searchParams.has("next")) return { why: "login" };
    const why = { 401: "login", 403: "stranger", 404: "stranger", 410: "invite" }[answer.status];
    if (why !== "invite") return why ? { why } : null;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    return { why, words: page.querySelector(".fault .notice").textContent };
  } catch {
    return null;
  }
}
