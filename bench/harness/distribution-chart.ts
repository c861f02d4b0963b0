import { type Histogram, percentileMs } from './histogram.ts';
import { escaped } from './table.ts';

export interface Distribution {
  readonly name: string;
  /** As `histogram.ts` counts. */
  readonly counts: ArrayLike<number>;
}

const shares = [0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999];
const strokes = ['#1f6feb', '#8c959f', '#bf8700', '#1a7f37'];

/** Time by the share of requests that took no longer; each nine has as much room as the one before. */
export function distributionChart(title: string, distributions: readonly Distribution[]): string {
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
