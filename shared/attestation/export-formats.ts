import { attachmentLine } from './attachments.ts';
import type { EnvelopeKey } from './envelope.ts';
import { chainLine, type ExportWriter, endLine, factsLine, manifestLine, recordLine } from './export.ts';
import { csvWriter } from './export-csv.ts';
import { dsseWriter } from './export-dsse.ts';
import { jsonWriter } from './export-json.ts';
import { ocsfWriter } from './export-ocsf.ts';

export type ExportFormat = 'json' | 'jsonl' | 'csv' | 'dsse' | 'ocsf';

interface Format {
  readonly contentType: string;
  /** How the name of its file ends. */
  readonly extension: string;
  /** It has headers of chains, and what the records name. */
  readonly isEvidence: boolean;
  /** For one export. */
  readonly writer: (key: EnvelopeKey) => ExportWriter;
}

const jsonLines = 'application/x-ndjson';

/** The formats of an export (contract §9). */
export const exportFormats: Readonly<Record<ExportFormat, Format>> = {
  json: {
    contentType: 'application/json; charset=utf-8',
    extension: 'json',
    isEvidence: true,
    writer: jsonWriter,
  },
  jsonl: {
    contentType: jsonLines,
    extension: 'jsonl',
    isEvidence: true,
    writer: () => ({
      manifest: manifestLine,
      chain: chainLine,
      record: recordLine,
      facts: factsLine,
      attachment: attachmentLine,
      end: endLine,
    }),
  },
  csv: {
    contentType: 'text/csv; charset=utf-8',
    extension: 'csv',
    isEvidence: false,
    writer: csvWriter,
  },
  dsse: { contentType: jsonLines, extension: 'dsse.jsonl', isEvidence: false, writer: dsseWriter },
  ocsf: { contentType: jsonLines, extension: 'ocsf.jsonl', isEvidence: false, writer: ocsfWriter },
};
