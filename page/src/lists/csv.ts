/** Return a line of a CSV file. */
function csvLine(cells: readonly string[]): string {
  return cells.map((cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)).join(",");
}

/** How a cell begins that a spreadsheet computes, after any number of the marks that keep it from it. */
const FORMULA = /^'*[=+\-@\t\r\n＝＋－＠]/;

/**
 * Return a CSV file with a first line of names. The mark at its beginning tells Excel that it is UTF-8; a ' stands before
 * a text that would be a formula (https://owasp.org/www-community/attacks/CSV_Injection); the service takes it away.
 */
export function csvFile(names: readonly string[], rows: readonly (readonly string[])[]): string {
  return `\ufeff${[names, ...rows].map((row) => csvLine(row.map((cell) => (FORMULA.test(cell) ? `'${cell}` : cell)))).join("\r\n")}\r\n`;
}
