/** Bytes of a file that the page reads; a text of that size is more than the service checks at once. */
export const MAX_FILE_BYTES = 4 * 2 ** 20;

/** A file that cannot be read; the message says what to do. */
export class FileError extends Error {}

/**
 * Return the text of a file: in UTF-8, in UTF-16 with its mark, or else as older programs of Windows save it.
 *
 * Throws a FileError for one that is too large or no text.
 */
export async function readText(file: File): Promise<string> {
  if (file.size > MAX_FILE_BYTES) {
    throw new FileError(`${file.name} has more than ${MAX_FILE_BYTES / 2 ** 20} MB. Take a part of it.`);
  }
  return decoded(new Uint8Array(await file.arrayBuffer()), file.name);
}

export function decoded(bytes: Uint8Array, name: string): string {
  const [first, second] = bytes;
  if ((first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)) {
    return new TextDecoder(first === 0xff ? "utf-16le" : "utf-16be").decode(bytes);
  }
  if (bytes.includes(0)) throw new FileError(`${name} is no text. Save it as plain text, in UTF-8.`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}
