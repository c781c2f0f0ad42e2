// Shows an OpenAPI document, in the theme of the page, and lets people try its operations.
(() => {
  const container = document.getElementById("reference");
  const root = document.documentElement;
  const followTheme = () => root.classList.toggle("dark-mode", root.dataset.bsTheme === "dark");
  new MutationObserver(followTheme).observe(root, { attributeFilter: ["data-bs-theme"] });
  followTheme();
  SwaggerUIBundle({
    domNode: container,
    url: container.dataset.document,
    validatorUrl: null, // the document is sent to no other site
    docExpansion: "none",
    deepLinking: true,
    filter: true,
    displayRequestDuration: true,
    defaultModelsExpandDepth: 0,
    tryItOutEnabled: true,
    onComplete: () => {
      document.querySelector("h1.visually-hidden").remove(); // the document has a heading of its own
      document.getElementById("servers")?.setAttribute("aria-label", "Server");
    },
    // The page may have been opened at another of the panel's addresses than the public one, and requests only its own address.
    requestInterceptor: (request) => {
      const { pathname, search } = new URL(request.url, location);
      return Object.assign(request, { url: `${location.origin}${pathname}${search}` });
    },
  });
})();
