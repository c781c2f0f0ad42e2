// The view of the console: fitted into the window or in actual size, full screen, as a screenshot.
import { loadPreference, savePreference } from "vnc/preferences";

const BACKGROUND = "#11151c"; // around the picture

export class View {
  constructor(menu) {
    this.menu = menu;
    this.mode = loadPreference("view") === "actual" ? "actual" : "fit";
    this.isDraggable = false;
    this.rfb = null;
    this.showChoices();
  }

  show(rfb) {
    this.rfb = rfb;
    rfb.background = BACKGROUND;
    this.apply();
  }

  choose({ viewMode, drag }) {
    if (viewMode) savePreference("view", (this.mode = viewMode));
    if (drag !== undefined) this.isDraggable = !this.isDraggable;
    this.showChoices();
    this.apply();
  }

  apply() {
    if (!this.rfb) return;
    this.rfb.scaleViewport = this.mode === "fit";
    this.rfb.clipViewport = this.mode === "actual" && this.isDraggable;
    this.rfb.dragViewport = this.rfb.clipViewport;
  }

  showChoices() {
    for (const item of this.menu.querySelectorAll("[data-view-mode]")) {
      item.setAttribute("aria-checked", String(item.dataset.viewMode === this.mode));
    }
    const drag = this.menu.querySelector("[data-drag]");
    drag.disabled = this.mode === "fit";
    drag.setAttribute("aria-checked", String(this.isDraggable && !drag.disabled));
  }
}

// In full screen the guest also gets the keys that the system otherwise takes, where the browser allows it.
export async function toggleFullScreen() {
  if (document.fullscreenElement) {
    await document.exitFullscreen();
  } else {
    await document.documentElement.requestFullscreen();
    await navigator.keyboard?.lock?.().catch(() => {});
  }
}

// Saves the view as a picture with the guest's name and the time.
export function saveScreenshot(rfb, name) {
  rfb.toBlob((blob) => {
    const moment = new Date().toISOString().slice(0, 19).replace("T", " ").replaceAll(":", ".");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${name} ${moment}.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }, "image/png");
}
