import { type Attributes, type HrTime, ValueType } from '@opentelemetry/api';
import { AggregationTemporality, DataPointType, type MetricData } from '@opentelemetry/sdk-metrics';

/** A metric as prom-client has it, from which `/metrics` is rendered too. */
export interface MetricFigures {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly values: readonly Figure[];
}

export interface Figure {
  readonly value: number;
  readonly labels: Readonly<Record<string, string | number | undefined>>;
  /** Of a histogram: its name with `_bucket`, `_sum` or `_count`. */
  readonly metricName?: string;
}

interface Times {
  readonly startTime: HrTime;
  readonly endTime: HrTime;
}

/**
 * The same metric in OpenTelemetry's form, under the same name. What is not a number, or infinite, is left
 * out: in Prometheus that says "unknown", and JSON cannot say it. Empty: nothing is left.
 */
export function metricData({ name, help, type, values }: MetricFigures, times: Times): MetricData[] {
  const descriptor = { name, description: help, unit: unitOf(name), valueType: ValueType.DOUBLE };
  const aggregationTemporality = AggregationTemporality.CUMULATIVE;
  const made = { descriptor, aggregationTemporality };
  switch (type) {
    case 'counter':
      return unlessEmpty({
        ...{ ...made, dataPointType: DataPointType.SUM as const, isMonotonic: true },
        dataPoints: pointsOf(values, times),
      });
    case 'gauge':
      return unlessEmpty({
        ...{ ...made, dataPointType: DataPointType.GAUGE as const },
        dataPoints: pointsOf(values, times),
      });
    case 'histogram':
      return unlessEmpty({
        ...{ ...made, dataPointType: DataPointType.HISTOGRAM as const },
        dataPoints: histogramsOf(values).map((point) => ({ ...times, ...point })),
      });
    default:
      return [];
  }
}

const unlessEmpty = (data: MetricData): MetricData[] => (data.dataPoints.length === 0 ? [] : [data]);

/** By the suffixes that Prometheus asks for, in the letters of UCUM. */
const units = [
  [/_seconds(?:_total)?$/, 's'],
  [/_bytes(?:_total)?$/, 'By'],
] as const;

const unitOf = (name: string): string => units.find(([suffix]) => suffix.test(name))?.[1] ?? '';

const pointsOf = (values: readonly Figure[], times: Times) =>
  values.flatMap(({ value, labels }) =>
    Number.isFinite(value) ? [{ ...times, attributes: attributesOf(labels), value }] : [],
  );

function attributesOf(labels: Figure['labels']): Attributes {
  const given = Object.entries(labels).filter(([name, value]) => name !== 'le' && value !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [name, String(value)]));
}

interface Gathered {
  readonly attributes: Attributes;
  readonly buckets: { readonly le: number; readonly count: number }[];
  sum: number;
  count: number;
}

/** Prometheus counts in each bucket what is below its bound, OpenTelemetry what is between two. */
function histogramsOf(values: readonly Figure[]) {
  const byLabels = new Map<string, Gathered>();
  for (const { value, labels, metricName = '' } of values) {
    const attributes = attributesOf(labels);
    const key = JSON.stringify(Object.entries(attributes).sort());
    const gathered = byLabels.get(key) ?? { attributes, buckets: [], sum: 0, count: 0 };
    byLabels.set(key, gathered);
    if (metricName.endsWith('_sum')) gathered.sum = value;
    else if (metricName.endsWith('_count')) gathered.count = value;
    else gathered.buckets.push({ le: boundOf(labels['le']), count: value });
  }
  return [...byLabels.values()].map(({ attributes, buckets, sum, count }) => {
    const ascending = buckets.toSorted((one, other) => one.le - other.le);
    const counts = ascending.map((bucket, index) =>
      Math.max(0, bucket.count - (ascending[index - 1]?.count ?? 0)),
    );
    const boundaries = ascending.map(({ le }) => le).filter(Number.isFinite);
    return { attributes, value: { buckets: { boundaries, counts }, sum, count } };
  });
}

const boundOf = (le: string | number | undefined): number =>
  le === '+Inf' ? Number.POSITIVE_INFINITY : Number(le);
