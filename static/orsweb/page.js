// The admin's choice of light or dark, for the pages outside of it; before they are drawn.
const theme = (localStorage.getItem("adminTheme") ?? "").replaceAll('"', "");
if (theme === "light" || theme === "dark") document.documentElement.classList.add(theme);
