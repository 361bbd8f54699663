import { computed, signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { chat } from "../api/client";
import { Button } from "../parts/controls";
import { SizeField } from "../parts/list-fields";
import { Ring } from "../parts/report-panel";
import { brief, change, lang, stepOf, vocabOf } from "../state/brief";
import { status } from "../state/connection";
import { numWords } from "../state/lists";
import { TextDocument } from "../text/document";
import { Editor } from "../text/editor";
import { draft, isWorking, phase, prepared, replaceDraft, requestOf, run } from "./generate";

export const isComparing = signal(false);

/** Of the other text's list. */
const otherSize = signal(500);
/** Of the list that the other text was written in. */
const writtenWith = signal(500);
const otherBrief = computed(() => ({ ...brief.value, numWords: writtenWith.value, level: "", myList: "" }));
const vocab = computed(() => vocabOf(otherBrief.value, [...otherBrief.value.added, ...otherBrief.value.mustUse]));
const other = new TextDocument("compare", vocab, lang);

/** Show the text beside another one, or no longer. */
export function compare(): void {
  if (!isComparing.peek()) {
    const own = brief.peek();
    otherSize.value = (stepOf(own, -1, []) ?? stepOf(own, 1, []))!.numWords;
  }
  isComparing.value = !isComparing.peek();
}

/** Write the same brief with another number of words. */
function writeOther(): Promise<void> {
  return run(async (signal) => {
    const own = { ...brief.peek(), numWords: otherSize.peek(), level: "", myList: "" };
    const request = requestOf(own, [{ role: "user", content: own.prompt }]);
    let made = "";
    for await (const { text, vocab } of prepared(request.vocab, chat(request, signal))) {
      if (text) {
        phase.value = "writing";
        if (!made) writtenWith.value = own.numWords;
        if (!made) other.newWords.value = [];
        made += text;
        other.edit(made);
      }
      if (vocab?.new_words) other.newWords.value = vocab.new_words.map(({ word }) => word);
    }
  });
}

function keepOther(): void {
  replaceDraft(other.text.peek(), other.newWords.peek());
  change({ numWords: writtenWith.peek() });
  isComparing.value = false;
}

/** The draft and, if wanted, a text of the same brief in another list beside it. */
export function Compared({ children }: { children: ComponentChildren }) {
  const isOn = isComparing.value;
  return (
    <>
      {isOn && <OtherSize />}
      <div class="side-by-side">
        <Side
          document={draft}
          title={isOn ? numWords(brief.value.numWords) : null}
          onKeep={isWorking.value ? null : compare}
        >
          {children}
        </Side>
        {isOn && (
          <Side
            document={other}
            title={numWords(writtenWith.value)}
            onKeep={other.text.value && !isWorking.value ? keepOther : null}
          >
            <Editor
              document={other}
              label={`Text in ${numWords(writtenWith.value)}`}
              placeholder="The other text comes here."
              isReadOnly
            />
          </Side>
        )}
      </div>
    </>
  );
}

function OtherSize() {
  const hasPrompt = !!brief.value.prompt.trim();
  return (
    <div class="other-size">
      <SizeField
        label="The other list, in words:"
        value={otherSize.value}
        onChange={(given) => (otherSize.value = given)}
      />
      <Button
        label="Write it"
        isMain
        disabled={isWorking.value || status.value !== "ready" || !hasPrompt}
        onClick={() => void writeOther()}
      />
      {!hasPrompt && <p class="hint">Say in the brief what it should be about.</p>}
    </div>
  );
}

interface SideProps {
  document: TextDocument;
  /** Null where there is no other side. */
  title: string | null;
  onKeep: (() => void) | null;
  children: ComponentChildren;
}

function Side({ document, title, onKeep, children }: SideProps) {
  const report = document.report.value;
  return (
    <section {...(title !== null && { "aria-label": title })}>
      {title !== null && (
        <header>
          <h2>{title}</h2>
          {report && <Ring report={report} />}
          {onKeep && <Button label="Keep this one" onClick={onKeep} />}
        </header>
      )}
      {children}
    </section>
  );
}
