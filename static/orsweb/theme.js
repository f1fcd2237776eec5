// Apply the chosen theme, which is shared with the admin, before the page is drawn.
{
  const theme = (localStorage.getItem("adminTheme") ?? "").replaceAll('"', "");
  if (theme === "light" || theme === "dark") document.documentElement.classList.add(theme);
}
