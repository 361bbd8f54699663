import { batch, computed, signal } from "@preact/signals";
import { FileError, readText } from "../parts/read-file";
import { brief } from "../state/brief";
import { freeName, keep, listNamed, type MyList, myLists } from "../state/lists";
import { readWords } from "./read-words";

/** What the tab shows: a list, the form of one that is made or changed, or two lists that become one. */
export type Shown = { kind: "list"; name: string } | { kind: "form"; before: string | null } | { kind: "combine" };

const [first] = myLists.peek();
export const shown = signal<Shown>(first ? { kind: "list", name: first.name } : { kind: "form", before: null });

export const form = {
  name: signal(""),
  lang: signal(brief.peek().lang),
  text: signal(""),
  fault: signal(""),
};

export const read = computed(() => readWords(form.text.value, form.lang.value));

export function startList(): void {
  fill({ name: "", lang: brief.peek().lang, words: [] }, null);
}

export function changeList(list: MyList): void {
  fill(list, list.name);
}

function fill({ name, lang, words }: MyList, before: string | null): void {
  batch(() => {
    form.name.value = name;
    form.lang.value = lang;
    form.text.value = words.join("\n");
    form.fault.value = "";
    shown.value = { kind: "form", before };
  });
}

/** Keep the list of the form, and show it. */
export function saveForm(before: string | null): void {
  const name = form.name.value.trim();
  const { words } = read.value;
  if (!words.length) form.fault.value = "There is no word to save yet.";
  else if (name !== before && listNamed(name)) form.fault.value = `You have a list named "${name}" already.`;
  else {
    keep({ name, lang: form.lang.value, words }, before);
    shown.value = { kind: "list", name };
    // A brief goes by names.
    if (before !== null && brief.peek().myList === before) {
      brief.value = { ...brief.peek(), myList: form.lang.value === brief.peek().lang ? name : "" };
    }
  }
}

/** Read a file into the form. */
export async function takeFile(file: File): Promise<void> {
  try {
    form.text.value = await readText(file);
    form.fault.value = "";
    if (!form.name.value) form.name.value = freeName(file.name.replace(/\.[^.]*$/, ""));
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    form.fault.value = error.message;
  }
}
