import { attachmentLine } from './attachments.ts';
import { chainLine, type ExportWriter, endLine, manifestLine, recordLine } from './export.ts';
import { csvWriter } from './export-csv.ts';
import { jsonWriter } from './export-json.ts';

interface Format {
  readonly contentType: string;
  /** For one export. */
  readonly writer: () => ExportWriter;
}

/** The formats of an export (contract §9); the name is also the file extension. */
export const exportFormats = {
  json: { contentType: 'application/json; charset=utf-8', writer: jsonWriter },
  jsonl: {
    contentType: 'application/x-ndjson',
    writer: () => ({
      manifest: manifestLine,
      chain: chainLine,
      record: recordLine,
      attachment: attachmentLine,
      end: endLine,
    }),
  },
  csv: { contentType: 'text/csv; charset=utf-8', writer: csvWriter },
} as const satisfies Readonly<Record<string, Format>>;

export type ExportFormat = keyof typeof exportFormats;
