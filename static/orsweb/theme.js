// The choice of light or dark, which the admin shares, before the page is drawn.
const theme = (localStorage.getItem("adminTheme") ?? "").replaceAll('"', "");
if (theme === "light" || theme === "dark") document.documentElement.classList.add(theme);
