import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Button, Dialog, TextField } from "../parts/controls";
import { type Brief, brief, DEFAULT_BRIEF } from "../state/brief";
import { takeFromAddress } from "../state/connection";

const MEMBER = "brief";
/** Of a link that is opened: some mail programs cut longer ones. */
const MAX_CHARS = 8_000;

/** Settings by their names in a link, which are short for the link's sake. A list of one's own is not among them. */
const NAMES: Readonly<Record<string, keyof Brief>> = {
  p: "prompt",
  l: "lang",
  v: "level",
  n: "numWords",
  a: "added",
  x: "excluded",
  m: "mustUse",
  f: "anyForm",
  w: "newWords",
  wf: "newWordsFrom",
  wp: "newWordsPer100",
  s: "maxSentenceWords",
  q: "quality",
  t: "length",
};

/** The brief before that of a link took its place; null where no link was opened. */
export const replaced = signal<Brief | null>(null);
const linkFault = signal("");

/** Return the settings of a brief as part of an address: only those that are not the usual ones. */
export async function encodeBrief(brief: Brief): Promise<string> {
  const members: Record<string, unknown> = {};
  for (const [short, name] of Object.entries(NAMES)) {
    const value = brief[name];
    if (JSON.stringify(value) !== JSON.stringify(DEFAULT_BRIEF[name])) members[short] = value;
  }
  const bytes = new TextEncoder().encode(JSON.stringify(members));
  const packed = await through(bytes, new CompressionStream("deflate-raw"));
  return btoa(String.fromCharCode(...packed))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace(/=+$/, "");
}

/** Return the brief of a link. Throws a TypeError or SyntaxError where the link is damaged. */
export async function decodeBrief(encoded: string): Promise<Brief> {
  if (encoded.length > MAX_CHARS) throw new TypeError("too long");
  const packed = Uint8Array.from(fromBase64(encoded), (char) => char.charCodeAt(0));
  const bytes = await through(packed, new DecompressionStream("deflate-raw"));
  const members: unknown = JSON.parse(new TextDecoder().decode(bytes));
  if (members === null || typeof members !== "object") throw new TypeError("no settings");
  const brief: Record<string, unknown> = { ...DEFAULT_BRIEF };
  for (const [short, value] of Object.entries(members)) {
    const name = NAMES[short];
    // A later version may have more of them.
    if (!name) continue;
    if (!fits(name, value)) throw new TypeError(`not a value of ${name}`);
    brief[name] = value;
  }
  return brief as unknown as Brief;
}

function fits(name: keyof Brief, value: unknown): boolean {
  if (name === "quality") return value === "fast" || value === "better";
  if (name === "maxSentenceWords" && value === null) return true;
  const usual = name === "maxSentenceWords" ? 1 : DEFAULT_BRIEF[name];
  if (Array.isArray(usual)) return Array.isArray(value) && value.every((word) => typeof word === "string");
  if (typeof usual === "number") return Number.isInteger(value) && (value as number) > 0;
  return typeof value === typeof usual;
}

function fromBase64(encoded: string): string {
  try {
    return atob(encoded.replaceAll("-", "+").replaceAll("_", "/"));
  } catch {
    throw new TypeError("not in base 64");
  }
}

async function through(
  bytes: Uint8Array<ArrayBuffer>,
  stream: CompressionStream | DecompressionStream,
): Promise<Uint8Array> {
  const answer = new Response(new Blob([bytes]).stream().pipeThrough(stream));
  return new Uint8Array(await answer.arrayBuffer());
}

/** Return an address that opens the page with the settings of a brief: no key, no text, no list of one's own. */
async function linkOf(brief: Brief): Promise<string> {
  return `${location.origin}${location.pathname}#${MEMBER}=${await encodeBrief(brief)}`;
}

/** Take the settings of a link that the page was opened with, and remove them from the address. */
export async function takeBriefFromAddress(): Promise<void> {
  const encoded = takeFromAddress(MEMBER);
  if (encoded === null) return;
  try {
    const linked = await decodeBrief(encoded);
    replaced.value = brief.peek();
    brief.value = linked;
    linkFault.value = "";
  } catch {
    linkFault.value = "The settings of this link cannot be read: it is cut or damaged. Ask for the link again.";
  }
}

/** Return to the settings from before the link. */
function undoLink(): void {
  if (replaced.peek()) brief.value = replaced.peek()!;
  replaced.value = null;
}

const link = signal("");
const isCopied = signal(false);

/** A button for a link to the settings of the brief. */
export function LinkButton() {
  const isOpen = useSignal(false);
  return (
    <>
      <Button label="Link to these settings" aria-haspopup="dialog" onClick={() => (isOpen.value = true)} />
      {isOpen.value && <LinkDialog onClose={() => (isOpen.value = false)} />}
    </>
  );
}

function LinkDialog({ onClose }: { onClose: () => void }) {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    isCopied.value = false;
    void linkOf(brief.value).then((made) => (link.value = made));
  }, [brief.value]);
  return (
    <Dialog title="Link to these settings" onClose={onClose}>
      <TextField
        label="Whoever opens it has your list, words and wishes, and writes a text of their own"
        ref={field}
        readOnly
        value={link.value}
        onFocus={(event) => event.currentTarget.select()}
        // It stands in a form: Enter is not to write a text.
        onKeyDown={(event) => event.key === "Enter" && event.preventDefault()}
      />
      <div class="buttons">
        <Button label="Copy" isMain onClick={() => void copy(field.current!)} />
        <span role="status">{isCopied.value && "Copied."}</span>
      </div>
      <p class="hint">
        Neither your text nor the key is in it: they need a key of this service.
        {brief.value.myList && ` Your list "${brief.value.myList}" is not either: give them its file.`}
      </p>
    </Dialog>
  );
}

async function copy(field: HTMLInputElement): Promise<void> {
  try {
    await navigator.clipboard.writeText(field.value);
    isCopied.value = true;
  } catch {
    // Browsers allow it to pages over HTTPS only; copying what is selected they allow to all.
    field.select();
    isCopied.value = document.execCommand("copy");
  }
}

/** Says that the page was opened with a link, or that the link is damaged. */
export function LinkNotice() {
  return (
    <div role="status">
      {linkFault.value && <p class="notice is-fault">{linkFault.value}</p>}
      {replaced.value && (
        <p class="notice">
          The settings of the link are in the form now. Your own ones were put aside.{" "}
          <Button label="Back to mine" onClick={undoLink} />{" "}
          <Button label="Keep these" onClick={() => (replaced.value = null)} />
        </p>
      )}
    </div>
  );
}
