import { batch, signal } from "@preact/signals";
import { isAborted, ServiceError } from "./errors";

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
