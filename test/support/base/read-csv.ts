/**
 * Reads CSV as RFC 4180 has it and nothing else: every row ends in CRLF, a quote stands only around a cell or
 * doubled within one, a bare cell holds neither comma nor quote nor line break, and all rows have as many
 * cells as the header. Throws for anything else.
 */
export function readCsv(text: string): Record<string, string>[] {
  const rows: string[][] = [];
  let row: string[] = [];
  let at = 0;
  while (at < text.length) {
    const cell = /"((?:[^"]|"")*)"|[^",\r\n]*/y;
    cell.lastIndex = at;
    const [whole = '', inQuotes] = cell.exec(text) ?? [];
    row.push(inQuotes === undefined ? whole : inQuotes.replaceAll('""', '"'));
    at += whole.length;
    if (text[at] === ',') {
      at += 1;
    } else if (text.startsWith('\r\n', at)) {
      rows.push(row);
      row = [];
      at += 2;
    } else {
      throw new Error(`no comma and no CRLF at ${at}: ${JSON.stringify(text.slice(at, at + 40))}`);
    }
  }
  if (row.length > 0) throw new Error('the last row does not end in CRLF');
  const [header = [], ...records] = rows;
  return records.map((cells, index) => {
    if (cells.length !== header.length) throw new Error(`row ${index + 2} has ${cells.length} cells`);
    return Object.fromEntries(header.map((name, column) => [name, cells[column] ?? '']));
  });
}
