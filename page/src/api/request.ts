import { batch, signal } from "@preact/signals";

/** What is to be done about an error: give a key, wait, come back online, or change the request. */
export type Kind = "key" | "busy" | "offline" | "request" | "service";

/** An answer that is none. */
export class ServiceError extends Error {
  constructor(
    readonly kind: Kind,
    message: string,
    readonly status: number | null = null,
    /** The member of the request that is to be changed. */
    readonly param: string | null = null,
    /** Seconds until the request can be sent again. */
    readonly retryAfterS: number | null = null,
  ) {
    super(message);
  }
}

export const OFFLINE = "The service cannot be reached. Your text is kept in this browser.";

/** Return what an answer with an error status says. */
export async function errorOf(response: Response): Promise<ServiceError> {
  let message = `The service answered ${response.status}.`;
  let param: string | null = null;
  try {
    const { error } = await response.json();
    message = error.message ?? message;
    param = error.param ?? null;
  } catch {
    // An answer of something between: a proxy, say.
  }
  const after = Number(response.headers.get("Retry-After"));
  const kind = kindOf(response.status);
  return new ServiceError(kind, message, response.status, param, kind === "busy" ? after || 2 : null);
}

function kindOf(status: number): Kind {
  if (status === 401 || status === 403) return "key";
  if (status === 429 || status === 502 || status === 503) return "busy";
  return status < 500 ? "request" : "service";
}

/** Return any error as one of the service; one that ended because it was aborted is thrown again. */
export function asServiceError(error: unknown): ServiceError {
  if (error instanceof ServiceError) return error;
  if (error instanceof DOMException && error.name === "AbortError") throw error;
  // What `fetch` throws where there is no answer.
  if (error instanceof TypeError) return new ServiceError("offline", OFFLINE);
  return new ServiceError("service", String(error));
}

function isAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** Work that a person began: one at a time, until it is done or stopped. */
export class Task {
  readonly isOn = signal(false);
  readonly fault = signal<ServiceError | null>(null);
  /** What came of it, in words. */
  readonly message = signal("");
  private abort: AbortController | null = null;

  stop(): void {
    this.abort?.abort();
  }

  /** Begin work in the place of what is under way. It returns its message; `stopped` has that of work that is stopped. */
  async run(work: (signal: AbortSignal) => Promise<string | void>, stopped = (): string => ""): Promise<void> {
    this.stop();
    const own = (this.abort = new AbortController());
    batch(() => {
      this.isOn.value = true;
      this.fault.value = null;
      this.message.value = "";
    });
    try {
      const message = await work(own.signal);
      if (this.abort === own) this.message.value = message ?? "";
    } catch (error) {
      if (this.abort !== own) return;
      if (isAborted(error)) this.message.value = stopped();
      else if (error instanceof ServiceError) this.fault.value = error;
      else throw error;
    } finally {
      if (this.abort === own) this.isOn.value = false;
    }
  }
}

/** A request that is sent anew whenever what it asks about changes; only the newest one counts. */
export class LatestRequest {
  /** Whether an answer is to come. */
  readonly isPending = signal(false);
  readonly fault = signal<ServiceError | null>(null);
  private timer: ReturnType<typeof setTimeout> | undefined;
  private abort: AbortController | null = null;

  /** Send it after a pause, in the place of one that waits or is under way, and again where the service is busy. */
  send<Answer>(pauseMs: number, ask: (signal: AbortSignal) => Promise<Answer>, take: (answer: Answer) => void): void {
    clearTimeout(this.timer);
    this.isPending.value = true;
    this.timer = setTimeout(() => void this.sendNow(ask, take), pauseMs);
  }

  cancel(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.abort?.abort();
    this.settle(null);
  }

  private async sendNow<Answer>(
    ask: (signal: AbortSignal) => Promise<Answer>,
    take: (answer: Answer) => void,
  ): Promise<void> {
    this.timer = undefined;
    this.abort?.abort();
    this.abort = new AbortController();
    try {
      const answer = await ask(this.abort.signal);
      batch(() => {
        this.settle(null);
        take(answer);
      });
    } catch (error) {
      if (isAborted(error)) return;
      if (!(error instanceof ServiceError)) throw error;
      this.settle(error);
      if (error.kind === "busy" && !this.timer) this.send(1_000 * (error.retryAfterS ?? 2), ask, take);
    }
  }

  private settle(fault: ServiceError | null): void {
    batch(() => {
      this.fault.value = fault;
      this.isPending.value = this.timer !== undefined;
    });
  }
}
