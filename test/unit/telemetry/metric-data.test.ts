import { AggregationTemporality, DataPointType } from '@opentelemetry/sdk-metrics';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { DurationHistogram } from '../../../shared/runtime/duration-histogram.ts';
import { type MetricFigures, metricData } from '../../../shared/telemetry/metric-data.ts';

const times = { startTime: [1, 0], endTime: [2, 0] } as const;
const cumulative = AggregationTemporality.CUMULATIVE;

async function converted(registry: Registry) {
  const figures = (await registry.getMetricsAsJSON()) as unknown as MetricFigures[];
  return figures.flatMap((each) => metricData(each, { startTime: [1, 0], endTime: [2, 0] }));
}

it('counters are sums that only grow, and gauges are gauges', async () => {
  const registry = new Registry();
  const registers = [registry];
  const counter = new Counter({ name: 'a_total', help: 'A.', labelNames: ['kind'], registers });
  counter.inc({ kind: 'x' }, 3);
  counter.inc({ kind: 'y' });
  new Gauge({ name: 'b_bytes', help: 'B.', registers }).set(7);
  expect(await converted(registry)).toEqual([
    {
      descriptor: { name: 'a_total', description: 'A.', unit: '', valueType: 1 },
      ...{ aggregationTemporality: cumulative, dataPointType: DataPointType.SUM, isMonotonic: true },
      dataPoints: [
        { ...times, attributes: { kind: 'x' }, value: 3 },
        { ...times, attributes: { kind: 'y' }, value: 1 },
      ],
    },
    {
      descriptor: { name: 'b_bytes', description: 'B.', unit: 'By', valueType: 1 },
      aggregationTemporality: cumulative,
      dataPointType: DataPointType.GAUGE,
      dataPoints: [{ ...times, attributes: {}, value: 7 }],
    },
  ]);
});

it('histograms have a count for each bucket alone, for each set of labels', async () => {
  const registry = new Registry();
  const made = { help: 'H.', labelNames: ['route'], buckets: [0.1, 1], registers: [registry] };
  const histogram = new Histogram({ name: 'h_seconds', ...made });
  for (const value of [0.05, 0.5, 0.5, 5]) histogram.observe({ route: '/a' }, value);
  histogram.observe({ route: '/b' }, 0.05);
  const own = new DurationHistogram([100, 1_000]);
  own.observe(500);
  own.register(registry, { name: 'own_seconds', help: 'O.' });
  const [first, second] = await converted(registry);
  expect(first).toMatchObject({ dataPointType: DataPointType.HISTOGRAM, descriptor: { unit: 's' } });
  expect(first?.dataPoints).toEqual([
    {
      ...{ ...times, attributes: { route: '/a' } },
      value: { buckets: { boundaries: [0.1, 1], counts: [1, 2, 1] }, sum: 6.05, count: 4 },
    },
    {
      ...{ ...times, attributes: { route: '/b' } },
      value: { buckets: { boundaries: [0.1, 1], counts: [1, 0, 0] }, sum: 0.05, count: 1 },
    },
  ]);
  expect(second?.dataPoints).toEqual([
    {
      ...{ ...times, attributes: {} },
      value: { buckets: { boundaries: [0.1, 1], counts: [0, 1, 0] }, sum: 0.5, count: 1 },
    },
  ]);
});

it('leaves out what is not a number or infinite, and metrics of which nothing is left', async () => {
  const registry = new Registry();
  const registers = [registry];
  new Gauge({ name: 'a', help: 'A.', registers }).set(Number.NaN);
  new Gauge({ name: 'b', help: 'B.', registers }).set(Number.POSITIVE_INFINITY);
  new Counter({ name: 'c_total', help: 'C.', labelNames: ['x'], registers });
  expect(await converted(registry)).toEqual([]);
});
