import { render } from "preact";
import { CheckTab } from "./check/check-tab";
import { source } from "./check/rewriting";
import { ExercisesTab } from "./exercises/exercises-tab";
import { exerciseSheet } from "./exercises/sheet";
import { handoutOf } from "./exports/handout";
import { onPrint, TextSheet } from "./exports/sheets";
import { ListsTab } from "./lists/lists-tab";
import { ConnectionNotice, StoreNotice } from "./parts/notice";
import { Panel, type Tab, tab, type TabName, Tabs } from "./parts/tabs";
import { keepConnected, modelId } from "./state/connection";
import { draft } from "./write/generate";
import { LinkNotice, takeBriefFromAddress } from "./write/link";
import { WriteTab } from "./write/write-tab";

const TABS: readonly Tab<TabName>[] = [
  { name: "write", label: "Write" },
  { name: "check", label: "Check" },
  { name: "exercises", label: "Exercises" },
  { name: "lists", label: "My lists" },
];

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
        <CheckTab />
      </Panel>
      <Panel name="exercises" isShown={tab.value === "exercises"}>
        <ExercisesTab />
      </Panel>
      <Panel name="lists" isShown={tab.value === "lists"}>
        <ListsTab />
      </Panel>
    </>
  );
}

/** What the browser's own print command prints: the text of the tab, or the exercises. */
function sheetOfTab() {
  if (tab.peek() === "exercises") return exerciseSheet();
  const shown = tab.peek() === "write" ? draft : tab.peek() === "check" ? source : null;
  if (!shown?.text.peek().trim()) return null;
  return <TextSheet handout={handoutOf(shown, shown === draft ? "draft" : "source")} />;
}

keepConnected();
void takeBriefFromAddress();
addEventListener("hashchange", () => void takeBriefFromAddress());
onPrint(sheetOfTab);
render(<App />, document.getElementById("app")!);
