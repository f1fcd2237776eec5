// A button beside everything marked data-copy.
function addCopyButton(source) {
  const button = document.createElement("button");
  button.className = "Copy";
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  source.parentElement.append(button);
}

// the clipboard exists on localhost and over https only
if (navigator.clipboard) document.querySelectorAll("[data-copy]").forEach(addCopyButton);
