/** The protocols of OTLP that are spoken, by the names of `OTEL_EXPORTER_OTLP_PROTOCOL`. */
export const otlpFormats = ['http/protobuf', 'http/json'] as const;
export type OtlpFormat = (typeof otlpFormats)[number];
