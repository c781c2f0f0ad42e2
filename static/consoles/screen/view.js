// How the screen is shown: fitted into the window or pixel by pixel, over the whole display, as a picture.
import { recall, remember } from "screen/kept";

const GROUND = "#11151c"; // around the picture

export class View {
  constructor(menu) {
    this.menu = menu;
    this.look = recall("view") === "actual" ? "actual" : "fit";
    this.drags = false;
    this.rfb = null;
    this.mark();
  }

  show(rfb) {
    this.rfb = rfb;
    rfb.background = GROUND;
    this.apply();
  }

  choose({ look, drag }) {
    if (look) remember("view", (this.look = look));
    if (drag !== undefined) this.drags = !this.drags;
    this.mark();
    this.apply();
  }

  apply() {
    if (!this.rfb) return;
    this.rfb.scaleViewport = this.look === "fit";
    this.rfb.clipViewport = this.look === "actual" && this.drags;
    this.rfb.dragViewport = this.rfb.clipViewport;
  }

  mark() {
    for (const item of this.menu.querySelectorAll("[data-look]")) {
      item.setAttribute("aria-checked", String(item.dataset.look === this.look));
    }
    const drag = this.menu.querySelector("[data-drag]");
    drag.disabled = this.look === "fit";
    drag.setAttribute("aria-checked", String(this.drags && !drag.disabled));
  }
}

// Over the whole display, the machine gets also the keys that the system keeps otherwise, where the browser can do that.
export async function toggleFullScreen() {
  if (document.fullscreenElement) {
    await document.exitFullscreen();
  } else {
    await document.documentElement.requestFullscreen();
    await navigator.keyboard?.lock?.().catch(() => {});
  }
}

// Saves the screen as a picture that is named after the machine and the moment.
export function takePicture(rfb, name) {
  rfb.toBlob((blob) => {
    const moment = new Date().toISOString().slice(0, 19).replace("T", " ").replaceAll(":", ".");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${name} ${moment}.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }, "image/png");
}
