import { type ReactNode, useEffect, useRef, useState } from 'react';
import type { DecisionStatistics } from '../api/statistics.ts';
import { count } from './format.ts';

/** From the bottom of a bar to its top. Each has a pattern of its own, so that no colour has to be seen. */
const outcomes = [
  { decision: 'PERMIT', name: 'permit' },
  { decision: 'SUSPEND', name: 'suspend' },
  { decision: 'BLOCK', name: 'block' },
] as const;

/** What the outcomes are called, in the order of `outcomes`. */
type Labels = readonly [string, string, string];
const usual: Labels = ['Permitted', 'Suspended', 'Blocked'];

interface Shown {
  readonly data: Pick<DecisionStatistics, 'step' | 'buckets'>;
  readonly labels?: Labels;
}

type Step = DecisionStatistics['step'];

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const hour = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
/** Days are those of UTC, in every zone. */
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' });

const shortTime = (step: Step, at: string): string => (step === 'day' ? day : clock).format(new Date(at));
const longTime = (step: Step, at: string): string =>
  step === 'day' ? `${day.format(new Date(at))} (UTC)` : hour.format(new Date(at));

interface Bar {
  readonly startsAt: string;
  /** In the order of `outcomes`. */
  readonly counts: readonly number[];
  readonly total: number;
}

export function barsOf({ buckets }: Shown['data']): readonly Bar[] {
  return buckets.map(({ starts_at, counts }) => {
    const sums = outcomes.map(({ decision }) =>
      counts.filter((each) => each.decision === decision).reduce((sum, each) => sum + each.count, 0),
    );
    return { startsAt: starts_at, counts: sums, total: sums.reduce((sum, each) => sum + each, 0) };
  });
}

/** Which outcomes there were at all, by their place in `outcomes`. */
const seenIn = (bars: readonly Bar[]): readonly number[] =>
  outcomes.flatMap((_, place) => (bars.some(({ counts }) => (counts[place] ?? 0) > 0) ? [place] : []));

const height = 240;
const room = { top: 8, bottom: 22, left: 44 } as const;

/** Decisions over time as stacked bars. What it shows is in `DecisionTable` too. */
export function DecisionChart({
  data,
  labels: names = usual,
  title,
}: Shown & { readonly title?: string }): ReactNode {
  const [frame, width] = useWidth();
  const bars = barsOf(data);
  const seen = seenIn(bars);
  const most = niceCeiling(Math.max(...bars.map(({ total }) => total)));
  const plot = height - room.top - room.bottom;
  const step = (width - room.left) / Math.max(bars.length, 1);
  const y = (value: number) => room.top + plot * (1 - value / most);
  const labels = Math.max(2, Math.min(6, Math.floor(width / 90)));
  const every = Math.ceil(bars.length / labels);
  const total = bars.reduce((sum, bar) => sum + bar.total, 0);
  return (
    <div>
      <ul className="legend">
        {seen.map((place) => (
          <li key={place} className="row">
            <svg className="chart swatch" width="14" height="14" aria-hidden="true">
              <Segment name={outcomes[place]?.name ?? ''} x={0} y={0} width={14} height={14} />
            </svg>
            {names[place]}
          </li>
        ))}
      </ul>
      <div ref={frame} style={{ height }}>
        {width === 0 ? null : (
          <svg
            className="chart"
            width={width}
            height={height}
            role="img"
            aria-label={`${title ?? `${count(total)} decisions over time`}; the numbers are in the table below`}
          >
            <Patterns />
            {[0, most / 2, most].map((value) => (
              <g key={value}>
                <line x1={room.left} x2={width} y1={y(value)} y2={y(value)} />
                <text x={room.left - 8} y={y(value) + 4} textAnchor="end">
                  {Number.isInteger(value) ? compact.format(value) : ''}
                </text>
              </g>
            ))}
            {bars.map((bar, index) => (
              <g key={bar.startsAt}>
                <title>{titleOf(data.step, bar, names)}</title>
                <rect
                  className="empty-bar"
                  x={room.left + index * step}
                  y={room.top}
                  width={step}
                  height={plot}
                />
                <Stack bar={bar} x={room.left + index * step + step * 0.12} width={step * 0.76} y={y} />
                {index % every === 0 ? (
                  <text x={room.left + index * step} y={height - 6}>
                    {shortTime(data.step, bar.startsAt)}
                  </text>
                ) : null}
              </g>
            ))}
          </svg>
        )}
      </div>
    </div>
  );
}

const compact = new Intl.NumberFormat(undefined, { notation: 'compact' });

const titleOf = (step: Step, { startsAt, counts }: Bar, names: Labels): string =>
  [longTime(step, startsAt), ...names.map((name, place) => `${name}: ${count(counts[place] ?? 0)}`)].join(
    '\n',
  );

/** 1, 2 or 5 times a power of ten, at least 2, so that the middle is a whole number. */
function niceCeiling(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return Math.max(2, (([1, 2, 5].find((times) => times * power >= value) ?? 10) as number) * power);
}

function Stack({
  bar,
  x,
  width,
  y,
}: {
  readonly bar: Bar;
  readonly x: number;
  readonly width: number;
  y(value: number): number;
}): ReactNode {
  let below = 0;
  return bar.counts.map((value, place) => {
    const bottom = y(below);
    below += value;
    // What there is can be seen, also one among thousands.
    const tall = Math.max(bottom - y(below), value > 0 ? 2 : 0);
    const name = outcomes[place]?.name ?? '';
    return value === 0 ? null : (
      <Segment key={name} name={name} x={x} y={bottom - tall} width={Math.max(width, 1)} height={tall} />
    );
  });
}

interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** A box in the colour and the pattern of an outcome. */
const Segment = ({ name, ...box }: Box & { readonly name: string }): ReactNode => (
  <>
    <rect className={name} {...box} />
    {name === 'permit' ? null : <rect fill={`url(#pattern-${name})`} {...box} />}
  </>
);

const Patterns = (): ReactNode => (
  <defs>
    <pattern id="pattern-suspend" width="4" height="4" patternUnits="userSpaceOnUse">
      <circle className="on-bar" cx="2" cy="2" r="1" />
    </pattern>
    <pattern
      id="pattern-block"
      width="5"
      height="5"
      patternUnits="userSpaceOnUse"
      patternTransform="rotate(45)"
    >
      <rect className="on-bar" width="1.5" height="5" />
    </pattern>
  </defs>
);

/** The width of an element, in pixels; 0 until it is measured. */
function useWidth() {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = frame.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [frame, width] as const;
}

/** The numbers of the chart, newest first. */
export function DecisionTable({ data, labels = usual }: Shown): ReactNode {
  const bars = barsOf(data);
  const seen = seenIn(bars);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <div className="scroll-y" tabIndex={0}>
      <table className="plain">
        <thead>
          <tr>
            <th>From</th>
            {seen.map((place) => (
              <th key={place} className="number">
                {labels[place]}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {bars.toReversed().map(({ startsAt, counts }) => (
            <tr key={startsAt}>
              <td>{longTime(data.step, startsAt)}</td>
              {seen.map((place) => (
                <td key={place} className="number">
                  {count(counts[place] ?? 0)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
