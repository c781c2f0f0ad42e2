// Draws the charts of a page: each [data-charts] has the address of its figures, which are polled while the page is visible.
const LOCALE = document.documentElement.lang.replace(/^en$/, "en-GB"); // English with 24 hours
const COLOURS = ["--tblr-primary", "--tblr-orange"];
const BINARY = ["B", "KiB", "MiB", "GiB", "TiB"];

function size(bytes) {
  let unit = 0;
  for (; bytes >= 1024 && unit < 4; unit++) bytes /= 1024;
  return `${+bytes.toFixed(1)} ${BINARY[unit]}`;
}
const short = (number) => +number.toFixed(number < 10 ? 2 : 1);
const FORMATS = {
  percent: (value) => `${+value.toFixed(1)} %`,
  mib: (value) => size(value * 1024 ** 2),
  bytes: (value) => `${size(value)}/s`,
  mbps: (value) => `${short(value)} Mbit/s`,
  operations: (value) => `${short(value)}/s`,
};
const UNITS = { mbps: "Mbit/s", operations: "/s" };

// A colour of the page as a canvas understands it: whatever the stylesheet makes it of is worked out by the browser.
const probe = document.body.appendChild(document.createElement("span"));
probe.hidden = true;
function colour(name) {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}
const faint = (name) => colour(name).replace("rgb(", "rgba(").replace(")", ", 0.12)");

class Chart {
  constructor(box, zone) {
    this.box = box;
    this.zone = zone;
    this.rows = [...box.parentElement.querySelectorAll("[data-line]")];
    this.when = box.parentElement.querySelector("[data-when]");
    this.lastLabel = this.when.textContent;
    this.format = FORMATS[box.dataset.unit];
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(box);
  }

  size() {
    return { width: this.box.clientWidth, height: this.box.clientHeight };
  }

  show(figures) {
    this.figures = figures;
    const data = [figures.at, ...this.rows.map((row) => figures.values[row.dataset.line])];
    if (this.plot) this.plot.setData(data);
    else this.plot = new uPlot(this.options(), data, this.box);
    this.showLegend();
  }

  redraw() {
    this.plot?.destroy();
    this.plot = null;
    if (this.figures) this.show(this.figures);
  }

  // The legend shows the last values, or those under the pointer.
  showLegend(index = null) {
    this.rows.forEach((row) => {
      const name = row.dataset.line;
      const value = index === null ? undefined : this.figures.values[name][index];
      const [last, average, highest] = this.figures.legend[name];
      const here = value === undefined ? last : value === null ? "–" : this.format(value);
      [here, average, highest].forEach((text, cell) => (row.cells[cell + 1].textContent = text));
    });
    this.when.textContent = index === null ? this.lastLabel : this.time(this.figures.at[index]);
  }

  time(second) {
    return new Intl.DateTimeFormat(LOCALE, {
      timeZone: this.zone,
      ...(this.figures.until - this.figures.since > 90000 && { weekday: "short" }),
      hour: "2-digit",
      minute: "2-digit",
      ...(this.figures.until - this.figures.since < 7200 && { second: "2-digit" }),
    }).format(second * 1000);
  }

  options() {
    const most = this.figures.most[this.rows[0].dataset.line];
    const grid = { stroke: colour("--tblr-border-color"), width: 1 };
    const axis = { stroke: colour("--tblr-secondary"), grid, ticks: { ...grid, size: 4 }, font: "12px system-ui" };
    const unit = UNITS[this.box.dataset.unit];
    const label = unit ? (value) => short(value) : this.format;
    const binary = ["mib", "bytes"].includes(this.box.dataset.unit) && { incrs: [...Array(44).keys()].map((n) => 2 ** (n - 4)) };
    return {
      ...this.size(),
      legend: { show: false },
      cursor: { y: false, sync: { key: "charts" }, drag: { setScale: false, x: false, y: false }, points: { size: 6 } },
      tzDate: (second) => uPlot.tzDate(new Date(second * 1000), this.zone),
      scales: {
        x: { range: () => [this.figures.since, this.figures.until] },
        y: { range: (_, low, high) => [0, most || Math.max(high * 1.1, 0.1)] },
      },
      axes: [
        { ...axis, values: [
          [86400, "{DD}.{MM}.", null, null, null, null, null, null, 1],
          [60, "{HH}:{mm}", "\n{DD}.{MM}.", null, null, null, null, null, 1],
          [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1],
        ], space: 60 },
        { ...axis, size: 76, ...binary, values: (_, marks) => marks.map((mark, n) => label(mark) + (unit && n === marks.length - 1 ? ` ${unit}` : "")) },
      ],
      series: [
        {},
        ...this.rows.map((_, n) => ({
          stroke: colour(COLOURS[n]),
          width: 1.5,
          spanGaps: false,
          points: { show: (plot, _, from, to) => to - from < 3 },
          ...(this.rows.length === 1 && { fill: faint(COLOURS[n]) }),
        })),
      ],
      hooks: { setCursor: [(plot) => this.showLegend(plot.cursor.idx ?? null)] },
    };
  }
}

for (const page of document.querySelectorAll("[data-charts]")) {
  const { charts, seconds, zone } = page.dataset;
  const drawn = [...page.querySelectorAll(".chart")].map((box) => new Chart(box, zone));
  const poll = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(charts, { headers: { Accept: "application/json" } });
      if (!answer.ok) return;
      const figures = await answer.json();
      page.querySelector("[data-none]").hidden = figures.at.length > 0;
      drawn.forEach((chart) => chart.show(figures));
    } catch {} // offline: what is there stays, and the page says so
  };
  poll();
  setInterval(poll, seconds * 1000);
  document.addEventListener("visibilitychange", poll);
  document.addEventListener("panel:look", () => setTimeout(() => drawn.forEach((chart) => chart.redraw())));
}
