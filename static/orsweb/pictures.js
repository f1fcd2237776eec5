// An image that the browser can make nothing of becomes a sentence: the browser's own sign of that tells nobody why.
const PICTURES = ".zoom img, .part-image";
const WORDS = "This image can't be displayed: it isn't in a format that browsers can read.";

function tell(picture) {
  const words = document.createElement("p");
  words.className = "none";
  words.textContent = WORDS;
  (picture.closest(".zoom") ?? picture).replaceWith(words);
}

// Errors of images do not bubble. Some came before this module did.
document.addEventListener("error", ({ target }) => target instanceof Element && target.matches(PICTURES) && tell(target), { capture: true });
for (const picture of document.querySelectorAll(PICTURES)) if (picture.complete && !picture.naturalWidth) tell(picture);
