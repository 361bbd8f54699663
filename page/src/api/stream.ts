import { createParser } from "eventsource-parser";
import { OFFLINE, ServiceError } from "./errors";

/** Yield the JSON of each server-sent event until `[DONE]`; a stream that ends before it was cut. */
export async function* events(response: Response): AsyncGenerator<Record<string, unknown>> {
  const waiting: string[] = [];
  const parser = createParser({ onEvent: (event) => waiting.push(event.data) });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (value) parser.feed(value);
      for (const data of waiting.splice(0)) {
        if (data === "[DONE]") return;
        yield JSON.parse(data);
      }
      if (done) throw new ServiceError("offline", `The answer was cut. ${OFFLINE}`);
    }
  } finally {
    // Where the reader was left before the end, the service is told so and ends its work.
    await reader.cancel().catch(() => undefined);
  }
}
