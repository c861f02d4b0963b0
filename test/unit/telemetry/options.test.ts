import { describe, expect, it } from 'vitest';
import { parseSidecarSettings } from '../../../shared/runtime/settings.ts';
import { telemetryOptions } from '../../../shared/telemetry/options.ts';

const needed = { CONTROL_PLANE_URL: 'http://127.0.0.1:8080', SIDECAR_API_KEY: `at_live_${'x'.repeat(40)}` };
const read = (environment: Readonly<Record<string, string>>) =>
  telemetryOptions(parseSidecarSettings({ ...needed, ...environment }));
const at = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };

describe('the variables of OpenTelemetry', () => {
  it('export nothing without an address, whatever else a platform sets', () => {
    const off = { options: null, problems: [] };
    expect(read({})).toEqual(off);
    expect(read({ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc', OTEL_TRACES_SAMPLER: 'jaeger_remote' })).toEqual(off);
    expect(read({ ...at, OTEL_SDK_DISABLED: 'TRUE' })).toEqual(off);
    expect(read({ ...at, OTEL_TRACES_EXPORTER: 'none', OTEL_METRICS_EXPORTER: 'none' })).toEqual(off);
  });

  it('have the defaults of OpenTelemetry', () => {
    expect(read(at)).toEqual({
      problems: [],
      options: {
        ...{ tracesUrl: 'http://collector:4318/v1/traces', metricsUrl: 'http://collector:4318/v1/metrics' },
        ...{ format: 'http/protobuf', headers: {}, serviceName: null, resource: {} },
        ...{ sampler: { isByParent: true, ratio: 1 }, metricIntervalMs: 60_000 },
      },
    });
  });

  it('are all read', () => {
    const { options, problems } = read({
      OTEL_EXPORTER_OTLP_ENDPOINT: 'https://otlp.example/prefix/',
      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'https://metrics.example/write',
      OTEL_EXPORTER_OTLP_HEADERS: 'api-key=a%20b%2Cc, x-tenant = one',
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_SERVICE_NAME: 'orders-sidecar',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=prod,service.name=other',
      OTEL_TRACES_SAMPLER: 'traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0.25',
      OTEL_METRIC_EXPORT_INTERVAL: '5000',
    });
    expect(problems).toEqual([]);
    expect(options).toEqual({
      tracesUrl: 'https://otlp.example/prefix/v1/traces',
      ...{ metricsUrl: 'https://metrics.example/write', format: 'http/json' },
      ...{ headers: { 'api-key': 'a b,c', 'x-tenant': 'one' }, serviceName: 'orders-sidecar' },
      resource: { 'deployment.environment.name': 'prod', 'service.name': 'other' },
      ...{ sampler: { isByParent: false, ratio: 0.25 }, metricIntervalMs: 5_000 },
    });
  });

  it.each([
    ['https://otlp.example?key=a/b', 'https://otlp.example/v1/traces?key=a/b'],
    ['https://otlp.example/prefix//?key=/', 'https://otlp.example/prefix/v1/traces?key=/'],
    ['https://otlp.example/prefix#part', 'https://otlp.example/prefix/v1/traces#part'],
  ])('keep the query of the address after the path: %s', (given, tracesUrl) => {
    expect(read({ OTEL_EXPORTER_OTLP_ENDPOINT: given }).options).toMatchObject({ tracesUrl });
  });

  it('may name an address for one signal alone', () => {
    const traces = read({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://collector:4318/v1/traces' });
    expect(traces.options).toMatchObject({ tracesUrl: 'http://collector:4318/v1/traces', metricsUrl: null });
    expect(read({ ...at, OTEL_METRICS_EXPORTER: 'none' }).options).toMatchObject({ metricsUrl: null });
  });

  it.each([
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4318'],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'http://user:secret@collector:4318'],
    ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'a=secret%0d%0ab:c'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'content-length=1'],
    ['OTEL_TRACES_SAMPLER', 'jaeger_remote'],
    ['OTEL_TRACES_SAMPLER_ARG', '2'],
    ['OTEL_METRIC_EXPORT_INTERVAL', '1'],
    ['OTEL_RESOURCE_ATTRIBUTES', 'no pair'],
  ])('export nothing where one cannot be used, and say which, without its value: %s', (name, value) => {
    const sampler = { OTEL_TRACES_SAMPLER: 'traceidratio' };
    const { options, problems } = read({ ...at, ...sampler, [name]: value });
    expect(options).toBeNull();
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(new RegExp(`^${name} `));
    expect(problems[0]).not.toContain('secret');
  });
});
