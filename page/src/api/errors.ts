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

export function isAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
