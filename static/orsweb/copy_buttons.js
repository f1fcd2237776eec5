// A button beside everything marked data-copy.
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

// the clipboard exists on localhost and over https only
if (navigator.clipboard) document.querySelectorAll("[data-copy]").forEach(addCopyButton);
