import { render } from "preact";
import { CheckTab } from "./check/check-tab";
import { source } from "./check/rewriting";
import { ExercisesTab } from "./exercises/exercises-tab";
import { exerciseSheet } from "./exercises/sheet";
import { handoutOf } from "./exports/handout";
import { onPrint, TextSheet } from "./exports/sheets";
import { ListsTab } from "./lists/lists-tab";
import { ConnectionNotice, StoreNotice } from "./parts/notice";
import { Panels, tab, TabList } from "./parts/tabs";
import { keepConnected, modelId } from "./state/connection";
import { draft } from "./write/generate";
import { LinkNotice, takeBriefFromAddress } from "./write/link";
import { WriteTab } from "./write/write-tab";

const TABS = {
  write: ["Write", WriteTab],
  check: ["Check", CheckTab],
  exercises: ["Exercises", ExercisesTab],
  lists: ["My lists", ListsTab],
} as const;

function App() {
  return (
    <>
      <header>
        <h1>wordbound</h1>
        <TabList tabs={TABS} label="What to do" />
        <span class="model">{modelId.value}</span>
      </header>
      <ConnectionNotice />
      <StoreNotice />
      <LinkNotice />
      <Panels tabs={TABS} />
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
