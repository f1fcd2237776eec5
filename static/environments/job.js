// The page of a running job: requests its progress twice a second, and shows the result when the job has ended.
const page = document.querySelector("[data-job]");
const bar = page.querySelector("[data-bar]");
const count = page.querySelector("[data-count]");
const EVERY_MS = 500;

async function look() {
  try {
    const address = new URL(location.href);
    address.searchParams.set("state", "1");
    const answer = await fetch(address, { headers: { Accept: "application/json" } });
    if (!answer.ok) return location.reload(); // the server was restarted: its page says so
    const job = await answer.json();
    if (job.state !== "running") return location.reload();
    if (job.total) {
      bar.max = job.total;
      bar.value = job.done;
      count.textContent = job.progress;
    }
  } catch {
    count.textContent = "The server doesn't respond, retrying…";
  }
  setTimeout(look, EVERY_MS);
}

setTimeout(look, EVERY_MS);
