/** Lines of a table: a line for each figure, a column for each report. */
export function figuresTable(reports: readonly Readonly<Record<string, number>>[]): string[] {
  const names = [...new Set(reports.flatMap((report) => Object.keys(report)))];
  const rows = names.map((name) => [name, ...reports.map((report) => String(report[name] ?? ''))]);
  const widths = rows.reduce(
    (widest, row) => row.map((cell, column) => Math.max(cell.length, widest[column] ?? 0)),
    [] as number[],
  );
  return rows.map((row) =>
    row
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join('  '),
  );
}
