import { NumberField } from "../parts/fields";
import { ListFields } from "../parts/list-fields";
import { brief, change } from "../state/brief";
import { status } from "../state/connection";
import { draft, isWorking, write } from "./generate";
import { MoreSettings } from "./more-settings";
import { PromptWords } from "./prompt-words";

/** What is to be written, and in which words. */
export function BriefForm() {
  const { prompt, length } = brief.value;
  const isOff = isWorking.value || status.value !== "ready";
  return (
    <form
      class="brief"
      aria-label="Brief"
      onSubmit={(event) => {
        event.preventDefault();
        if (!isOff) void write();
      }}
    >
      <label class="field">
        <span>What should it be about?</span>
        <textarea
          rows={2}
          required
          value={prompt}
          placeholder="A story about a dog who finds a map"
          onInput={(event) => change({ prompt: event.currentTarget.value })}
        />
      </label>
      <PromptWords />
      <ListFields />
      <div class="length-and-write">
        <NumberField
          label="Length, in words"
          value={length}
          least={10}
          most={2_000}
          onChange={(length) => change({ length: length ?? 120 })}
        />
        <button type="submit" class="primary" aria-disabled={isOff}>
          {draft.text.value.trim() ? "Write it anew" : "Write"}
        </button>
      </div>
      <MoreSettings />
    </form>
  );
}
