/** Return a line of a CSV file. */
export function csvLine(cells: readonly string[], separator = ","): string {
  return cells.map((cell) => csvCell(cell, separator)).join(separator);
}

function csvCell(cell: string, separator: string): string {
  // Anki takes a line that begins with # for one of its settings.
  return cell.includes(separator) || /^#|["\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}

/** Return a CSV file with a first line of names. The mark at its beginning tells Excel that it is UTF-8. */
export function csvFile(names: readonly string[], rows: readonly (readonly string[])[]): string {
  return `\ufeff${[names, ...rows].map((row) => csvLine(row)).join("\r\n")}\r\n`;
}
