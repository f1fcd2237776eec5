// The import form: rejects a file that is too large before uploading it, and shows the progress of the upload. If the server
// rejects the form, its response replaces the form and the file stays selected.

function complain(form, words) {
  const trouble = form.querySelector("[data-trouble]");
  trouble.textContent = words;
  trouble.hidden = !words;
}

function megabytes(bytes) {
  return (bytes / 1048576).toFixed(1);
}

function isTooLarge(form) {
  const chosen = form.querySelector("[data-file]").files[0];
  const isLarge = Boolean(chosen) && chosen.size > Number(form.dataset.maxBytes);
  complain(form, isLarge ? `${chosen.name} has ${megabytes(chosen.size)} MB; the limit is ${form.dataset.max}. To import a larger file, run ${form.dataset.command} on the server.` : "");
  return isLarge;
}

function showProgress(form, event) {
  const shown = form.querySelector("[data-progress]");
  shown.querySelector("progress").value = event.loaded / event.total;
  shown.querySelector("span").textContent = event.loaded < event.total ? `${megabytes(event.loaded)} of ${megabytes(event.total)} MB uploaded` : "Uploaded, processing…";
}

function setSending(form, isSending) {
  form.querySelector("button[type=submit]").disabled = isSending;
  form.querySelector("[data-progress]").hidden = !isSending;
}

function answered(form, request) {
  if (new URL(request.responseURL).pathname !== location.pathname) return location.assign(request.responseURL);
  const page = new DOMParser().parseFromString(request.responseText, "text/html");
  const fresh = page.querySelector("[data-import]");
  setSending(form, false);
  if (!fresh) {
    const words = page.querySelector("main, #content")?.textContent.replace(/\s+/g, " ").trim();
    return complain(form, words || `The server responded with status ${request.status}. Nothing was changed.`);
  }
  const files = form.querySelector("[data-file]").files;
  form.replaceWith(fresh);
  fresh.querySelector("[data-file]").files = files;
  take(fresh);
  fresh.querySelector(".wrong input, .wrong select")?.focus();
}

function send(form) {
  const request = new XMLHttpRequest();
  const data = new FormData(form);
  setSending(form, true);
  request.upload.addEventListener("progress", (event) => showProgress(form, event));
  request.addEventListener("load", () => answered(form, request));
  request.addEventListener("error", () => {
    setSending(form, false);
    complain(form, "Upload failed: the server doesn't respond. Nothing was changed. Try again.");
  });
  request.open("POST", form.action);
  request.send(data);
}

function take(form) {
  const file = form.querySelector("[data-file]");
  // django-unfold's app.js writes the name of a chosen file into the next text field, which is the split's here.
  // It skips elements that it has marked as handled, and scans the page on load and after each change
  file.hasChangeListener = true;
  file.addEventListener("change", () => isTooLarge(form));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!isTooLarge(form)) send(form);
  });
}

take(document.querySelector("[data-import]"));
