import type { ServiceError } from "../api/request";
import { key, status } from "../state/connection";
import { unkept } from "../state/storage";
import { Button } from "./controls";

/** What is wrong, and what to do about it; spoken by screen readers. */
export function FaultNotice({ fault }: { fault: ServiceError | null }) {
  // A missing key and a lost service are told once, by the page's own notice.
  if (!fault || fault.kind === "key" || fault.kind === "offline") return <div role="alert" />;
  return (
    <div role="alert" class="notice is-fault">
      {fault.message}
      {fault.param && <span class="param"> ({fault.param})</span>}
    </div>
  );
}

/** Whether the service can be used, and a field for the key where it has none. */
export function ConnectionNotice() {
  switch (status.value) {
    case "ready":
    case "connecting":
      return null;
    case "loading":
      return (
        <div class="notice" role="status">
          <span class="spinner" aria-hidden="true" /> The model is being loaded. This page goes on by itself.
        </div>
      );
    case "offline":
      return (
        <div class="notice is-fault" role="alert">
          The service cannot be reached. Your text is kept in this browser; this page tries again by itself.
        </div>
      );
    case "key":
      return <KeyForm />;
  }
}

/** Whether the browser has no room left for what it is to keep. */
export function StoreNotice() {
  return (
    <div role="alert">
      {unkept.value.length > 0 && (
        <p class="notice is-fault">
          This browser has no room left, or keeps nothing for this page: what you change now is lost when you close the
          tab. Download your lists and texts, and delete lists that you do not need.
        </p>
      )}
    </div>
  );
}

function KeyForm() {
  return (
    <form
      class="notice key-form"
      onSubmit={(event) => {
        event.preventDefault();
        key.value = String(new FormData(event.currentTarget).get("key") ?? "").trim();
      }}
    >
      <label class="field">
        <span>{key.value ? "This key is not valid. Another one:" : "Key of this service"}</span>
        <input type="password" name="key" autocomplete="current-password" required />
      </label>
      <Button label="Use this key" type="submit" />
      <p class="hint">Whoever runs the service has it. It is kept until you close this tab.</p>
    </form>
  );
}
