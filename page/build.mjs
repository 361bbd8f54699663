// Builds the page into a folder: node build.mjs [FOLDER], ../deployments/page/static by default. Its unit tests: --tests.
import { copyFile, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const common = { bundle: true, charset: "utf8", format: "esm", jsx: "automatic", jsxImportSource: "preact" };

if (process.argv[2] === "--tests") {
  const tests = (await readdir(join(here, "tests"))).filter((name) => name.endsWith(".test.ts"));
  await build({
    ...common,
    entryPoints: tests.map((name) => join(here, "tests", name)),
    outdir: join(here, "build"),
    platform: "node",
  });
} else {
  const folder = process.argv[2] ?? join(here, "..", "deployments", "page", "static");
  await mkdir(folder, { recursive: true });
  const { metafile } = await build({
    ...common,
    entryPoints: [
      { in: join(here, "src", "main.tsx"), out: "page" },
      { in: join(here, "src", "style", "page.css"), out: "page" },
    ],
    assetNames: "[name]",
    outdir: folder,
    loader: { ".woff2": "file" },
    minify: true,
    legalComments: "none",
    metafile: true,
    target: ["es2022", "chrome111", "firefox115", "safari16.4"],
  });
  await copyFile(join(here, "src", "index.html"), join(folder, "index.html"));
  await writeFile(join(folder, "LICENSES.txt"), await licencesOf(Object.keys(metafile.inputs)));
}

/** Return the licences of the packages that these files are of, which ask to be passed on with them. */
async function licencesOf(files) {
  const packages = files.flatMap((file) => file.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1] ?? []);
  const parts = [...new Set(packages)].sort().map(async (name) => {
    const text = await readFile(join(here, "node_modules", name, "LICENSE"), "utf8");
    return `${name}\n${"=".repeat(name.length)}\n\n${text.trim()}\n`;
  });
  return (await Promise.all(parts)).join("\n\n");
}
