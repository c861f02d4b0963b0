import type { TraceContext } from '../wire/api/trace-context.ts';

/** Which spans are exported, as `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG` say. */
export interface Sampler {
  /** A span with a parent is sampled as that was. */
  readonly isByParent: boolean;
  /** Of the others, 0 to 1. */
  readonly ratio: number;
}

/** `always_on` and its relatives take no ratio. */
export function samplerOf(name: string, ratio: number): Sampler | null {
  const isByParent = name.startsWith('parentbased_');
  switch (isByParent ? name.slice('parentbased_'.length) : name) {
    case 'always_on':
      return { isByParent, ratio: 1 };
    case 'always_off':
      return { isByParent, ratio: 0 };
    case 'traceidratio':
      return { isByParent, ratio };
    default:
      return null;
  }
}

/** Of the id, which are random (W3C Trace Context, level 2, §3.2.2.3). */
const randomHexChars = 14;
const randomMax = 2 ** (4 * randomHexChars);

/**
 * By the id of the trace, so that all programs with the same ratio choose the same traces (OpenTelemetry,
 * consistent probability sampling).
 */
export function samples(
  { isByParent, ratio }: Sampler,
  { traceId, parent }: { readonly traceId: string; readonly parent: TraceContext | null },
): boolean {
  if (isByParent && parent !== null) return parent.isSampled;
  if (ratio === 0 || ratio === 1) return ratio === 1;
  return Number.parseInt(traceId.slice(-randomHexChars), 16) / randomMax >= 1 - ratio;
}
