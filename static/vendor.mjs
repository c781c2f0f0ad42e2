// Copies what browsers load from the installed packages to vendor/, and writes the icons in use to one sprite.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync } from "node:zlib";

const here = fileURLToPath(new URL(".", import.meta.url));
const packages = join(here, "node_modules");
const vendor = join(here, "vendor");

const FILES = [
  "@tabler/core/dist/css/tabler.min.css",
  "bootstrap/dist/js/bootstrap.bundle.min.js",
  "htmx.org/dist/htmx.min.js",
  "@xterm/xterm/css/xterm.css",
  "@xterm/xterm/lib/xterm.mjs",
  "@xterm/addon-fit/lib/addon-fit.mjs",
  "@xterm/addon-search/lib/addon-search.mjs",
  "@xterm/addon-unicode11/lib/addon-unicode11.mjs",
  "@xterm/addon-web-links/lib/addon-web-links.mjs",
  "uplot/dist/uPlot.iife.min.js",
  "uplot/dist/uPlot.min.css",
];

// Modules that import each other by relative paths.
const TREES = { novnc: ["@novnc/novnc/core", "@novnc/novnc/vendor"] };

function writeFile(name, text) {
  mkdirSync(dirname(join(vendor, name)), { recursive: true });
  writeFileSync(join(vendor, name), text);
  writeFileSync(join(vendor, `${name}.br`), brotliCompressSync(text));
}

// One symbol for each icon. The page that uses it sets size, color and stroke.
function buildSprite(names) {
  const license = readFileSync(join(packages, "@tabler/icons/LICENSE"), "utf8");
  const symbols = names.map((name) => {
    const svg = readFileSync(join(packages, "@tabler/icons/icons/outline", `${name}.svg`), "utf8");
    const drawing = svg.replace(/^[\s\S]*?<svg[^>]*>/, "").replace(/<path stroke="none"[^>]*\/>/, "").replace("</svg>", "");
    return `<symbol id="${name}" viewBox="0 0 24 24">${drawing.replace(/\s*\n\s*/g, "")}</symbol>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg">\n<!-- ${license} -->\n${symbols.join("\n")}\n</svg>\n`;
}

// One symbol for each operating system: the mark of its project, in the colour that app.css gives it.
function buildMarkSprite(slugs) {
  const icons = JSON.parse(readFileSync(join(packages, "simple-icons/data/simple-icons.json"), "utf8"));
  const toSlug = ({ slug, title }) => slug ?? title.toLowerCase().replace(/[^a-z0-9]/g, "");
  const symbols = Object.values(slugs).map((slug) => {
    const { license } = icons.find((icon) => toSlug(icon) === slug);
    const drawing = readSource(join("simple-icons/icons", `${slug}.svg`)).match(/<path[\s\S]*\/>/)[0];
    return `<!-- ${slug}: ${license?.type ?? "CC0-1.0"} --><symbol id="${slug}" viewBox="0 0 24 24">${drawing}</symbol>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg">\n<!-- Drawings of simple-icons. The marks belong to their owners. -->\n${symbols.join("\n")}\n</svg>\n`;
}

function readSource(file) {
  return readFileSync(join(packages, file), "utf8").replace(/\n?\/[/*]# sourceMappingURL=\S+( \*\/)?/, "");
}

rmSync(vendor, { recursive: true, force: true });
for (const file of FILES) {
  writeFile(file.split("/").at(-1), readSource(file));
}
for (const [name, trees] of Object.entries(TREES)) {
  for (const tree of trees) {
    for (const file of readdirSync(join(packages, tree), { recursive: true }).filter((name) => name.endsWith(".js"))) {
      writeFile(join(name, tree.split("/").at(-1), file), readSource(join(tree, file)));
    }
  }
}
writeFile("marks.svg", buildMarkSprite(JSON.parse(readFileSync(join(here, "marks.json"), "utf8"))));
for (const file of readdirSync(join(packages, "flag-icons/flags/4x3")).filter((name) => /^[a-z]{2}\.svg$/.test(name))) {
  writeFile(join("flags", file), readSource(join("flag-icons/flags/4x3", file)));
}
writeFile("icons.svg", buildSprite(JSON.parse(readFileSync(join(here, "icons.json"), "utf8"))));
