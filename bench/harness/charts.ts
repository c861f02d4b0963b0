import { type Histogram, percentileMs } from './histogram.ts';
import { type Distribution, type LatencyTable, milliseconds } from './latency-table.ts';
import { count } from './rounds.ts';
import type { Table } from './table.ts';
import { targets } from './targets.ts';
import type { Verdict } from './verdict.ts';

/** Below this a chart shows no more than its table. */
export const chartLinesMin = 4;

/** A bar per side, with its spread as a thin line. */
export function chart(table: Table): string {
  const width = 720;
  const left = 220;
  const rowHeight = 34;
  const top = 46;
  const most = Math.max(...table.lines.map(({ perSecond }) => perSecond.max), 1);
  const x = (figure: number) => Math.round((figure / most) * (width - left - 110));
  const bars = table.lines.map(({ side, perSecond: { median, min, max } }, index) => {
    const y = top + index * rowHeight;
    const fill = index === 0 ? '#1f6feb' : '#8c959f';
    return [
      `<text x="${left - 10}" y="${y + 15}" text-anchor="end">${escaped(side)}</text>`,
      `<rect x="${left}" y="${y}" width="${x(median)}" height="20" fill="${fill}"/>`,
      `<path d="M${left + x(min)} ${y + 10}H${left + x(max)}" stroke="#24292f"/>`,
      `<text x="${left + x(max) + 8}" y="${y + 15}">${count(median)}/s</text>`,
    ].join('');
  });
  const height = top + table.lines.length * rowHeight + 10;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="13">`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    `<text x="16" y="26" font-size="15" font-weight="bold">${escaped(table.title)}</text>`,
    ...bars,
    '</svg>',
    '',
  ].join('\n');
}

/** A bar per line: p50 in front of p99. */
export function latencyChart(table: LatencyTable): string {
  if (table.distributions !== undefined) return distributionChart(table.title, table.distributions);
  const width = 720;
  const left = 260;
  const rowHeight = 34;
  const top = 46;
  const most = Math.max(...table.lines.map(({ p99Ms }) => p99Ms), 1);
  const x = (figure: number) => Math.round((figure / most) * (width - left - 130));
  const bars = table.lines.map(({ what, p50Ms, p99Ms }, index) => {
    const y = top + index * rowHeight;
    return [
      `<text x="${left - 10}" y="${y + 15}" text-anchor="end">${escaped(what)}</text>`,
      `<rect x="${left}" y="${y}" width="${x(p99Ms)}" height="20" fill="#8c959f"/>`,
      `<rect x="${left}" y="${y}" width="${x(p50Ms)}" height="20" fill="#1f6feb"/>`,
      `<text x="${left + x(p99Ms) + 8}" y="${y + 15}">${milliseconds(p50Ms)} / ${milliseconds(p99Ms)} ms</text>`,
    ].join('');
  });
  const height = top + table.lines.length * rowHeight + 10;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="13">`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    `<text x="16" y="26" font-size="15" font-weight="bold">${escaped(table.title)}: p50 and p99</text>`,
    ...bars,
    '</svg>',
    '',
  ].join('\n');
}

const shares = [0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999];
const strokes = ['#1f6feb', '#8c959f', '#bf8700', '#1a7f37'];

/** Time by the share of requests that took no longer; each nine has as much room as the one before. */
function distributionChart(title: string, distributions: readonly Distribution[]): string {
  const [width, height, left, top, bottom] = [720, 340, 70, 60, 50];
  const decades = 4;
  const x = (share: number) => left + (-Math.log10(1 - share) / decades) * (width - left - 20);
  const most = Math.max(
    ...distributions.map(({ counts }) => percentileMs(counts as Histogram, 0.9999)),
    0.01,
  );
  const y = (ms: number) => height - bottom - (ms / most) * (height - top - bottom);
  const lines = distributions.map(({ name, counts }, index) => {
    const stroke = strokes[index % strokes.length];
    const points = shares.slice(1).map((share) => {
      const ms = percentileMs(counts as Histogram, share);
      return `${x(share).toFixed(1)},${y(ms).toFixed(1)}`;
    });
    return [
      `<polyline points="${points.join(' ')}" fill="none" stroke="${stroke}" stroke-width="2"/>`,
      `<text x="${left + index * 240}" y="46" fill="${stroke}">${escaped(name)}</text>`,
    ].join('');
  });
  const marks = [0.5, 0.9, 0.99, 0.999, 0.9999].map(
    (share) =>
      `<text x="${x(share)}" y="${height - bottom + 18}" text-anchor="middle">${Number((share * 100).toFixed(2))} %</text>`,
  );
  const levels = [0, 0.5, 1].map((part) => {
    const ms = part * most;
    return `<path d="M${left} ${y(ms)}H${width - 20}" stroke="#d0d7de"/><text x="${left - 8}" y="${y(ms) + 4}" text-anchor="end">${ms.toFixed(2)} ms</text>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="13">`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    `<text x="16" y="24" font-size="15" font-weight="bold">${escaped(title)}</text>`,
    ...levels,
    ...lines,
    ...marks,
    '</svg>',
    '',
  ].join('\n');
}

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

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
