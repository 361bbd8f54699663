import { ExportMenu } from "../exports/dialogs";
import { Button, DropZone, FileButton, submitting, Switch, WordsField } from "../parts/controls";
import { ListFields } from "../parts/list-fields";
import { FaultNotice } from "../parts/notice";
import { percent, ReportPanel } from "../parts/report-panel";
import { show } from "../parts/tabs";
import { brief, change, distinct } from "../state/brief";
import { status } from "../state/connection";
import { Editor } from "../text/editor";
import { Readings } from "../text/readings";
import { wordActions } from "../write/actions";
import { isWorking, replaceDraft } from "../write/generate";
import {
  able,
  discard,
  outcome,
  reading,
  rewriteSource,
  rewriting,
  rewritten,
  settings,
  source,
  takeFile,
} from "./rewriting";

const MOST_CHANGES = 200;

/** A text that is there already: what it is made of, and the same in the words of a list. */
export function CheckTab() {
  const hasSecond = rewriting.isOn.value || rewritten.text.value !== "";
  return (
    <div class={`columns ${hasSecond ? "has-second" : ""}`}>
      <Settings />
      <main class="page">
        <Progress />
        <FaultNotice fault={reading.fault.value ?? rewriting.fault.value} />
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
    <form class="brief" onSubmit={submitting(rewriteSource)}>
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
        placeholder="Anna, geranium"
        value={brief.value.added}
        onChange={(added) => change({ added })}
      />
      {able.value?.names && (
        <Switch
          label="Keep names apart"
          value={settings.value.names}
          onChange={(names) => (settings.value = { ...settings.peek(), names })}
        />
      )}
      {able.value?.inflected && (
        <Switch
          label="Added words with endings"
          value={settings.value.inflected}
          onChange={(inflected) => (settings.value = { ...settings.peek(), inflected })}
        />
      )}
      <div class="buttons">
        <Button
          label="Rewrite into this list"
          type="submit"
          isMain
          disabled={isEmpty || rewriting.isOn.value || status.value !== "ready"}
        />
        {rewriting.isOn.value && <Button label="Stop" onClick={() => rewriting.stop()} />}
      </div>
      <p class="hint">Sentences that are in the list stay as they are. Each other one takes the model some seconds.</p>
    </form>
  );
}

function Progress() {
  return (
    <div role="status" class="progress">
      {reading.isOn.value && "Reading the file…"}
      {rewriting.isOn.value ? "Rewriting…" : rewriting.message.value}
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
          : rewriting.isOn.value && "The text comes sentence by sentence."}
      </p>
      <div class="buttons">
        <Button
          label="Take this text"
          isMain
          disabled={rewriting.isOn.value || isWorking.value || !rewritten.text.value}
          onClick={() => {
            replaceDraft(rewritten.text.peek(), []);
            show("write");
          }}
        />
        <Button label="Discard" onClick={discard} />
      </div>
      <Editor document={rewritten} label="Rewritten text" isReadOnly={rewriting.isOn.value} actions={wordActions} />
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
          <Button label="Allow them" onClick={() => change({ added: distinct([...brief.value.added, ...names]) })} />
        </p>
      )}
    </section>
  );
}

function shareOf(coverage: number | null): string {
  return coverage === null ? "no words" : percent(coverage, 1);
}
