// Runs before the first paint, so that the page never flashes in the other theme or with the other navigation.
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const loadPreference = (name) => {
    try {
      return localStorage.getItem(`panel-${name}`);
    } catch {
      return null;
    }
  };
  const hiddenColumns = new CSSStyleSheet();
  document.adoptedStyleSheets = [hiddenColumns];
  const applyColumns = () => {
    let labels = [];
    try {
      labels = JSON.parse(loadPreference(`columns-${location.pathname}`) || "[]");
    } catch {}
    const hide = (label) => `#rows :is(td[data-label="${CSS.escape(label)}"], th[data-column="${CSS.escape(label)}"]) { display: none !important; }`;
    hiddenColumns.replaceSync(labels.map(hide).join("\n"));
  };
  const applyPreferences = () => {
    applyColumns();
    root.dataset.density = loadPreference("density") || "normal";
    const theme = loadPreference("theme") || "auto";
    root.dataset.theme = theme;
    root.dataset.bsTheme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
    root.dataset.singleKeys = loadPreference("shortcuts") || "on";
    if (loadPreference("sidebar") === "folded") root.dataset.bsSidebar = "folded";
    else delete root.dataset.bsSidebar;
  };
  dark.addEventListener("change", applyPreferences);
  document.addEventListener("panel:preference-changed", applyPreferences);
  applyPreferences();
})();
