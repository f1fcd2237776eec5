// What pages gain from scripts: the admin's choice of light or dark, and a button beside everything marked data-copy.
const theme = (localStorage.getItem("adminTheme") ?? "").replaceAll('"', "");
if (theme === "light" || theme === "dark") document.documentElement.classList.add(theme);

function addCopyButton(source) {
  const button = document.createElement("button");
  button.className = "copy";
  button.type = "button";
  button.textContent = "copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "copied";
    setTimeout(() => (button.textContent = "copy"), 1500);
  });
  source.parentElement.append(button);
}

document.addEventListener("DOMContentLoaded", () => {
  // the clipboard exists on localhost and over https only
  if (navigator.clipboard) document.querySelectorAll("[data-copy]").forEach(addCopyButton);
});
