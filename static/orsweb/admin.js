{
  // The styles of unfold know dark colours by a class only, also where the system chooses them.
  const system = matchMedia("(prefers-color-scheme: dark)");
  const choose = () => {
    const chosen = (localStorage.getItem("adminTheme") ?? "").replaceAll('"', "");
    document.documentElement.classList.toggle("dark", chosen === "dark" || (chosen !== "light" && system.matches));
  };
  choose();
  system.addEventListener("change", choose);
  document.addEventListener("orsweb:theme", choose);

  // On a phone each cell of a list has the name of its column before it, which Django writes in small letters.
  addEventListener("DOMContentLoaded", () => {
    for (const { dataset } of document.querySelectorAll("[data-label]")) dataset.label = dataset.label.replace(/^./u, (first) => first.toUpperCase());
  });
}
