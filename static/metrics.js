// Draws the charts of a page: each [data-charts] has the URL of its data, which is polled while the page is visible.
const LOCALE = document.documentElement.lang.replace(/^en$/, "en-GB"); // English with 24 hours
const COLORS = ["--tblr-primary", "--tblr-orange"];
const NUMBERS = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 4, useGrouping: false });
const BINARY_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

function formatSize(bytes) {
  let unit = 0;
  for (; bytes >= 1024 && unit < 4; unit++) bytes /= 1024;
  return `${round(bytes, 1)} ${BINARY_UNITS[unit]}`;
}
const round = (number, digits) => NUMBERS.format(number.toFixed(digits));
const formatNumber = (number) => round(number, number < 10 ? 2 : 1);
const FORMATS = {
  percent: (value) => `${round(value, 1)} %`,
  mib: (value) => formatSize(value * 1024 ** 2),
  bytes: (value) => `${formatSize(value)}/s`,
  mbps: (value) => `${formatNumber(value)} Mbit/s`,
  operations: (value) => `${formatNumber(value)}/s`,
};
const UNITS = { mbps: "Mbit/s", operations: "/s" };

// Colors of the stylesheet for a canvas: the browser computes them on a hidden element.
const probe = document.body.appendChild(document.createElement("span"));
probe.hidden = true;
function resolveColor(name) {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}
const resolveFillColor = (name) => resolveColor(name).replace("rgb(", "rgba(").replace(")", ", 0.12)");

class Chart {
  constructor(box, zone, view) {
    this.box = box;
    this.view = view;
    this.zone = zone;
    this.rows = [...box.parentElement.querySelectorAll("[data-metric]")];
    this.timeLabel = box.parentElement.querySelector("[data-time-label]");
    this.lastLabel = this.timeLabel.textContent;
    this.format = FORMATS[box.dataset.unit];
    new ResizeObserver(() => this.plot?.setSize(this.getSize())).observe(box);
  }

  getSize() {
    return { width: this.box.clientWidth, height: this.box.clientHeight };
  }

  show(series) {
    this.series = series;
    const data = [series.at, ...this.rows.map((row) => series.values[row.dataset.metric])];
    if (this.plot) this.plot.setData(data);
    else this.plot = new uPlot(this.buildOptions(), data, this.box);
    this.showLegend();
  }

  redraw() {
    this.plot?.destroy();
    this.plot = null;
    if (this.series) this.show(this.series);
  }

  // The legend shows the last values, or those under the pointer.
  showLegend(index = null) {
    this.rows.forEach((row) => {
      const name = row.dataset.metric;
      const value = index === null ? undefined : this.series.values[name][index];
      const [last, average, highest] = this.series.legend[name];
      const shown = value === undefined ? last : value === null ? "–" : this.format(value);
      [shown, average, highest].forEach((text, cell) => (row.cells[cell + 1].textContent = text));
    });
    this.timeLabel.textContent = index === null ? this.lastLabel : this.formatTime(this.series.at[index]);
  }

  formatTime(second) {
    return new Intl.DateTimeFormat(LOCALE, {
      timeZone: this.zone,
      ...(this.series.until - this.series.since > 700000 ? { day: "2-digit", month: "2-digit" } : this.series.until - this.series.since > 90000 && { weekday: "short" }),
      hour: "2-digit",
      minute: "2-digit",
      ...(this.series.until - this.series.since < 7200 && { second: "2-digit" }),
    }).format(second * 1000);
  }

  // The labels of the time axis: each day has its date once.
  formatTimeMarks(marks, step) {
    const format = (options) => {
      const { format } = new Intl.DateTimeFormat(LOCALE, { timeZone: this.zone, ...options });
      return (second) => format(second * 1000);
    };
    const date = format({ day: "2-digit", month: "2-digit" });
    if (step >= 86400) return marks.map(date);
    const time = format({ hour: "2-digit", minute: "2-digit", ...(step < 60 && { second: "2-digit" }) });
    if (step < 60) return marks.map(time);
    return marks.map((mark, n) => time(mark) + (n && date(marks[n - 1]) === date(mark) ? "" : `\n${date(mark)}`));
  }

