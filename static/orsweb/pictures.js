// An image that the browser can make nothing of becomes a sentence: the browser's own sign of that tells nobody why.
const PICTURES = ".zoom img, .part-image";
const WORDS = "This image cannot be displayed: what came is no image that a browser can read.";

function tell(picture) {
  const words = document.createElement("p");
  words.className = "none";
  words.textContent = WORDS;
  (picture.closest(".zoom") ?? picture).replaceWith(words);
}

// Errors of images do not bubble. Some came before this module did.
document.addEventListener("error", ({ target }) => target instanceof Element && target.matches(PICTURES) && tell(target), { capture: true });
for (const picture of document.querySelectorAll(PICTURES)) if (picture.complete && !picture.naturalWidth) tell(picture);
