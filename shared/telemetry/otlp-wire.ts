import { SpanKind as OtelSpanKind, SpanStatusCode, TraceFlags } from '@opentelemetry/api';
import {
  type IExportMetricsServiceResponse,
  type IExportTraceServiceResponse,
  JsonMetricsSerializer,
  JsonTraceSerializer,
  ProtobufMetricsSerializer,
  ProtobufTraceSerializer,
} from '@opentelemetry/otlp-transformer';
import { type MetricFigures, metricData } from './metric-data.ts';
import type { OtlpFormat } from './otlp-format.ts';
import type { Attributes, EndedSpan, SpanKind } from './tracer.ts';

export interface OtlpWireOptions {
  readonly format: OtlpFormat;
  /** Of the program. */
  readonly resource: Attributes;
  /** What makes the spans and figures. */
  readonly scope: { readonly name: string; readonly version: string };
}

type ReadableSpan = Parameters<typeof ProtobufTraceSerializer.serializeRequest>[0][number];
type Resource = ReadableSpan['resource'];

/** The bytes of OTLP, both ways. The library takes half a megabyte, and a tenth of a second to load. */
export class OtlpWire {
  readonly contentType: string;
  readonly #options: OtlpWireOptions;
  readonly #resource: Resource;
  readonly #traces: typeof ProtobufTraceSerializer;
  readonly #metrics: typeof ProtobufMetricsSerializer;

  constructor(options: OtlpWireOptions) {
    const isJson = options.format === 'http/json';
    this.contentType = isJson ? 'application/json' : 'application/x-protobuf';
    this.#options = options;
    // The members that the serializers read; the declared type wants the library's whole class.
    this.#resource = { attributes: options.resource } as unknown as Resource;
    this.#traces = isJson ? JsonTraceSerializer : ProtobufTraceSerializer;
    this.#metrics = isJson ? JsonMetricsSerializer : ProtobufMetricsSerializer;
  }

  /** Throws where they cannot be written. */
  spans(batch: readonly EndedSpan[]): Uint8Array {
    const { scope } = this.#options;
    const resource = this.#resource;
    return written(this.#traces.serializeRequest(batch.map((span) => readable(span, { resource, scope }))));
  }

  /** Throws where they cannot be written. `from`, `to`: Unix milliseconds. */
  metrics(
    figures: readonly MetricFigures[],
    time: { readonly from: number; readonly to: number },
  ): Uint8Array {
    const times = { startTime: hrTime(time.from), endTime: hrTime(time.to) };
    const metrics = figures.flatMap((each) => metricData(each, times));
    const { scope } = this.#options;
    return written(
      this.#metrics.serializeRequest({ resource: this.#resource, scopeMetrics: [{ scope, metrics }] }),
    );
  }

  /** Of a request that was taken: spans that the collector rejects. 0 where the answer does not say so. */
  rejectedSpans(answer: Uint8Array): number {
    return rejected(() => {
      const { partialSuccess }: IExportTraceServiceResponse = this.#traces.deserializeResponse(answer);
      return partialSuccess?.rejectedSpans;
    });
  }

  /** Likewise, data points. */
  rejectedPoints(answer: Uint8Array): number {
    return rejected(() => {
      const { partialSuccess }: IExportMetricsServiceResponse = this.#metrics.deserializeResponse(answer);
      return partialSuccess?.rejectedDataPoints;
    });
  }
}

function written(body: Uint8Array | undefined): Uint8Array {
  if (body === undefined) throw new Error('the OTLP request could not be written');
  return body;
}

/** JSON has the number as text (int64). Whatever else comes counts as none: the request was taken. */
function rejected(read: () => unknown): number {
  try {
    const count = Number(read() ?? 0);
    return count > 0 ? Math.floor(count) : 0;
  } catch {
    return 0;
  }
}

const kinds: Readonly<Record<SpanKind, OtelSpanKind>> = {
  internal: OtelSpanKind.INTERNAL,
  server: OtelSpanKind.SERVER,
  client: OtelSpanKind.CLIENT,
};

function readable(
  span: EndedSpan,
  of: Pick<ReadableSpan, 'resource'> & { readonly scope: OtlpWireOptions['scope'] },
): ReadableSpan {
  const { traceId, spanId, parentId } = span;
  const contextOf = (trace: string, id: string) => ({
    traceId: trace,
    spanId: id,
    traceFlags: TraceFlags.SAMPLED,
  });
  return {
    name: span.name,
    kind: kinds[span.kind],
    spanContext: () => contextOf(traceId, spanId),
    ...(parentId !== null && { parentSpanContext: contextOf(traceId, parentId) }),
    startTime: hrTime(span.startMs),
    endTime: hrTime(span.endMs),
    duration: hrTime(span.endMs - span.startMs),
    ended: true,
    status: { code: span.isError ? SpanStatusCode.ERROR : SpanStatusCode.UNSET },
    attributes: { ...span.attributes },
    links: span.links.map((link) => ({ context: contextOf(link.traceId, link.parentId) })),
    events: [],
    resource: of.resource,
    instrumentationScope: of.scope,
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

/** Seconds and nanoseconds. */
function hrTime(ms: number): [number, number] {
  const seconds = Math.floor(ms / 1_000);
  return [seconds, Math.min(Math.round((ms - seconds * 1_000) * 1e6), 999_999_999)];
}
