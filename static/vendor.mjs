// Copies what browsers load from the installed packages to vendor/, and draws the icons that we use into one file.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync } from "node:zlib";

const here = fileURLToPath(new URL(".", import.meta.url));
const packages = join(here, "node_modules");
const vendor = join(here, "vendor");

const FILES = [
  "@tabler/core/dist/css/tabler.min.css",
  "@tabler/core/dist/js/tabler.min.js",
  "htmx.org/dist/htmx.min.js",
  "swagger-ui-dist/swagger-ui-bundle.js",
  "swagger-ui-dist/swagger-ui.css",
];

function put(name, text) {
  writeFileSync(join(vendor, name), text);
  writeFileSync(join(vendor, `${name}.br`), brotliCompressSync(text));
}

// A symbol a drawing; who uses one gives size, colour and stroke.
function sprite(names) {
  const license = readFileSync(join(packages, "@tabler/icons/LICENSE"), "utf8");
  const symbols = names.map((name) => {
    const svg = readFileSync(join(packages, "@tabler/icons/icons/outline", `${name}.svg`), "utf8");
    const drawing = svg.replace(/^[\s\S]*?<svg[^>]*>/, "").replace(/<path stroke="none"[^>]*\/>/, "").replace("</svg>", "");
    return `<symbol id="${name}" viewBox="0 0 24 24">${drawing.replace(/\s*\n\s*/g, "")}</symbol>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg">\n<!-- ${license} -->\n${symbols.join("\n")}\n</svg>\n`;
}

rmSync(vendor, { recursive: true, force: true });
mkdirSync(vendor);
for (const file of FILES) {
  const text = readFileSync(join(packages, file), "utf8");
  put(file.split("/").at(-1), text.replace(/\n?\/[/*]# sourceMappingURL=\S+( \*\/)?/, ""));
}
put("icons.svg", sprite(JSON.parse(readFileSync(join(here, "icons.json"), "utf8"))));
