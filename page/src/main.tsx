import { signal } from "@preact/signals";
import { render } from "preact";
import { ListsTab } from "./lists/lists-tab";
import { ConnectionNotice, StoreNotice } from "./parts/notice";
import { Panel, type Tab, Tabs } from "./parts/tabs";
import { keepConnected, modelId } from "./state/connection";
import { WriteTab } from "./write/write-tab";

type Name = "write" | "lists";

const TABS: readonly Tab<Name>[] = [
  { name: "write", label: "Write" },
  { name: "lists", label: "My lists" },
];

const tab = signal<Name>("write");

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
      <Panel name="write" isShown={tab.value === "write"}>
        <WriteTab />
      </Panel>
      <Panel name="lists" isShown={tab.value === "lists"}>
        <ListsTab onWrite={() => (tab.value = "write")} />
      </Panel>
    </>
  );
}

keepConnected();
render(<App />, document.getElementById("app")!);
