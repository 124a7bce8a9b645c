// Builds dist/: index.html, and in assets/ one script and one style sheet with the hash of their contents in their names.
import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const top = dirname(fileURLToPath(import.meta.url));
const dist = join(top, "dist");

const options = {
  entryPoints: { page: join(top, "src/main.tsx"), style: join(top, "src/ui/style.css") },
  bundle: true,
  write: false,
  outdir: dist,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  legalComments: "none",
  // A page without outside resources: whatever is imported is in these two files.
  external: [],
  logLevel: "warning",
};

async function publish(result) {
  const names = {};
  await rm(dist, { recursive: true, force: true });
  await mkdir(join(dist, "assets"), { recursive: true });
  for (const file of result.outputFiles) {
    const [, stem, ending] = /([a-z]+)\.(js|css)$/.exec(file.path);
    const hash = createHash("sha256").update(file.contents).digest("hex").slice(0, 12);
    names[`${stem}.${ending}`] = `assets/${stem}-${hash}.${ending}`;
    await writeFile(join(dist, names[`${stem}.${ending}`]), file.contents);
  }
  let page = await readFile(join(top, "index.html"), "utf8");
  for (const [plain, hashed] of Object.entries(names)) page = page.replaceAll(`"${plain}"`, `"${hashed}"`);
  // In the page itself: as a file Chromium asks for it again whenever the page's address changes, which it does after each zoom.
  const icon = await readFile(join(top, "icon.svg"), "base64");
  page = page.replaceAll('"icon.svg"', `"data:image/svg+xml;base64,${icon}"`);
  await writeFile(join(dist, "index.html"), page);
}

if (process.argv.includes("--watch")) {
  const plugin = {
    name: "publish",
    setup: (build) => build.onEnd((result) => result.errors.length || publish(result)),
  };
  const context = await esbuild.context({ ...options, plugins: [plugin] });
  await context.watch();
} else {
  await publish(await esbuild.build(options));
}
