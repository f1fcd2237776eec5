// The player's socket: opened again when it is lost, with what the page has seen, so that nothing is told twice or never.
const FIRST_RETRY_MS = 300;
const LONGEST_RETRY_MS = 8000;
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
  #isOver = false;

  // `after` answers the index of the last step that the page shows.
  constructor(path, after) {
    super();
    this.#address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`;
    this.#after = after;
    window.addEventListener("online", () => this.open());
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
    socket.addEventListener("open", () => (wasOpen = true));
    socket.addEventListener("message", (event) => this.#heard(JSON.parse(event.data)));
    socket.addEventListener("close", (event) => this.#lost(event.code, wasOpen));
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
    this.#socket?.close();
  }

  #heard(message) {
    this.#retryMs = FIRST_RETRY_MS;
    if (message.type === "state") this.dispatchEvent(new Event("open"));
    this.dispatchEvent(new CustomEvent("message", { detail: message }));
  }

  async #lost(code, wasOpen) {
    this.#socket = null;
    if (this.#isOver) return;
    const refusal = wasOpen && code !== NOT_WELCOME ? "" : await refusalOf(location.href);
    if (this.#isOver || this.#socket) return;
    if (refusal) {
      this.end();
      this.dispatchEvent(new CustomEvent("unwelcome", { detail: refusal }));
      return;
    }
    if (code === TOO_LONG) this.dispatchEvent(new CustomEvent("refused", { detail: "The input is larger than this server takes (ORSWEB_MAX_BODY_BYTES)." }));
    this.dispatchEvent(new Event("lost"));
    this.#retry = setTimeout(() => this.open(), this.#retryMs * (0.75 + Math.random() / 2));
    this.#retryMs = Math.min(this.#retryMs * 2, LONGEST_RETRY_MS);
  }
}

// Why the server lets nobody in here; empty: it would, or cannot be asked. A browser does not tell why a socket never opened.
async function refusalOf(address) {
  try {
    const answer = await fetch(address, { method: "HEAD", cache: "no-store" });
    if (answer.redirected && new URL(answer.url).searchParams.has("next")) return "login";
    return { 401: "login", 403: "stranger", 404: "stranger", 410: "invite" }[answer.status] ?? "";
  } catch {
    return "";
  }
}
