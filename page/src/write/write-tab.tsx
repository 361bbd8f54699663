import { computed } from "@preact/signals";
import { ReportPanel } from "../parts/report-panel";
import { brief } from "../state/brief";
import { status } from "../state/connection";
import { Editor } from "../text/editor";
import { Readings } from "../text/readings";
import { unusedOf } from "../text/must-use";
import { rewriteUnlisted, wordActions } from "./actions";
import { BriefForm } from "./brief-form";
import { Compared, isComparing } from "./compare";
import { answered, draft, isWorking } from "./generate";
import { Toolbar } from "./toolbar";

/** Required words that the draft lacks: as the service says, until the draft is edited. */
const unused = computed(() => {
  const { mustUse, anyForm } = brief.value;
  const told = answered.value;
  if (told?.vocab.must_use && told.text === draft.text.value) {
    const lacking = new Set(told.vocab.must_use.filter(({ count, used }) => used < count).map(({ word }) => word));
    if (told.vocab.must_use.length === mustUse.length) return mustUse.filter((word) => lacking.has(word));
  }
  return unusedOf(mustUse, anyForm, draft.text.value, draft.words.value);
});

export function WriteTab() {
  const canRewrite = !isWorking.value && status.value === "ready";
  return (
    <div class={isComparing.value ? "columns is-comparing" : "columns"}>
      <BriefForm />
      <main class="page">
        <Compared>
          <Editor
            document={draft}
            label="Text"
            placeholder="The text comes here. You can also type or paste one."
            actions={wordActions}
          />
        </Compared>
        {!isWorking.value && !isComparing.value && <Readings document={draft} label="Text" />}
        <Toolbar />
      </main>
      {!isComparing.value && (
        <ReportPanel
          document={draft}
          unused={unused.value}
          onRewrite={canRewrite ? () => void rewriteUnlisted() : null}
        />
      )}
    </div>
  );
}
