import { signal } from "@preact/signals";
import { render } from "preact";
import { CheckTab } from "./check/check-tab";
import { source } from "./check/rewriting";
import { handoutOf } from "./exports/handout";
import { LinkNotice } from "./exports/link-dialog";
import { onPrint, TextSheet } from "./exports/sheets";
import { ListsTab } from "./lists/lists-tab";
import { ConnectionNotice, StoreNotice } from "./parts/notice";
import { Panel, type Tab, Tabs } from "./parts/tabs";
import { keepConnected, modelId } from "./state/connection";
import { takeBriefFromAddress } from "./state/link";
import { draft } from "./write/generate";
import { WriteTab } from "./write/write-tab";

type Name = "write" | "check" | "lists";

const TABS: readonly Tab<Name>[] = [
  { name: "write", label: "Write" },
  { name: "check", label: "Check" },
  { name: "lists", label: "My lists" },
];

const tab = signal<Name>("write");

/** Lead to the Write tab; the button that did is gone then, and the focus with it. */
function showWrite(): void {
  tab.value = "write";
  document.getElementById("tab-write")?.focus();
}

function App() {
  return (
    <>
      <header>
        <h1>wordbound</h1>
        <Tabs tabs={TABS} chosen={tab} label="What to do" />
        <span class="model">{modelId.value}</span>
      </header>
      <ConnectionNotice />
      <StoreNotice />
      <LinkNotice />
      <Panel name="write" isShown={tab.value === "write"}>
        <WriteTab />
      </Panel>
      <Panel name="check" isShown={tab.value === "check"}>
        <CheckTab onWrite={showWrite} />
      </Panel>
      <Panel name="lists" isShown={tab.value === "lists"}>
        <ListsTab onWrite={showWrite} />
      </Panel>
    </>
  );
}

/** What the browser's own print command prints: the text of the tab. */
function sheetOfTab() {
  const shown = { write: draft, check: source, lists: null }[tab.peek()];
  if (!shown?.text.peek().trim()) return null;
  return <TextSheet handout={handoutOf(shown, shown === draft ? "draft" : "source")} />;
}

keepConnected();
void takeBriefFromAddress();
addEventListener("hashchange", () => void takeBriefFromAddress());
onPrint(sheetOfTab);
render(<App />, document.getElementById("app")!);