  buildOptions() {
    const maximum = this.series.maxima[this.rows[0].dataset.metric];
    const grid = { stroke: resolveColor("--tblr-border-color"), width: 1 };
    const axis = { stroke: resolveColor("--tblr-secondary"), grid, ticks: { ...grid, size: 4 }, font: "12px system-ui" };
    const unit = UNITS[this.box.dataset.unit];
    const label = unit ? (value) => formatNumber(value) : this.format;
    const binary = ["mib", "bytes"].includes(this.box.dataset.unit) && { incrs: [...Array(44).keys()].map((n) => 2 ** (n - 4)) };
    return {
      ...this.getSize(),
      legend: { show: false },
      cursor: { y: false, sync: { key: "charts" }, drag: { setScale: false, x: true, y: false }, points: { size: 6 } },
      tzDate: (second) => uPlot.tzDate(new Date(second * 1000), this.zone),
      scales: {
        x: { range: () => this.view.zoom ?? [this.series.since, this.series.until] },
        y: { range: (_, low, high) => [0, maximum || Math.max(high * 1.1, 0.1)] },
      },
      axes: [
        { ...axis, values: (_, marks, _axis, _space, step) => this.formatTimeMarks(marks, step), space: 60 },
        { ...axis, size: 76, ...binary, values: (_, marks) => marks.map((mark, n) => label(mark) + (unit && n === marks.length - 1 ? ` ${unit}` : "")) },
      ],
      series: [
        {},
        ...this.rows.map((_, n) => ({
          stroke: resolveColor(COLORS[n]),
          width: 1.5,
          spanGaps: false,
          points: { show: (plot, _, from, to) => to - from < 3 },
          ...(this.rows.length === 1 && { fill: resolveFillColor(COLORS[n]) }),
        })),
      ],
      hooks: {
        draw: [(plot) => this.drawMarkers(plot)],
        setSelect: [(plot) => this.zoomToSelection(plot)],
        setCursor: [(plot) => this.showLegend(plot.cursor.idx ?? null)],
      },
    };
  }

  // A dashed line for each task, with its name in the first chart where there is room for it.
  drawMarkers(plot) {
    const { ctx, bbox } = plot;
    let labelEnd = bbox.left;
    ctx.save();
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.textAlign = "left";
    ctx.font = `${11 * devicePixelRatio}px system-ui`;
    for (const { at, label, failed } of this.series.markers) {
      const x = Math.round(plot.valToPos(at, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = ctx.fillStyle = resolveColor(failed ? "--danger-text" : "--tblr-secondary");
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const gap = 4 * devicePixelRatio;
      const width = ctx.measureText(label).width;
      const isAtEnd = x + gap + width > bbox.left + bbox.width;
      const start = isAtEnd ? x - gap - width : x + gap;
      const end = start + width;
      if (!this.view.isFirst(this) || start < labelEnd) continue;
      ctx.fillText(label, start, bbox.top + 11 * devicePixelRatio);
      labelEnd = Math.max(end, x) + gap;
    }
    ctx.restore();
  }

  // Show the selected part of the time in all charts; too short selections are clicks.
  zoomToSelection(plot) {
    const { left, width } = plot.select;
    if (width < 8) return;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.view.setZoom([plot.posToVal(left, "x"), plot.posToVal(left + width, "x")]);
  }
}

for (const page of document.querySelectorAll("[data-charts]")) {
  const { charts: url, seconds, zone } = page.dataset;
  const resetButton = page.querySelector("[data-reset-zoom]");
  const view = {
    zoom: null,
    isFirst: (chart) => chart === chartList[0],
    setZoom(zoom) {
      view.zoom = zoom;
      resetButton.hidden = !zoom;
      chartList.forEach((chart) => chart.series && chart.show(chart.series));
    },
  };
  const chartList = [...page.querySelectorAll(".chart")].map((box) => new Chart(box, zone, view));
  resetButton.addEventListener("click", () => view.setZoom(null));
  page.addEventListener("dblclick", (event) => event.target.closest(".chart") && view.setZoom(null));
  const poll = async () => {
    if (document.hidden) return;
    try {
      const response = await fetch(url, { headers: { Accept: "application/json" } });
      if (!response.ok) return;
      const series = await response.json();
      page.querySelector("[data-no-data]").hidden = series.at.length > 0;
      chartList.forEach((chart) => chart.show(series));
    } catch {} // offline: the old data stays, and a banner is shown
  };
  poll();
  setInterval(poll, seconds * 1000);
  document.addEventListener("visibilitychange", poll);
  document.addEventListener("panel:preference-changed", () => setTimeout(() => chartList.forEach((chart) => chart.redraw())));
}
