// Runs before the page is drawn, so that a reader's choice of light or dark doesn't flash.
{
  const root = document.documentElement;
  root.classList.add("js");
  let chosen = null;
  try { chosen = localStorage.getItem("theme"); } catch { /* storage may be closed to us */ }
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
}
