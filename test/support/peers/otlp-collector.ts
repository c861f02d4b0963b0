import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import generated from 'otlp-schema/build/src/generated/root.js';
import { listening } from '../base/listening.ts';

// biome-ignore lint/suspicious/noExplicitAny: the messages of OTLP are inspected member by member
type Message = any;

/** The code that is generated from the schema. Its types do not name what is in it. */
const { collector: schema } = (generated as Message).opentelemetry.proto;
const messages = {
  traces: schema.trace.v1.ExportTraceServiceRequest,
  metrics: schema.metrics.v1.ExportMetricsServiceRequest,
} as const;
type Signal = keyof typeof messages;

export interface ExportedSpan {
  readonly service: string;
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  /** '': none. */
  readonly parentSpanId: string;
  readonly startNs: bigint;
  readonly endNs: bigint;
  readonly isError: boolean;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
}

export interface ExportedMetric {
  readonly service: string;
  readonly name: string;
  readonly unit: string;
  readonly kind: 'sum' | 'gauge' | 'histogram';
  // biome-ignore lint/suspicious/noExplicitAny: points are inspected member by member
  readonly points: readonly any[];
}

export interface Request {
  readonly signal: Signal;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
}

/** A collector of OpenTelemetry on this machine: it takes OTLP/HTTP in both formats, by the schema. */
export interface OtlpCollector {
  readonly url: string;
  readonly requests: readonly Request[];
  readonly spans: readonly ExportedSpan[];
  readonly metrics: readonly ExportedMetric[];
  /** What does not fit the schema. */
  readonly faults: readonly string[];
  /** How requests are answered from now on; null: as they should be. */
  answer(how: ((response: ServerResponse, request: Request) => void) | null): void;
  close(): Promise<void>;
}

export async function startOtlpCollector(): Promise<OtlpCollector> {
  const requests: Request[] = [];
  const spans: ExportedSpan[] = [];
  const exported: ExportedMetric[] = [];
  const faults: string[] = [];
  let respond: ((response: ServerResponse, request: Request) => void) | null = null;
  const server = createServer((incoming, response) => {
    const pieces: Buffer[] = [];
    incoming.on('data', (piece) => pieces.push(piece));
    incoming.on('end', () => {
      const { url, method, headers } = incoming;
      const signal = url === '/v1/traces' ? 'traces' : 'metrics';
      if (method !== 'POST' || url !== `/v1/${signal}`) faults.push(`${method} ${url}`);
      const request = { signal, headers, bytes: Buffer.concat(pieces) } as const;
      requests.push(request);
      if (respond !== null) return respond(response, request);
      try {
        const read = readRequest(request);
        if (signal === 'traces') spans.push(...spansOf(read));
        else exported.push(...metricsOf(read));
      } catch (error) {
        faults.push(String(error));
      }
      const isJson = headers['content-type'] === 'application/json';
      response.writeHead(200, { 'content-type': headers['content-type'] ?? '' }).end(isJson ? '{}' : '');
    });
  });
  const { origin, close } = await listening(server);
  return {
    url: origin,
    ...{ requests, spans, metrics: exported, faults },
    answer: (how) => {
      respond = how;
    },
    close,
  };
}

/** In the form of OTLP's JSON, but with ids in base64. Throws for what the schema does not have. */
function readRequest({ signal, headers, bytes }: Request): Message {
  const message = messages[signal];
  const shape = { longs: String, bytes: String, enums: Number } as const;
  switch (headers['content-type']) {
    case 'application/x-protobuf':
      return message.toObject(message.decode(bytes), shape);
    case 'application/json': {
      const given = withBase64Ids(JSON.parse(bytes.toString('utf8')));
      const read = message.fromObject(given);
      const problem = message.verify(read);
      if (problem !== null) throw new Error(problem);
      assertNoOthers(given, message.toObject(read, shape), '');
      return message.toObject(read, shape);
    }
    default:
      throw new Error(`content-type ${headers['content-type']}`);
  }
}

/** OTLP has ids in hex, where JSON of protobuf has base64. */
function withBase64Ids(value: Message): Message {
  if (Array.isArray(value)) return value.map(withBase64Ids);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      /^(?:traceId|spanId|parentSpanId)$/.test(name)
        ? Buffer.from(member as string, 'hex').toString('base64')
        : withBase64Ids(member),
    ]),
  );
}

/** A member that the schema does not have is dropped in reading. */
function assertNoOthers(given: Message, read: Message, path: string): void {
  if (typeof given !== 'object' || given === null) return;
  for (const [name, member] of Object.entries(given)) {
    const isDefault = [0, '', false].some((each) => isDeepStrictEqual(each, member));
    const isEmpty = Array.isArray(member) && member.length === 0;
    if (!(name in read) && !isDefault && !isEmpty) throw new Error(`${path}.${name} is not in the schema`);
    if (name in read) assertNoOthers(member, read[name], `${path}.${name}`);
  }
}

const hexOf = (base64: unknown): string => Buffer.from(String(base64 ?? ''), 'base64').toString('hex');

const attributesOf = (list: Message): Record<string, unknown> =>
  Object.fromEntries(
    (list ?? []).map(({ key, value }: Message) => [
      key,
      value.stringValue ?? value.boolValue ?? Number(value.intValue ?? value.doubleValue),
    ]),
  );

const serviceOf = ({ resource }: Message): string =>
  String(attributesOf(resource?.attributes)['service.name'] ?? '');

const spansOf = (request: Message): ExportedSpan[] =>
  request.resourceSpans.flatMap((resource: Message) =>
    resource.scopeSpans.flatMap(({ spans }: Message) =>
      spans.map((span: Message) => ({
        service: serviceOf(resource),
        name: span.name,
        kind: span.kind,
        traceId: hexOf(span.traceId),
        spanId: hexOf(span.spanId),
        parentSpanId: hexOf(span.parentSpanId),
        startNs: BigInt(span.startTimeUnixNano),
        endNs: BigInt(span.endTimeUnixNano),
        isError: span.status?.code === 2,
        attributes: attributesOf(span.attributes),
        links: (span.links ?? []).map((link: Message) => ({
          traceId: hexOf(link.traceId),
          spanId: hexOf(link.spanId),
        })),
      })),
    ),
  );

const metricsOf = (request: Message): ExportedMetric[] =>
  request.resourceMetrics.flatMap((resource: Message) =>
    resource.scopeMetrics.flatMap(({ metrics: list }: Message) =>
      list.map((metric: Message) => {
        const kind = (['sum', 'gauge', 'histogram'] as const).find((each) => metric[each] !== undefined);
        return {
          ...{ service: serviceOf(resource), name: metric.name, unit: metric.unit ?? '', kind },
          points: (kind === undefined ? [] : metric[kind].dataPoints).map((point: Message) => ({
            ...point,
            attributes: attributesOf(point.attributes),
          })),
        };
      }),
    ),
  );
