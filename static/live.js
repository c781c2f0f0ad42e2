// Live parts: elements with `data-live` reload when something that they show has changed. The value lists the tables
// whose rows may appear in the part; a row whose id is in the part counts always. The windows of one browser share one
// stream of changes. While it is open, live parts poll rarely; without it they poll as their hx-trigger says.
"use strict";
(() => {
  const { url, since, session } = document.currentScript.dataset;
  const NAME = `panel-live-${session}`;
  const RECENT_MS = 60000; // as long as the server remembers changes
  const SLOWED_POLL_MS = 30000, SLOWED_FAST_POLL_MS = 10000; // the second for parts that poll each few seconds
  const GATHER_MS = 150, JITTER_MS = 150; // so that many pages do not ask at the same moment
  const MAX_RETRY_MS = 60000;
  const SKIPPED_RETRY_MS = 5000;
  const LOAD_FACTOR = 5; // a part that took 200 ms reloads again after a second

  // The stream. One window of the browser holds it, where locks exist (pages with TLS); else each visible window does.
  const channel = new BroadcastChannel(NAME);
  let position = Number(since); // the id of the last event: a time of the server
  let isOpen = false;
  let source = null;
  let retryMs = 1000;
  let retryTimer = 0;
  let recent = []; // events for windows that open later

  function connect() {
    clearTimeout(retryTimer);
    source = new EventSource(`${url}?since=${position}`);
    for (const name of ["ready", "change", "reload"]) {
      source.addEventListener(name, ({ lastEventId, data }) => {
        retryMs = 1000;
        setOpen(true);
        const event = { id: Number(lastEventId), name, changes: JSON.parse(data) };
        recent = [...recent.filter(({ id }) => id > event.id - RECENT_MS), event];
        channel.postMessage({ event });
        receive(event);
      });
    }
    source.addEventListener("error", () => {
      disconnect();
      retryTimer = setTimeout(connect, retryMs * (0.5 + Math.random()));
      retryMs = Math.min(retryMs * 2, MAX_RETRY_MS);
    });
  }
  function disconnect() {
    clearTimeout(retryTimer);
    source?.close();
    source = null;
    setOpen(false);
  }
  function setOpen(value) {
    if (isOpen !== value) channel.postMessage({ isOpen: value });
    noteOpen(value);
  }
  function noteOpen(value) {
    isOpen = value;
    document.documentElement.dataset.live = value ? "open" : "closed";
  }
  channel.addEventListener("message", ({ data: { event, isRepeated, isOpen: isOpenElsewhere, hello } }) => {
    if (event && !source && !(isRepeated && event.id <= position)) {
      noteOpen(true);
      receive(event);
    }
    if (isOpenElsewhere !== undefined && !source) noteOpen(isOpenElsewhere);
    if (hello && source && isOpen) {
      channel.postMessage({ isOpen });
      for (const event of recent) if (event.id > hello) channel.postMessage({ event, isRepeated: true });
    }
  });
  channel.postMessage({ hello: position });
  if (navigator.locks) navigator.locks.request(NAME, () => new Promise(connect)).catch(() => {});
  else {
    const follow = () => (document.hidden ? disconnect() : source || connect());
    document.addEventListener("visibilitychange", follow);
    follow();
  }
  window.addEventListener("pagehide", disconnect);

  // The parts
  const stale = new Set(); // ids of parts to reload
  const loading = new Map(); // id of a part → its request
  const loadedAt = new Map(); // id of a part → when it was last replaced
  const notBefore = new Map(); // id of a part → when it may reload again
  const skipped = new Set(); // ids of parts that were in use when they would have been replaced
  let timer = 0;

  function receive({ id, name, changes }) {
    position = id;
    if (changes.some(([table]) => table === "inbox_messages")) {
      document.dispatchEvent(new CustomEvent("panel:inbox-changed", { detail: { holdsStream: Boolean(source) } }));
    }
    for (const part of document.querySelectorAll("[data-live]")) {
      if (name === "reload" || (name === "change" && isAffected(part, changes))) stale.add(part.id);
    }
    schedule(GATHER_MS + Math.random() * JITTER_MS);
  }
  function isAffected(part, changes) {
    const tables = part.dataset.live.split(" ");
    if (changes.some(([table]) => tables.includes(table))) return true;
    const html = part.outerHTML;
    return changes.some(([, ...ids]) => ids.some((id) => id && html.includes(id)));
  }
  function schedule(delay) {
    if (stale.size && !timer) timer = setTimeout(reload, delay);
  }
  function reload() {
    timer = 0;
    if (document.hidden) return;
    const now = Date.now();
    for (const id of stale) {
      const part = document.getElementById(id);
      if (part && (loading.has(id) || now < (notBefore.get(id) || 0))) continue;
      stale.delete(id);
      if (part && !part.closest("dialog:not([open])")) part.dispatchEvent(new CustomEvent("live")); // does not bubble
    }
    schedule(GATHER_MS);
  }
  document.addEventListener("visibilitychange", () => schedule(0));

  const getPart = ({ detail: { ctx } }) => (ctx?.sourceElement?.matches?.("[data-live]") ? ctx.sourceElement : null);
  document.addEventListener("htmx:before:request", (event) => {
    const part = getPart(event);
    if (!part || event.defaultPrevented) return;
    const isFast = /every [1-5]s/.test(part.getAttribute("hx-trigger"));
    const isFresh = Date.now() - (loadedAt.get(part.id) ?? performance.timeOrigin) < (isFast ? SLOWED_FAST_POLL_MS : SLOWED_POLL_MS);
    if (event.detail.ctx.sourceEvent?.type === "every" && isOpen && isFresh) event.preventDefault();
    else loading.set(part.id, { ctx: event.detail.ctx, startedAt: Date.now() });
  });
  document.addEventListener("htmx:before:swap", (event) => {
    const part = getPart(event);
    if (part && event.defaultPrevented) skipped.add(part.id);
  });
  document.addEventListener("htmx:after:swap", (event) => {
    const part = getPart(event);
    if (part) loadedAt.set(part.id, Date.now());
  });
  document.addEventListener("htmx:finally:request", (event) => {
    const part = getPart(event);
    const request = part && loading.get(part.id);
    if (request?.ctx !== event.detail.ctx) return;
    const now = Date.now();
    notBefore.set(part.id, now + LOAD_FACTOR * (now - request.startedAt));
    loading.delete(part.id);
    if (!skipped.delete(part.id)) return;
    notBefore.set(part.id, now + SKIPPED_RETRY_MS);
    stale.add(part.id);
    schedule(GATHER_MS);
  });
})();
