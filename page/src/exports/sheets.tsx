import { type ComponentChildren, Fragment, render, type VNode } from "preact";
import { isRead } from "../state/connection";
import { Paragraphs, RubyWord } from "../text/readings";
import type { Handout } from "./handout";

/** Print a sheet alone, without the page around it. */
export function print(sheet: VNode): void {
  show(sheet);
  globalThis.print();
}

/** The sheet that the browser's own print command prints; null to print the page as it is. */
export function onPrint(sheet: () => VNode | null): void {
  addEventListener("beforeprint", () => {
    const wanted = root().childElementCount ? null : sheet();
    if (wanted) show(wanted);
  });
  addEventListener("afterprint", () => {
    render(null, root());
    document.documentElement.classList.remove("prints-handout");
  });
}

function show(sheet: VNode): void {
  // Drawn at once: the browser's dialog does not wait.
  render(sheet, root());
  document.documentElement.classList.add("prints-handout");
}

function root(): HTMLElement {
  const known = document.getElementById("handout");
  if (known) return known;
  const made = document.createElement("div");
  made.id = "handout";
  document.body.append(made);
  return made;
}

/** A sheet in the language, direction and size of a handout, under its title. */
export function Sheet({ handout, children }: { handout: Handout; children: ComponentChildren }) {
  return (
    <article
      class="handout"
      lang={handout.lang}
      dir={handout.direction}
      style={{ fontSize: `${handout.settings.value.size}pt` }}
    >
      {handout.title && <h1>{handout.title}</h1>}
      {children}
    </article>
  );
}

/** The text, and on wish what its new words mean. */
export function TextSheet({ handout }: { handout: Handout }) {
  return (
    <Sheet handout={handout}>
      <TextOf handout={handout} />
      {handout.settings.value.withGlossary && <Words handout={handout} />}
    </Sheet>
  );
}

/** The paragraphs of a handout's text, on wish with how its words are read. */
function TextOf({ handout: { document } }: { handout: Handout }) {
  const lang = document.lang.value;
  return <Paragraphs text={document.text.value} words={isRead(lang) ? document.words.value : []} lang={lang} />;
}

/** The words with their sentences. */
export function GlossarySheet({ handout }: { handout: Handout }) {
  return (
    <Sheet handout={handout}>
      <Words handout={handout} withSentences />
    </Sheet>
  );
}

function Words({ handout, withSentences = false }: { handout: Handout; withSentences?: boolean }) {
  const { notes } = handout.settings.value;
  return (
    <dl class="glossary">
      {handout.entries.value.map(({ key, word, reading, sentence, start, end }) => (
        <div key={key}>
          <dt>{reading ? <RubyWord spelling={word} reading={reading} lang={handout.lang} /> : word}</dt>
          <dd>
            <span dir="auto">{notes[key]}</span>
            {withSentences && (
              <p class="example">
                {sentence.slice(0, start)}
                <b>{sentence.slice(start, end)}</b>
                {sentence.slice(end)}
              </p>
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** The text with gaps, its word bank, and the answers on a page of their own. */
export function GapSheet({ handout }: { handout: Handout }) {
  const { pieces, answers, bank } = handout.gapFill.value;
  // As wide for every gap as for the longest answer, written by hand.
  const width = `${Math.max(6, ...answers.map((answer) => 0.8 * answer.length))}em`;
  return (
    <Sheet handout={handout}>
      <ul class="word-bank">
        {bank.map((word, index) => (
          <li key={index}>{word}</li>
        ))}
      </ul>
      <div class="gap-text">
        {pieces.map((piece, index) => (
          <Fragment key={index}>
            {piece}
            {index < answers.length && (
              <span class="gap">
                <span class="gap-number">({index + 1})</span>
                <span class="gap-line" style={{ width }} role="img" aria-label={`Gap ${index + 1}`} />
              </span>
            )}
          </Fragment>
        ))}
      </div>
      <ol class="answers">
        {answers.map((answer, index) => (
          <li key={index}>{answer}</li>
        ))}
      </ol>
    </Sheet>
  );
}
