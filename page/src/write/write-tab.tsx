import { FaultNotice } from "../parts/notice";
import { ReportPanel } from "../parts/report-panel";
import { Editor } from "../text/editor";
import { wordActions } from "./actions";
import { BriefForm } from "./brief-form";
import { Compared } from "./compare";
import { draft, fault } from "./generate";
import { Toolbar } from "./toolbar";

export function WriteTab() {
  return (
    <div class="columns">
      <BriefForm />
      <main class="page">
        <Toolbar />
        <FaultNotice fault={fault.value} />
        <Compared>
          <Editor
            document={draft}
            label="Text"
            placeholder="The text comes here. You can also type or paste one."
            actions={wordActions}
          />
        </Compared>
      </main>
      <ReportPanel document={draft} />
    </div>
  );
}
