import type { OtelSettings } from '../runtime/otel-settings.ts';
import { parseWebUrl } from '../wire/api/domain.ts';
import { telemetryLimits } from './limits.ts';
import { type OtlpFormat, otlpFormats } from './otlp-format.ts';
import { type Sampler, samplerOf } from './sampler.ts';

export interface TelemetryOptions {
  /** Null: none are exported. */
  readonly tracesUrl: string | null;
  readonly metricsUrl: string | null;
  readonly format: OtlpFormat;
  /** Of each request; they hold keys. */
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string | null;
  /** Attributes of the program, by name. */
  readonly resource: Readonly<Record<string, string>>;
  readonly sampler: Sampler;
  readonly metricIntervalMs: number;
}

/** What is wrong with a variable: the end of a sentence that begins with its name. Never quotes its value. */
type Problems = string[];

/**
 * Reads the variables of OpenTelemetry. Null: nothing is to be exported. A value that cannot be used is a
 * problem, and nothing is exported then; it never stops the program, because platforms set these variables
 * for all programs alike.
 */
export function telemetryOptions(settings: OtelSettings): {
  readonly options: TelemetryOptions | null;
  readonly problems: readonly string[];
} {
  if (/^true$/i.test(settings.OTEL_SDK_DISABLED.trim())) return { options: null, problems: [] };
  const problems: Problems = [];
  const options: TelemetryOptions = {
    tracesUrl: urlOf(settings, 'TRACES', problems),
    metricsUrl: urlOf(settings, 'METRICS', problems),
    format: formatOf(settings, problems),
    headers: headersOf(settings, problems),
    serviceName: settings.OTEL_SERVICE_NAME?.trim() || null,
    resource: pairsOf('OTEL_RESOURCE_ATTRIBUTES', settings.OTEL_RESOURCE_ATTRIBUTES, problems),
    sampler: readSampler(settings, problems),
    metricIntervalMs: intervalOf(settings, problems),
  };
  const isOff = options.tracesUrl === null && options.metricsUrl === null;
  const isAsked =
    settings.OTEL_EXPORTER_OTLP_ENDPOINT !== null ||
    settings.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT !== null ||
    settings.OTEL_EXPORTER_OTLP_METRICS_ENDPOINT !== null;
  // Without an address nothing of the rest matters, and a platform may set any of it.
  if (!isAsked) return { options: null, problems: [] };
  return { options: isOff || problems.length > 0 ? null : options, problems };
}

function urlOf(settings: OtelSettings, signal: 'TRACES' | 'METRICS', problems: Problems): string | null {
  const exporter = settings[`OTEL_${signal}_EXPORTER`].trim();
  if (exporter === 'none') return null;
  if (exporter !== 'otlp') problems.push(`OTEL_${signal}_EXPORTER must be otlp or none`);
  const own = settings[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`];
  const base = settings.OTEL_EXPORTER_OTLP_ENDPOINT;
  const name = own === null ? 'OTEL_EXPORTER_OTLP_ENDPOINT' : `OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`;
  const url = own ?? (base === null ? null : below(base, `/v1/${signal.toLowerCase()}`));
  if (url === null || parseWebUrl(url) !== null) return url;
  if (!problems.some((each) => each.startsWith(name)))
    problems.push(`${name} must be a URL such as http://127.0.0.1:4318`);
  return null;
}

/** The path ends where a query begins, such as one with a key for the collector. */
const below = (base: string, path: string): string => base.replace(/\/*(?=[?#]|$)/, () => path);

function formatOf({ OTEL_EXPORTER_OTLP_PROTOCOL: given }: OtelSettings, problems: Problems): OtlpFormat {
  const found = otlpFormats.find((format) => format === given.trim());
  if (found === undefined)
    problems.push(`OTEL_EXPORTER_OTLP_PROTOCOL must be ${otlpFormats.join(' or ')}; gRPC is not spoken`);
  return found ?? 'http/protobuf';
}

/** Framing belongs to the HTTP client, and the form of the body to the protocol. */
const reserved: ReadonlySet<string> = new Set([
  ...['connection', 'content-length', 'content-type', 'expect', 'host', 'keep-alive'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade'],
]);

function headersOf({ OTEL_EXPORTER_OTLP_HEADERS: given }: OtelSettings, problems: Problems) {
  const headers = pairsOf('OTEL_EXPORTER_OTLP_HEADERS', given, problems);
  const isSendable = Object.entries(headers).every(
    ([name, value]) =>
      /^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(name) &&
      !reserved.has(name.toLowerCase()) &&
      /^[\x20-\x7e]*$/.test(value),
  );
  if (!isSendable) problems.push('OTEL_EXPORTER_OTLP_HEADERS has a header that cannot be sent');
  return headers;
}

/** `name=value,name=value`, values percent-encoded where they have to be. */
function pairsOf(name: string, given: string | null, problems: Problems): Readonly<Record<string, string>> {
  const pairs = (given ?? '').split(',').filter((pair) => pair.trim() !== '');
  const read = pairs.map((pair): [string, string] | null => {
    const at = pair.indexOf('=');
    const key = pair.slice(0, at).trim();
    try {
      return at < 0 || key === '' ? null : [key, decodeURIComponent(pair.slice(at + 1).trim())];
    } catch {
      return null;
    }
  });
  const found = read.filter((pair) => pair !== null);
  if (found.length !== read.length) problems.push(`${name} must be name=value pairs, separated by commas`);
  return Object.fromEntries(found);
}

function readSampler(settings: OtelSettings, problems: Problems): Sampler {
  const argument = settings.OTEL_TRACES_SAMPLER_ARG?.trim() ?? '';
  const ratio = argument === '' ? 1 : Number(argument);
  const sampler = samplerOf(settings.OTEL_TRACES_SAMPLER.trim(), ratio);
  if (sampler === null) {
    problems.push(
      'OTEL_TRACES_SAMPLER must be always_on, always_off or traceidratio, or one of them after parentbased_',
    );
  }
  if (sampler !== null && !(sampler.ratio >= 0 && sampler.ratio <= 1))
    problems.push('OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1');
  return sampler ?? { isByParent: true, ratio: 0 };
}

function intervalOf({ OTEL_METRIC_EXPORT_INTERVAL: given }: OtelSettings, problems: Problems): number {
  const min = telemetryLimits.metricIntervalMsMin;
  const intervalMs = /^\d{1,8}$/.test(given.trim()) ? Number(given) : Number.NaN;
  if (intervalMs >= min) return intervalMs;
  problems.push(`OTEL_METRIC_EXPORT_INTERVAL must be milliseconds, ${min} at least`);
  return min;
}
