import { useRef } from "preact/hooks";
import { source } from "../check/rewriting";
import { Button, NumberField, StopButton, submitting } from "../parts/controls";
import { ListFields } from "../parts/list-fields";
import { FaultNotice } from "../parts/notice";
import { status } from "../state/connection";
import { Editor } from "../text/editor";
import { wordActions } from "../write/actions";
import { draft } from "../write/generate";
import { KINDS, LABELS, made, make, making, material, settings, takeText } from "./making";
import { Worksheet } from "./worksheet";

/** Exercises from a text, in the words of a list, each with its key. */
export function ExercisesTab() {
  const hasSecond = making.isOn.value || made.value !== null;
  return (
    <div class={`columns ${hasSecond ? "has-second" : "is-comparing"}`}>
      <Settings />
      <main class="page">
        <Editor document={material} label="Text for exercises" placeholder="Paste a text here." actions={wordActions} />
      </main>
      {hasSecond && <Worksheet />}
    </div>
  );
}

function Settings() {
  const submit = useRef<HTMLButtonElement>(null);
  const { kinds, numItems } = settings.value;
  const isOff = making.isOn.value || status.value !== "ready" || !kinds.length || !material.text.value.trim();
  const texts = [
    { label: "Take the text of Write", document: draft },
    { label: "Take the text of Check", document: source },
  ].filter(({ document }) => document.text.value.trim());
  return (
    <form class="brief" aria-label="Exercises to make" onSubmit={submitting(() => isOff || make())}>
      {texts.length > 0 && (
        <div class="buttons take-text">
          {texts.map(({ label, document }) => (
            <Button key={label} label={label} onClick={() => takeText(document)} />
          ))}
        </div>
      )}
      <ListFields />
      <fieldset class="choices is-wide">
        <legend>Exercises</legend>
        {KINDS.map((kind) => (
          <label key={kind}>
            <input
              type="checkbox"
              checked={kinds.includes(kind)}
              onChange={(event) => {
                const isOn = event.currentTarget.checked;
                const chosen = KINDS.filter((each) => (each === kind ? isOn : kinds.includes(each)));
                settings.value = { numItems, kinds: chosen };
              }}
            />
            {LABELS[kind]}
          </label>
        ))}
      </fieldset>
      <div class="length-and-write">
        <NumberField
          label="Items of each"
          value={numItems}
          least={1}
          most={20}
          onChange={(value) => (settings.value = { kinds, numItems: value ?? 5 })}
        />
        <Button
          ref={submit}
          label={made.value ? "Make again" : "Make exercises"}
          type="submit"
          isMain
          aria-disabled={isOff}
        />
      </div>
      <FaultNotice fault={making.fault.value} />
      <div class="progress">
        <span role="status">{making.isOn.value ? "Making exercises…" : making.message.value}</span>{" "}
        {making.isOn.value && <StopButton onStop={() => making.stop()} next={() => submit.current?.focus()} />}
      </div>
    </form>
  );
}
