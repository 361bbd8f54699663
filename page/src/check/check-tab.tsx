import { ExportMenu } from "../exports/export-menu";
import { Switch } from "../parts/fields";
import { DropZone, FileButton } from "../parts/file-field";
import { ListFields } from "../parts/list-fields";
import { FaultNotice } from "../parts/notice";
import { percent, ReportPanel } from "../parts/report-panel";
import { WordsField } from "../parts/words-field";
import { brief, change, distinct } from "../state/brief";
import { status } from "../state/connection";
import { show } from "../state/tab";
import { Editor } from "../text/editor";
import { Readings } from "../text/readings";
import { wordActions } from "../write/actions";
import { isWorking, replaceDraft } from "../write/generate";
import {
  able,
  discard,
  fault,
  isReading,
  isRewriting,
  message,
  outcome,
  rewriteSource,
  rewritten,
  settings,
  source,
  stop,
  takeFile,
} from "./rewriting";

const MOST_CHANGES = 200;

/** A text that is there already: what it is made of, and the same in the words of a list. */
export function CheckTab() {
  const hasSecond = isRewriting.value || rewritten.text.value !== "";
  return (
    <div class={`columns ${hasSecond ? "has-second" : ""}`}>
      <Settings />
      <main class="page">
        <Progress />
        <FaultNotice fault={fault.value} />
        <DropZone onFile={(file) => void takeFile(file)}>
          <Editor
            document={source}
            label="Text to check"
            placeholder="Paste a text here, or drop a file."
            actions={wordActions}
          />
        </DropZone>
        <Readings document={source} label="Text to check" />
        <ExportMenu document={source} name="source" />
      </main>
      {hasSecond && <Second />}
      <ReportPanel document={source} />
    </div>
  );
}

function Settings() {
  const isEmpty = !source.text.value.trim();
  return (
    <form
      class="brief"
      onSubmit={(event) => {
        event.preventDefault();
        void rewriteSource();
      }}
    >
      <div class="buttons">
        <FileButton
          label="Choose a file"
          accept=".txt,.md,.markdown,.srt,.vtt,.html,.htm,.docx,.odt,.epub,.pdf,text/plain"
          onFile={(file) => void takeFile(file)}
        />
      </div>
      <p class="hint">
        Text, Markdown, Word (.docx), OpenDocument (.odt), EPUB, PDF, a web page (.html) or subtitles (.srt, .vtt).
      </p>
      <ListFields />
      <WordsField
        label="Names and other words that may come"
        hint="Anna, geranium"
        words={brief.value.added}
        onChange={(added) => change({ added })}
      />
      {able.value?.names && (
        <Switch
          label="Keep names apart"
          isOn={settings.value.names}
          onChange={(names) => (settings.value = { ...settings.peek(), names })}
        />
      )}
      {able.value?.inflected && (
        <Switch
          label="Added words with endings"
          isOn={settings.value.inflected}
          onChange={(inflected) => (settings.value = { ...settings.peek(), inflected })}
        />
      )}
      <div class="buttons">
        <button type="submit" class="primary" disabled={isEmpty || isRewriting.value || status.value !== "ready"}>
          Rewrite into this list
        </button>
        {isRewriting.value && (
          <button type="button" onClick={stop}>
            Stop
          </button>
        )}
      </div>
      <p class="hint">Sentences that are in the list stay as they are. Each other one takes the model some seconds.</p>
    </form>
  );
}

function Progress() {
  return (
    <div role="status" class="progress">
      {isReading.value && "Reading the file…"}
      {isRewriting.value && "Rewriting…"}
      {message.value}
    </div>
  );
}

/** The text in the words of the list, beside its source. */
function Second() {
  const result = outcome.value;
  return (
    <section class="page" aria-label="The text in the words of the list">
      <p class="coverage" role="status">
        {result
          ? `In the list, with names: ${shareOf(result.coverage.before)} before, ${shareOf(result.coverage.after)} now.`
          : isRewriting.value && "The text comes sentence by sentence."}
      </p>
      <div class="buttons">
        <button
          type="button"
          class="primary"
          disabled={isRewriting.value || isWorking.value || !rewritten.text.value}
          onClick={() => {
            replaceDraft(rewritten.text.peek(), []);
            show("write");
          }}
        >
          Take this text
        </button>
        <button type="button" onClick={discard}>
          Discard
        </button>
      </div>
      <Editor document={rewritten} label="Rewritten text" isReadOnly={isRewriting.value} actions={wordActions} />
      <Readings document={rewritten} label="Rewritten text" />
      {result && <Changes />}
    </section>
  );
}

function Changes() {
  const { changes, names } = outcome.value!;
  return (
    <section class="changes">
      <h3>Changes</h3>
      {changes.length === 0 && <p class="hint">None: the text is in the list as it is.</p>}
      <ul>
        {changes.slice(0, MOST_CHANGES).map(({ start, from, to }) => (
          <li key={start}>
            <del>
              <bdi>{from}</bdi>
            </del>{" "}
            <ins>
              <bdi>{to}</bdi>
            </ins>
          </li>
        ))}
        {changes.length > MOST_CHANGES && <li>and {changes.length - MOST_CHANGES} more</li>}
      </ul>
      {names.length > 0 && (
        <p>
          Kept as names: <bdi>{names.join(", ")}</bdi>{" "}
          <button type="button" onClick={() => change({ added: distinct([...brief.value.added, ...names]) })}>
            Allow them
          </button>
        </p>
      )}
    </section>
  );
}

function shareOf(coverage: number | null): string {
  return coverage === null ? "no words" : percent(coverage, 1);
}
