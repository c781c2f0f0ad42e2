// Notifications of the browser for new messages of the inbox. Pages load this when the person turned them on in this browser:
// a cookie says so. The window that holds the stream (live.js) shows them, unless a window of the panel is visible.
"use strict";
(() => {
  const { url, session, inboxUrl, inboxTitle, moreText } = document.currentScript.dataset;
  const isSupported = "Notification" in window && window.isSecureContext;
  const VISIBLE_ANSWER_MS = 300; // how long other windows have to say that they are visible
  const MAX_SHOWN = 3; // the number of the others is said
  const CHOICE = "panel-notifications", LAST_SHOWN = "panel-last-notification", CHOICE_SECONDS = 365 * 86400;

  function load(name) {
    try {
      return localStorage.getItem(name);
    } catch {
      return null; // private windows store nothing
    }
  }
  function store(name, value) {
    try {
      localStorage.setItem(name, value);
    } catch {}
  }
  const isOn = () => isSupported && Notification.permission === "granted" && document.cookie.includes(`${CHOICE}=on`);

  // Windows that are visible say so when the inbox changes.
  const channel = new BroadcastChannel(`panel-visible-${session}`);
  let visibleAt = 0;
  channel.addEventListener("message", () => (visibleAt = Date.now()));
  const tellVisible = () => document.hidden || channel.postMessage("visible");

  document.addEventListener("panel:inbox-changed", async ({ detail }) => {
    tellVisible();
    if (!detail.holdsStream || !document.hidden || !isOn()) return;
    const changedAt = Date.now();
    await new Promise((resolve) => setTimeout(resolve, VISIBLE_ANSWER_MS));
    if (visibleAt >= changedAt - VISIBLE_ANSWER_MS || !document.hidden) return;
    try {
      const response = await fetch(url, { headers: { Accept: "application/json" } });
      if (response.ok) showAll(await response.json());
    } catch {} // offline: the message is in the inbox
  });
  function showAll(messages) {
    const lastShown = load(LAST_SHOWN) || "";
    const fresh = messages.filter(({ id }) => id > lastShown); // ids grow with time
    if (!fresh.length) return;
    store(LAST_SHOWN, fresh.at(-1).id);
    const others = fresh.length - MAX_SHOWN;
    fresh.slice(-MAX_SHOWN).forEach(show);
    if (others > 0) show({ id: `others-${fresh.at(-1).id}`, title: inboxTitle, text: moreText.replace("{count}", others), url: inboxUrl });
  }
  function show({ id, title, text, url: page }) {
    const notification = new Notification(title, { body: text, tag: id });
    notification.addEventListener("click", () => {
      window.open(page);
      notification.close();
    });
  }

  // The choice on the page of the settings. Browsers ask for the permission only on a click.
  function showChoice() {
    const state = !isSupported ? "unsupported" : Notification.permission === "denied" ? "denied" : isOn() ? "on" : "off";
    for (const part of document.querySelectorAll("[data-notifications]")) part.hidden = part.dataset.notifications !== state;
  }
  document.addEventListener("click", async ({ target }) => {
    const choice = target.closest("[data-set-notifications]")?.dataset.setNotifications;
    if (!choice) return;
    if (choice === "on" && Notification.permission === "default") await Notification.requestPermission();
    document.cookie = `${CHOICE}=${choice}; path=/; max-age=${CHOICE_SECONDS}; SameSite=Lax`;
    showChoice();
    document.querySelector("[data-set-notifications]:not([hidden])")?.focus();
  });
  showChoice();
})();
