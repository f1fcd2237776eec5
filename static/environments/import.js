// The import form: refuses a file that is too large before it is sent, and shows how far the upload is.
const form = document.querySelector("[data-import]");
const file = form.querySelector("[data-file]");
const trouble = form.querySelector("[data-trouble]");
const shown = form.querySelector("[data-progress]");
const limit = Number(form.dataset.maxBytes);

function complain(words) {
  trouble.textContent = words;
  trouble.hidden = !words;
}

function isTooLarge() {
  const chosen = file.files[0];
  const isLarge = Boolean(chosen) && chosen.size > limit;
  complain(isLarge ? `${chosen.name} has ${(chosen.size / 1048576).toFixed(1)} MB; at most ${form.dataset.max} are taken. A larger file can be imported beside the server with manage.py import_tasks.` : "");
  return isLarge;
}

function send() {
  const request = new XMLHttpRequest();
  const button = form.querySelector("button[type=submit]");
  button.disabled = true;
  shown.hidden = false;
  request.upload.addEventListener("progress", (event) => {
    shown.querySelector("progress").value = event.loaded / event.total;
    shown.querySelector("span").textContent = event.loaded < event.total ? `${Math.round((100 * event.loaded) / event.total)} % sent` : "sent, being read";
  });
  request.addEventListener("error", () => {
    button.disabled = false;
    shown.hidden = true;
    complain("The upload broke off: the server does not answer. Nothing was changed; try again.");
  });
  request.addEventListener("load", () => {
    if (new URL(request.responseURL).pathname !== location.pathname) return location.assign(request.responseURL);
    document.open(); // the form again, with what is wrong
    document.write(request.responseText);
    document.close();
  });
  request.open("POST", form.action);
  request.send(new FormData(form));
}

file.addEventListener("change", isTooLarge);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!isTooLarge()) send();
});
