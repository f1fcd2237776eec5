// Add a copy button to every element marked data-copy.
function addCopyButton(source) {
  const button = document.createElement("button");
  button.className = "copy";
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  source.parentElement.append(button);
}

// the clipboard is only available on localhost and over https
if (navigator.clipboard) document.querySelectorAll("[data-copy]").forEach(addCopyButton);
