import { bothPrograms, setting, type ValuesOf } from './setting.ts';
import { text } from './setting-values.ts';

const otel = <Default extends string | null>(row: {
  readonly default: Default;
  readonly defaultDoc?: string;
  readonly unit?: string;
  readonly isSecret?: true;
  readonly doc: string;
}) => setting({ of: bothPrograms, read: text, ...row });

/**
 * The variables of OpenTelemetry (docs/operate/traces.md). They are read as text, because platforms set them
 * for all their programs: one that cannot be used is logged (shared/telemetry/options.ts), and stops no
 * program.
 */
export const otelSettings = {
  OTEL_EXPORTER_OTLP_ENDPOINT: otel({
    default: null,
    defaultDoc: 'none: nothing is exported',
    doc: 'A collector of OpenTelemetry for traces and metrics, by OTLP/HTTP: http://127.0.0.1:4318 (docs/operate/traces.md).',
  }),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: otel({
    default: null,
    defaultDoc: 'v1/traces below OTEL_EXPORTER_OTLP_ENDPOINT',
    doc: 'The whole address for traces.',
  }),
  OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: otel({
    default: null,
    defaultDoc: 'v1/metrics below OTEL_EXPORTER_OTLP_ENDPOINT',
    doc: 'The whole address for metrics.',
  }),
  OTEL_EXPORTER_OTLP_HEADERS: otel({
    default: null,
    defaultDoc: 'none',
    isSecret: true,
    doc: 'Headers for the collector: name=value, separated by commas.',
  }),
  OTEL_EXPORTER_OTLP_PROTOCOL: otel({
    default: 'http/protobuf',
    doc: 'http/protobuf or http/json.',
  }),
  OTEL_TRACES_EXPORTER: otel({ default: 'otlp', doc: 'otlp or none.' }),
  OTEL_METRICS_EXPORTER: otel({ default: 'otlp', doc: 'otlp or none.' }),
  OTEL_TRACES_SAMPLER: otel({
    default: 'parentbased_always_on',
    doc: 'Which spans are exported: always_on, always_off or traceidratio, or one of them after parentbased_.',
  }),
  OTEL_TRACES_SAMPLER_ARG: otel({
    default: null,
    defaultDoc: '1',
    doc: 'The part of the traces that traceidratio takes, 0 to 1.',
  }),
  OTEL_METRIC_EXPORT_INTERVAL: otel({ default: '60000', unit: 'ms', doc: 'Between two exports of metrics.' }),
  OTEL_SERVICE_NAME: otel({
    default: null,
    defaultDoc: 'agent-trust-control-plane, agent-trust-sidecar',
    doc: 'service.name of what is exported.',
  }),
  OTEL_RESOURCE_ATTRIBUTES: otel({
    default: null,
    defaultDoc: 'none',
    doc: 'Further attributes of the program: name=value, separated by commas.',
  }),
  OTEL_SDK_DISABLED: otel({ default: 'false', doc: 'true: nothing is exported, whatever else is set.' }),
};

export type OtelSettings = ValuesOf<typeof otelSettings>;
