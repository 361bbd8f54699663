// Writes the types of the service's OpenAPI document that src/api/types.ts names: node types.mjs FILE < openapi.json
import { readFile, writeFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { compile } from "json-schema-to-typescript";

const { schemas } = JSON.parse(await text(process.stdin)).components;
const source = await readFile(new URL("src/api/types.ts", import.meta.url), "utf8");
const named = [...source.matchAll(/\{([^}]*)\} from "..\/..\/schemas"/g)].flatMap(([, names]) => names.match(/\w+/g));
const root = {
  type: "object",
  properties: Object.fromEntries(named.filter((name) => name in schemas).map((name) => [name, refTo(name)])),
  definitions: plain(schemas),
};
const options = { additionalProperties: false, ignoreMinAndMaxItems: true, style: { printWidth: 120 } };
const bannerComment = "// Made by types.mjs from the service's OpenAPI document: run make page.";
await writeFile(process.argv[2], await compile(root, "Schemas", { ...options, bannerComment }));

function refTo(name) {
  return { $ref: `#/definitions/${name}` };
}

/** Return a schema without its texts and bounds, of which some would be types of their own. */
function plain(part) {
  if (Array.isArray(part)) return part.map(plain);
  if (part === null || typeof part !== "object") return part;
  if (typeof part.$ref === "string") return refTo(part.$ref.split("/").at(-1));
  const members = Object.entries(part).filter(
    ([name, value]) => typeof value === "object" || !/^(title|description|min.*|max.*|x-.*)$/.test(name),
  );
  return Object.fromEntries(members.map(([name, value]) => [name, plain(value)]));
}
