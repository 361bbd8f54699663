import { FaultNotice } from "../parts/notice";
import { ReportPanel } from "../parts/report-panel";
import { Editor } from "../text/editor";
import { BriefForm } from "./brief-form";
import { countdown, draft, fault, note, phase, stop } from "./generate";

export function WriteTab() {
  return (
    <div class="columns">
      <BriefForm />
      <main class="page">
        <Progress />
        <FaultNotice fault={fault.value} />
        <Editor document={draft} label="Text" placeholder="The text comes here. You can also type or paste one." />
      </main>
      <ReportPanel document={draft} />
    </div>
  );
}

function Progress() {
  return (
    <div role="status" class="progress">
      {phase.value === "waiting" && "The model is thinking…"}
      {phase.value === "writing" && "Writing…"}
      {phase.value === "busy" && (
        <>
          The service is busy. Trying again in {countdown.value} s. <button onClick={stop}>Cancel</button>
        </>
      )}
      {phase.value === "idle" && note.value}
    </div>
  );
}
