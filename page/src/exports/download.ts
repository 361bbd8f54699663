/** Save a file where the browser saves files. */
export function download(name: string, content: string | Blob, type = "text/plain"): void {
  const blob = typeof content === "string" ? new Blob([content], { type: `${type};charset=utf-8` }) : content;
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // The browser reads the file after the click.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Return a title as the name of a file on any system. */
export function fileName(title: string, ending: string): string {
  const name = title
    .replace(/[\p{Cc}\p{Cf}"*/:<>?\\|]+/gu, " ")
    .replace(/\s+/gu, " ")
    .trim()
    .slice(0, 80);
  return `${name.replace(/[. ]+$/, "") || "text"}.${ending}`;
}
