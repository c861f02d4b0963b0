import { escaped } from './table.ts';
import { targets } from './targets.ts';
import type { Verdict } from './verdict.ts';

const fills: Readonly<Record<Verdict['status'], string>> = {
  beyond: '#1a7f37',
  met: '#4ac26b',
  missed: '#cf222e',
  'not judged': '#bf8700',
  'not measured': '#8c959f',
};

/** Where a bar ends that is this many times what was wanted, or more. */
const timesMax = 3;

/** One bar for each verdict: how many times what was wanted was reached; the line is what was wanted. */
export function verdictChart(verdicts: readonly Verdict[]): string {
  const [width, left, rowHeight, top] = [720, 150, 26, 50];
  const perTime = (width - left - 120) / timesMax;
  const bars = verdicts.map((verdict, index) => {
    const y = top + index * rowHeight;
    const length = Math.round(Math.min(timesReached(verdict), timesMax) * perTime);
    return [
      `<text x="${left - 10}" y="${y + 14}" text-anchor="end">${verdict.target} ${escaped(verdict.row)}</text>`,
      `<rect x="${left}" y="${y}" width="${length}" height="18" fill="${fills[verdict.status]}"/>`,
      `<text x="${left + length + 8}" y="${y + 14}">${escaped(verdict.status)}</text>`,
    ].join('');
  });
  const height = top + verdicts.length * rowHeight + 10;
  const wantedAt = left + perTime;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12">`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    '<text x="16" y="22" font-size="15" font-weight="bold">What was measured, as a multiple of what was wanted</text>',
    ...bars,
    `<path d="M${wantedAt} ${top - 8}V${height - 6}" stroke="#24292f" stroke-dasharray="4 3"/>`,
    `<text x="${wantedAt}" y="${top - 12}" text-anchor="middle">wanted</text>`,
    '</svg>',
    '',
  ].join('\n');
}

function timesReached({ target, figure }: Verdict): number {
  if (figure === null || Number.isNaN(figure)) return 0;
  const { wanted, bound } = targets[target];
  if (bound === 'at least') return figure / wanted;
  return figure === 0 ? timesMax : wanted / figure;
}
